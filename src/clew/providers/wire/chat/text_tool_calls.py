"""Tool calls that a model wrote as text, read back into a name and arguments."""

import re
from enum import StrEnum

import msgspec
from msgspec import Struct

QUOTE = '<|"|>'
"""What Gemma puts around a text."""

_json = msgspec.json.Encoder()
_object = msgspec.json.Decoder(dict[str, object])


class CallSyntax(StrEnum):
    """How a model writes a call."""

    GEMMA = "gemma"
    """`name{key:<|"|>text<|"|>,count:3}`, as Gemma 4 does."""
    JSON = "json"
    """`{"name": …, "arguments": {…}}`, as LM Studio teaches models without a form of their own."""


class _Call(Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


_call = msgspec.json.Decoder(_Call)
_TOKEN = re.compile(
    r'<\|"\|>(?P<text>.*?)<\|"\|>'
    r'|(?P<json>"(?:[^"\\]|\\.)*")'
    r"|(?P<mark>[{}\[\]:,])"
    r'|(?P<bare>[^\s{}\[\]:,"<]+)'
    r"|\s+",
    re.DOTALL,
)
_KEY = re.compile(r"\s*:")


def parse_call(text: str, form: CallSyntax) -> tuple[str, str] | None:
    """Return name and arguments of the call that `text` is; None if it is none."""
    match form:
        case CallSyntax.GEMMA:
            return _gemma(text.strip())
        case CallSyntax.JSON:
            return _plain(text)


def _gemma(text: str) -> tuple[str, str] | None:
    name, brace, rest = text.partition("{")
    arguments = _as_json(brace + rest)
    return (name.strip(), arguments) if name.strip() and _is_object(arguments) else None


def _as_json(text: str) -> str:
    """Return `text` with its keys and strings quoted as JSON quotes them."""
    found: list[str] = []
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            return ""
        place = token.end()
        found.append(_token(token, is_key=_KEY.match(text, place) is not None))
    return "".join(found)


def _token(token: re.Match[str], *, is_key: bool) -> str:
    text, bare = token["text"], token["bare"]
    if text is not None:
        return _json.encode(text).decode()
    if bare is not None and is_key:
        return _json.encode(bare).decode()
    return token[0].strip()


def _plain(text: str) -> tuple[str, str] | None:
    try:
        found = _call.decode(text)
    except msgspec.DecodeError:
        return None
    arguments = bytes(found.arguments).decode()
    return (found.name, arguments) if _is_object(arguments) else None


def _is_object(text: str) -> bool:
    try:
        _object.decode(text)
    except msgspec.DecodeError:
        return False
    return True
