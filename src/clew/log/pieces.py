"""Joining what arrives in crumbs into pieces that are worth a line."""

import codecs
import time
from collections.abc import Callable
from typing import Any

import msgspec

from clew.log.secrets import Stream
from clew.providers.protocol import Chunk

PIECE_CHARS = 4_096
PIECE_SECONDS = 1.0
_PIECE_CHUNKS = 32

Clock = Callable[[], float]


class TextPieces:
    """Text that is being written down. What is held back is at most what a `Stream` holds."""

    def __init__(self, stream: Callable[[], Stream], *, clock: Clock = time.monotonic) -> None:
        self._new_stream = stream
        self._clock = clock
        self._stream: Stream | None = None
        self._ready = ""
        self._since = 0.0

    def add(self, text: str) -> str:
        """Take in a crumb; returns a piece when there is one to write."""
        if self._stream is None:
            self._stream = self._new_stream()
            self._since = self._clock()
        self._ready += self._stream.feed(text)
        if len(self._ready) < PIECE_CHARS and self._clock() - self._since < PIECE_SECONDS:
            return ""
        return self.take()

    def take(self) -> str:
        """Return what can be written now; the text may still go on."""
        self._since = self._clock()
        ready, self._ready = self._ready, ""
        return ready

    def close(self) -> str:
        """Return all that is left: the text is over."""
        if self._stream is not None:
            self._ready += self._stream.close()
            self._stream = None
        return self.take()


class BytePieces:
    """The same for bytes; those that are no UTF-8 are written as hexadecimal escapes."""

    def __init__(self, stream: Callable[[], Stream], *, clock: Clock = time.monotonic) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
        self._text = TextPieces(stream, clock=clock)

    def add(self, data: bytes) -> str:
        """Take in some bytes; returns a piece when there is one to write."""
        return self._text.add(self._decoder.decode(data))

    def close(self) -> str:
        """Return all that is left."""
        rest = self._text.add(self._decoder.decode(b"", final=True))
        return rest + self._text.close()


class ChunkPieces:
    """Chunks of an answer, neighbours of one part joined to one."""

    def __init__(
        self,
        stream: Callable[[], Stream],
        redact: Callable[[Any], Any],
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        self._redact = redact
        self._text = TextPieces(stream, clock=clock)
        self._part: dict[str, Any] = {}
        """The chunk that is being joined, without its text."""
        self._field = ""
        self._begun = False
        """True when some of its text was handed on."""
        self._done: list[dict[str, Any]] = []
        self.count = 0
        """How many joined chunks were handed out."""

    def add(self, chunk: Chunk) -> list[dict[str, Any]]:
        """Take in a chunk; returns joined ones when there are some to write."""
        part = {"type": type(chunk).__name__, **_fields(chunk)}
        field = "arguments" if "arguments" in part else "text"
        text = part.pop(field, "")
        if part != self._part or field != self._field:
            self._end()
            self._part, self._field = part, field
            self._begun = False
        piece = self._text.add(text)
        if piece:
            self._put(piece)
        return self.take() if piece or len(self._done) >= _PIECE_CHUNKS else []

    def take(self) -> list[dict[str, Any]]:
        """Return what is joined by now."""
        done, self._done = self._done, []
        self.count += len(done)
        return done

    def close(self) -> list[dict[str, Any]]:
        """Return all that is left: the answer is over."""
        self._end()
        self._part = {}
        return self.take()

    def _end(self) -> None:
        rest = self._text.close()
        if self._part and (rest or not self._begun):
            self._put(rest)

    def _put(self, text: str) -> None:
        self._begun = True
        made = self._redact(self._part)
        self._done.append({**made, self._field: text} if text else made)


def _fields(chunk: Chunk) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(chunk)
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value is not False and value != ""
    }
