"""The arguments of a call, as an API takes them back.

A model that reached its limit leaves them cut off in the middle, and some write what is no
JSON. Servers parse them, so a conversation with such a call in it would never be taken again.
"""

import msgspec

_json = msgspec.json.Encoder()
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_object(text: str) -> bool:
    """Say whether `text` is a JSON object, and not so deep that nobody could read it."""
    try:
        _object.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def as_object(arguments: str) -> str:
    """Return `arguments` as they are if they are a JSON object, else an object around them."""
    if is_object(arguments):
        return arguments
    return _json.encode({"arguments": arguments}).decode() if arguments.strip() else "{}"
