"""Make tool names, call ids and arguments acceptable for an API.

Models invent names, and providers accept their own variants in responses (`functions.Read:0`, an
empty name, an id of 90 characters). A strict API rejects them in requests, and with them every
later request of the conversation. The same goes for arguments that are cut off or are not JSON.
"""

import re
from base64 import b32encode
from hashlib import sha256

import msgspec
from msgspec import Struct

from clew.core.json_text import JsonDecoder

NAMELESS = "unnamed"
_DIGEST = 12
"""Characters that make a changed name unique."""


class NameRule(Struct, frozen=True, kw_only=True):
    """What an API accepts as a name or an id; by default everything but an empty string."""

    characters: str = ""
    """The allowed characters, as in a regular expression's brackets; empty for all."""
    first: str = ""
    """The allowed first characters, if they are restricted further."""
    shortest: int = 1
    longest: int = 0
    """0 for any length."""

    def accepts(self, given: str) -> bool:
        """Return whether `given` is valid."""
        if len(given) < self.shortest or (self.longest and len(given) > self.longest):
            return False
        if self.first and not re.match(f"[{self.first}]", given):
            return False
        return not self.characters or not re.search(f"[^{self.characters}]", given)


def sanitize_name(given: str, rule: NameRule) -> str:
    """Return `given` if it is valid, else a valid replacement.

    Equal names get equal replacements and different names different ones, so a call and its result
    stay a pair.
    """
    if rule.accepts(given):
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
_object = JsonDecoder(dict[str, msgspec.Raw])


def is_object(text: str) -> bool:
    """Return whether `text` is a JSON object that is not nested too deeply."""
    try:
        _object.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return True


def sanitize_arguments(arguments: str) -> str:
    """Return `arguments` if they are a JSON object, else an object that contains them."""
    if is_object(arguments):
        return arguments
    return _json.encode({"arguments": arguments}).decode() if arguments.strip() else "{}"
