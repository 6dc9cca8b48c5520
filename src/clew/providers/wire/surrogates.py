"""Join characters that a server split into two surrogates.

JSON escapes a character such as an emoji as two surrogates. A server that splits its text between
them sends one half in one event and the other in the next, and no parser accepts a lone surrogate.
This module replaces each by a private-use placeholder and joins the halves when both have arrived,
per text, reasoning block and tool call.
"""

import re
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from clew.providers.protocol import CallChunk, Chunk, PartChunk, ReasoningChunk, TextChunk
from clew.providers.sse import ServerEvent

# The placeholders for the surrogates D800 to DFFF are the last private-use characters, in the
# same order.
_SHIFT = 0x10F800 - 0xD800
_FIRST, _SECOND = "[\U0010f800-\U0010fbff]", "[\U0010fc00-\U0010ffff]"
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."
)
_PAIR = re.compile(_FIRST + _SECOND)
_ALONE = re.compile("[\U0010f800-\U0010ffff]")
_ENDS_HALF = re.compile(f"{_FIRST}$")
_LOST = "\N{REPLACEMENT CHARACTER}"

C = TypeVar("C", bound=Struct)


class SurrogateJoiner:
    """Tracks one response and joins its surrogates."""

    def __init__(self) -> None:
        self.any_found = False
        """True after the first lone surrogate; before it, `join` changes nothing."""
        self._waiting: dict[tuple[type, int], str] = {}
        """First halves, by the text that they are the end of."""

    def escape_event(self, event: ServerEvent) -> ServerEvent:
        """Return `event` with a placeholder for every lone surrogate."""
        data = self.escape_text(event.data)
        return event if data is event.data else ServerEvent(data, event.name)

    def escape_text(self, text: str) -> str:
        """Return JSON with a placeholder for every lone surrogate."""
        if "\\ud" not in text and "\\uD" not in text:
            return text
        made = _ESCAPE.sub(_placeholder, text)
        if made == text:
            return text
        self.any_found = True
        return made

    def escape_body(self, data: bytes) -> bytes:
        """Return a JSON document with a placeholder for every lone surrogate."""
        if b"\\ud" not in data and b"\\uD" not in data:
            return data
        return self.escape_text(data.decode(errors="replace")).encode()

    def join(self, chunks: list[Chunk]) -> list[Chunk]:
        """Return `chunks` without placeholders; a trailing half waits for the next chunk."""
        if not self.any_found:
            return chunks
        return [self._join_chunk(chunk) for chunk in chunks]

    def _join_chunk(self, chunk: Chunk) -> Chunk:
        match chunk:
            case TextChunk(text=text, index=index):
                return replace(_repair_struct(chunk), text=self._next(TextChunk, index, text))
            case ReasoningChunk(text=text, index=index):
                return replace(_repair_struct(chunk), text=self._next(ReasoningChunk, index, text))
            case CallChunk(arguments=arguments, index=index):
                added = self._next(CallChunk, index, arguments)
                return replace(_repair_struct(chunk), arguments=added)
            case PartChunk(part=part):
                return PartChunk(_repair_struct(part))
            case _:
                return _repair_struct(chunk)

    def _next(self, kind: type, index: int, text: str) -> str:
        """Return the next delta of one text, with the half that was waiting for it."""
        if not text:
            return ""
        text = join_pairs(self._waiting.pop((kind, index), "") + text)
        if _ENDS_HALF.search(text):
            self._waiting[(kind, index)] = text[-1]
            text = text[:-1]
        return _ALONE.sub(_LOST, text)


def join_pairs(text: str) -> str:
    """Return `text` with surrogate pairs joined; lone placeholders stay."""
    return _PAIR.sub(_character, text)


def repair_surrogates(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone ones replaced by U+FFFD."""
    return _ALONE.sub(_LOST, join_pairs(text))


def _repair_struct(struct: C) -> C:
    """Return a chunk or a part with all of its texts repaired."""
    changed: dict[str, Any] = {
        name: repair_surrogates(value)
        for name in struct.__struct_fields__
        if isinstance(value := getattr(struct, name), str) and _ALONE.search(value)
    }
    return replace(struct, **changed) if changed else struct


def _placeholder(found: re.Match[str]) -> str:
    half = found["half"]
    return found[0] if half is None else chr(int(half, 16) + _SHIFT)


def _character(pair: re.Match[str]) -> str:
    first, second = (ord(half) - _SHIFT for half in pair[0])
    return chr(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
