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
    """Merges text deltas, and writes them when they fill a line or a second has passed."""

    def __init__(self, redaction: Redaction, write: Callable[[str], None]) -> None:
        self._redaction = redaction
        self._write = write
        self._stream: StreamRedactor | None = None
        self._ready = ""
        self._since = 0.0

    def add(self, text: str) -> None:
        """Add a delta."""
        if self._stream is None:
            self._stream = self._redaction.stream()
            self._since = time.monotonic()
        self._ready += self._stream.feed(text)
        is_late = time.monotonic() - self._since >= _BUFFER_SECONDS
        if is_late or len(self._ready) >= _BUFFER_CHARS:
            self.flush()

    def flush(self, *, is_over: bool = False) -> None:
        """Write the text that is ready, or with `is_over` all text: the stream ended."""
        if is_over and self._stream is not None:
            self._ready += self._stream.close()
            self._stream = None
        self._since = time.monotonic()
        ready, self._ready = self._ready, ""
        if ready:
            self._write(ready)


class ChunkBuffer:
    """Merges consecutive chunks that differ only in their text, and writes each merged chunk."""

    def __init__(self, redaction: Redaction, write: Callable[[dict[str, Any]], None]) -> None:
        self._redact = redaction.value
        self._write = write
        self._text = LogTextBuffer(redaction, self._write_merged)
        self._current: tuple[dict[str, Any], str] = ({}, "")
        """The chunk that is being merged, and the name of its text."""
        self._is_written = True
        """True when a part of it was written."""

    def add(self, chunk: Chunk) -> None:
        """Add a chunk; one that differs from the last one ends that one."""
        fields = {"type": type(chunk).__name__, **msgspec.to_builtins(chunk)}
        fields = {k: v for k, v in fields.items() if v is not None and v is not False and v != ""}
        field = "arguments" if "arguments" in fields else "text"
        text = fields.pop(field, "")
        if (fields, field) != self._current:
            self.flush()
            self._current, self._is_written = (fields, field), False
        self._text.add(text)

    def flush(self) -> None:
        """Write the rest of the last chunk."""
        self._text.flush(is_over=True)
        if not self._is_written:
            self._write_merged("")

    def _write_merged(self, text: str) -> None:
        self._is_written = True
        fields, field = self._current
        self._write(self._redact(fields) | ({field: text} if text else {}))
