"""The output of a process: from bytes of two pipes to redacted lines in a log."""

from collections.abc import Iterable, Sequence

from clew.core.redaction import StreamRedactor, redact
from clew.core.text import one_line
from clew.runtime.log_pages import MAX_LINE, TaskLogFile
from clew.tools.builtin.child_process import make_printable

MAX_RESULT_BYTES = 30_000
TRUNCATED = "[output truncated: the log has all of it]\n"
_MAX_PIECE = 32_768
"""Bytes of a line that is passed on before its end."""
_RECENT = 16_384
"""Characters before an unfinished line that help to recognise secrets: longer than private keys."""
_MAX_PREVIEW = 120


class OutputLines:
    """Turns the bytes of one pipe into printable lines without secrets.

    A carriage return ends a line, so a progress bar becomes several lines. A line may have to
    wait for the next one, where only both together show whether they are a secret. A very long
    line comes in parts, before its end.

    Args:
        secrets: Texts to redact besides those that look like secrets; None to redact nothing.
    """

    def __init__(self, secrets: Sequence[str] | None) -> None:
        self._secrets = secrets
        self._redactor = None if secrets is None else StreamRedactor(extra_values=secrets)
        self._bytes = bytearray()
        self._text = ""
        self._recent = ""

    def add(self, chunk: bytes) -> list[str]:
        """Add bytes, and return the lines that are complete now."""
        self._bytes += chunk
        ready = self._find_end()
        piece = bytes(self._bytes[:ready])
        del self._bytes[:ready]
        return self._add_text(make_printable(piece)) if piece else []

    def close(self) -> list[str]:
        """Return the rest, also a line without an end."""
        rest = make_printable(bytes(self._bytes))
        self._bytes.clear()
        lines = self._add_text(rest)
        if self._redactor is not None:
            self._text += self._redactor.close()
        *more, last = self._text.split("\n")
        self._text = ""
        return [*lines, *more, *([last] if last else [])]

    def read_unfinished(self) -> str:
        """Return the line that has no end yet, such as a prompt, without secrets."""
        if not self._bytes:
            return ""
        text = self._recent + make_printable(bytes(self._bytes))
        if self._secrets is not None:
            text = redact(text, extra_values=self._secrets)
        return one_line(text.rpartition("\n")[2], _MAX_PREVIEW)

    def _add_text(self, text: str) -> list[str]:
        self._recent = (self._recent + text)[-_RECENT:]
        self._text += text if self._redactor is None else self._redactor.feed(text)
        *lines, rest = self._text.split("\n")
        # A program may never end its line. The log would split it in the same places.
        end = len(rest) - len(rest) % MAX_LINE
        self._text = rest[end:]
        return [*lines, rest[:end]] if end else lines

    def _find_end(self) -> int:
        """Return how many bytes are whole lines."""
        # The last carriage return may be the first half of a line's end.
        returned = self._bytes.rfind(b"\r", 0, max(0, len(self._bytes) - 1))
        end = max(self._bytes.rfind(b"\n"), returned) + 1
        if end or len(self._bytes) < _MAX_PIECE:
            return end
        end = len(self._bytes)
        while end > _MAX_PIECE - 4 and self._bytes[end - 1] & 0xC0 == 0x80:
            end -= 1  # inside a character
        return end - 1 if self._bytes[end - 1] >= 0xC0 else end


class ProcessOutput:
    """Writes the output of a process to its log, and keeps the end of it."""

    def __init__(self, log: TaskLogFile, secrets: Sequence[str] | None) -> None:
        self._log = log
        self._streams = {name: OutputLines(secrets) for name in ("stdout", "stderr")}
        self._end = bytearray()
        self._is_truncated = False
        self._news: list[str] = []
        self._problem = ""
        self.size = 0
        """How many bytes were added."""

    def add(self, stream: str, chunk: bytes) -> None:
        """Add bytes of a stream: `stdout` or `stderr`."""
        self.size += len(chunk)
        self._add_lines(stream, self._streams[stream].add(chunk))

    def note(self, text: str) -> None:
        """Add a line of Clew itself to the log."""
        self._write("clew", [text])

    def close(self) -> None:
        """Add what has no end of line."""
        for name, stream in self._streams.items():
            self._add_lines(name, stream.close())

    def take_news(self) -> str:
        """Return the text since the last call."""
        news, self._news = self._news, []
        return "".join(news)

    def read_unfinished(self) -> str:
        """Return the line that has no end yet; the one of standard output first."""
        found = (stream.read_unfinished() for stream in self._streams.values())
        return next((line for line in found if line), "")

    def result(self) -> str:
        """Return the end of the output."""
        text = self._end.decode(errors="ignore")
        if self._is_truncated:
            first, _, rest = text.partition("\n")
            text = TRUNCATED + (rest or first)
        return f"{text}{self._problem}"

    def _add_lines(self, stream: str, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        if not text:
            return
        self._write(stream, text[:-1].split("\n"))
        self._news.append(text)
        self._end += text.encode(errors="replace")
        excess = len(self._end) - MAX_RESULT_BYTES
        if excess > 0:
            del self._end[:excess]
            self._is_truncated = True

    def _write(self, label: str, lines: Iterable[str]) -> None:
        # A full disk must not end the process: it may be what frees the space.
        try:
            self._log.add(label, lines)
        except OSError as error:
            self._problem = f"[the log is not complete: {error}]\n"
