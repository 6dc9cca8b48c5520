"""Redaction for the log, and buffers that merge streamed text into fewer, redacted lines.

A secret may be split between two deltas. Buffers therefore redact text as a stream, and hold back
the end of it until no secret can continue there.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from clew.core.redaction import Redactor, StreamRedactor
from clew.providers.protocol import Chunk

_BUFFER_CHARS = 4_096
_BUFFER_SECONDS = 1.0
_BUFFER_CHUNKS = 32


class Redaction:
    """Removes secrets before anything reaches the disk.

    Args:
        extra_keys: More names of secrets.
        extra_values: More texts to hide wherever they appear.
    """

    def __init__(self, *, extra_keys: Iterable[str] = (), extra_values: Iterable[str] = ()) -> None:
        self._keys, self._values = tuple(extra_keys), tuple(extra_values)
        self._redactor = Redactor(self._keys, self._values)

    def value(self, value: Any) -> Any:
        """Return a copy of `value` without secrets."""
        return self._redactor.redact(value)

    def stream(self) -> StreamRedactor:
        """Return a redactor for streamed text; its output may lag behind its input."""
        return StreamRedactor(self._keys, self._values)

    def hide(self, values: Iterable[str]) -> None:
        """Redact more texts from now on: the keys that a session knows."""
        self._values = tuple(dict.fromkeys((*self._values, *values)))
        self._redactor = Redactor(self._keys, self._values)


class LogTextBuffer:
    """Merges text deltas until they fill a line or a second has passed."""

    def __init__(self, stream: Callable[[], StreamRedactor]) -> None:
        self._new_stream = stream
        self._stream: StreamRedactor | None = None
        self._ready = ""
        self._since = 0.0

    def add(self, text: str) -> str:
        """Add a delta; returns text when there is enough of it to write."""
        if self._stream is None:
            self._stream = self._new_stream()
            self._since = time.monotonic()
        self._ready += self._stream.feed(text)
        if len(self._ready) < _BUFFER_CHARS and time.monotonic() - self._since < _BUFFER_SECONDS:
            return ""
        return self.take()

    def take(self) -> str:
        """Return the text that can be written now; more may follow."""
        self._since = time.monotonic()
        ready, self._ready = self._ready, ""
        return ready

    def close(self) -> str:
        """Return all remaining text: the stream ended."""
        if self._stream is not None:
            self._ready += self._stream.close()
            self._stream = None
        return self.take()


class ChunkBuffer:
    """Merges consecutive chunks that differ only in their text."""

    def __init__(self, redaction: Redaction) -> None:
        self._redact = redaction.value
        self._text = LogTextBuffer(redaction.stream)
        self._current: dict[str, Any] = {}
        """The chunk that is being merged, without its text."""
        self._field = ""
        self._is_started = False
        """True when part of its text was returned."""
        self._merged: list[dict[str, Any]] = []
        self.count = 0
        """How many merged chunks were returned."""

    def add(self, chunk: Chunk) -> list[dict[str, Any]]:
        """Add a chunk; returns merged chunks when there are enough to write."""
        fields = {"type": type(chunk).__name__, **msgspec.to_builtins(chunk)}
        fields = {k: v for k, v in fields.items() if v is not None and v is not False and v != ""}
        field = "arguments" if "arguments" in fields else "text"
        text = fields.pop(field, "")
        if (fields, field) != (self._current, self._field):
            self._finish()
            self._current, self._field, self._is_started = fields, field, False
        ready = self._text.add(text)
        if ready:
            self._put(ready)
        return self._take() if ready or len(self._merged) >= _BUFFER_CHUNKS else []

    def close(self) -> list[dict[str, Any]]:
        """Return all remaining chunks: the response ended."""
        self._finish()
        self._current = {}
        return self._take()

    def _take(self) -> list[dict[str, Any]]:
        merged, self._merged = self._merged, []
        self.count += len(merged)
        return merged

    def _finish(self) -> None:
        rest = self._text.close()
        if self._current and (rest or not self._is_started):
            self._put(rest)

    def _put(self, text: str) -> None:
        self._is_started = True
        chunk = self._redact(self._current)
        self._merged.append({**chunk, self._field: text} if text else chunk)
