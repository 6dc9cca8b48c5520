"""Parse tool calls that a model wrote as text, complete or still arriving.

The text of an incomplete call is held back, and would be lost if the response broke off. So it is
held only while it can still become a call of an existing tool.
"""

import re
from collections.abc import Collection
from enum import StrEnum

import msgspec
from msgspec import Struct

from clew.core.json_text import JsonDecoder

QUOTE = '<|"|>'
"""Gemma's quotation mark."""

_json = msgspec.json.Encoder()
_object = JsonDecoder(dict[str, object])


class CallSyntax(StrEnum):
    """How a model writes a tool call."""

    GEMMA = "gemma"
    """`name{key:<|"|>text<|"|>,count:3}`, the syntax of Gemma 4."""
    JSON = "json"
    """`{"name": …, "arguments": {…}}`, which LM Studio teaches models without a syntax of their
    own."""


class _Call(Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


_call = JsonDecoder(_Call)
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
    """Return name and arguments of the call in `text`, or None if it is not a call."""
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
    """Return `text` with its keys and strings quoted as in JSON."""
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


LONGEST = 1 << 16
"""Characters of one call; longer text is not a call."""

_MARKS = re.compile(r'[{}"]')
_GEMMA_MARKS = re.compile(rf'{re.escape(QUOTE)}|[{{}}"]')
_IN_TEXT = re.compile(r'\\.?|"', re.DOTALL)
_IN_QUOTE = re.compile(re.escape(QUOTE))
_KEYS = ('"name"', '"arguments"')


class PartialTextCall:
    """Follows one call; each method receives the whole text so far."""

    def __init__(self, form: CallSyntax, closing: str, tools: Collection[str]) -> None:
        self._form = form
        self._closing = closing
        self._tools = tools
        self._is_named = False
        self._at = self._depth = self._end = 0
        self._quote = ""

    def can_continue(self, text: str) -> bool:
        """Return whether `text` can still become a call.

        Once it cannot, it never can, wherever the text is split.
        """
        if not self._is_named and not self._begins(text):
            return False
        self._follow(text)
        if self._end:
            return self._closing.startswith(text[self._end :].lstrip())
        return len(text) - suffix_overlap(text, self._closing) <= LONGEST

    def _begins(self, text: str) -> bool:
        """Return whether `text` starts like a call of one of the tools."""
        match self._form:
            case CallSyntax.GEMMA:
                name, brace, _ = text.partition("{")
                return self._is_tool(name.strip(), complete=bool(brace))
            case CallSyntax.JSON:
                return self._begins_object(text.lstrip())

    def _begins_object(self, text: str) -> bool:
        inside = text[1:].lstrip()
        if text[:1] not in {"", "{"}:
            return False
        key = next((key for key in _KEYS if inside.startswith(key)), None)
        if key != _KEYS[0]:
            return key is not None or any(each.startswith(inside) for each in _KEYS)
        colon = inside.removeprefix(key).lstrip()
        value = colon[1:].lstrip()
        if colon[:1] not in {"", ":"} or value[:1] not in {"", '"'}:
            return False
        name, quote, _ = value[1:].partition('"')
        return self._is_tool(name, complete=bool(quote))

    def _is_tool(self, name: str, *, complete: bool) -> bool:
        if complete:
            self._is_named = name in self._tools
            return self._is_named
        return any(tool.startswith(name) for tool in self._tools)

    def _follow(self, text: str) -> None:
        """Advance to the end of the object; no character is scanned twice."""
        stop = len(text)
        if self._form is CallSyntax.GEMMA:
            stop -= suffix_overlap(text, QUOTE)
        while not self._end and (mark := self._marks().search(text, self._at, stop)):
            if mark[0] == "\\":
                # The escaped character has not arrived yet.
                self._at = mark.start()
                return
            self._at = mark.end()
            self._take(mark[0])
        self._at = max(self._at, stop)

    def _marks(self) -> re.Pattern[str]:
        if self._quote:
            return _IN_QUOTE if self._quote == QUOTE else _IN_TEXT
        return _GEMMA_MARKS if self._form is CallSyntax.GEMMA else _MARKS

    def _take(self, mark: str) -> None:
        if self._quote:
            self._quote = "" if mark == self._quote else self._quote
        elif mark in {QUOTE, '"'}:
            self._quote = mark
        else:
            self._depth += 1 if mark == "{" else -1
            self._end = self._at if self._depth <= 0 else 0


def suffix_overlap(text: str, mark: str) -> int:
    """Return how many characters at the end of `text` may be the start of `mark`."""
    sizes = range(min(len(mark) - 1, len(text)), 0, -1)
    return next((size for size in sizes if text.endswith(mark[:size])), 0)
