"""Names and ids as an API takes them.

Models make up names, and providers let each other's spellings pass in their own answers
(`functions.Read:0`, nothing at all, an id of 90 characters). In what it is sent, a strict API
rejects them, and with them every further request of the conversation.
"""

import re
from base64 import b32encode
from hashlib import sha256

import msgspec
from msgspec import Struct

NAMELESS = "unnamed"
_DIGEST = 12
"""Characters that tell a changed name from all others."""


class NameRule(Struct, frozen=True, kw_only=True):
    """What an API takes as a name or an id; the defaults take all but an empty one."""

    characters: str = ""
    """Those that are allowed, as between the brackets of a regular expression; empty for all."""
    first: str = ""
    """Those that it may begin with, where not all of them may."""
    shortest: int = 1
    longest: int = 0
    """0 for any length."""

    def takes(self, given: str) -> bool:
        """Say whether `given` is fine as it is."""
        if len(given) < self.shortest or (self.longest and len(given) > self.longest):
            return False
        if self.first and not re.match(f"[{self.first}]", given):
            return False
        return not self.characters or not re.search(f"[^{self.characters}]", given)


def sanitize_name(given: str, rule: NameRule) -> str:
    """Return `given` if `rule` takes it, else a name of its own that the rule takes.

    Equal ones stay equal and different ones different, so a call and its result stay a pair.
    """
    if rule.takes(given):
        return given
    digest = b32encode(sha256(given.encode(errors="replace")).digest()).decode().lower()
    plain = given or NAMELESS
    if rule.characters:
        plain = re.sub(f"[^{rule.characters}]", "_", plain)
    if not plain[0].isalpha():
        plain = f"_{plain}"
    room = rule.longest - _DIGEST - 1 if rule.longest else len(plain)
    return f"{plain[:room]}_{digest[:_DIGEST]}" if room > 0 else digest[: rule.longest]


_json = msgspec.json.Encoder()
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_object(text: str) -> bool:
    """Say whether `text` is a JSON object, and not so deep that nobody could read it."""
    try:
        _object.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def sanitize_arguments(arguments: str) -> str:
    """Return `arguments` as they are if they are a JSON object, else an object around them."""
    if is_object(arguments):
        return arguments
    return _json.encode({"arguments": arguments}).decode() if arguments.strip() else "{}"
