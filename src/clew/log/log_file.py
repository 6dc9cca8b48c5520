"""The file of a session log: private, append-only, one write for each line."""

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.json_text import JsonDecoder
from clew.core.text import make_encodable
from clew.files.atomic import make_private_folder, replace_file
from clew.log.buffer import Redaction
from clew.log.content_store import (
    PAYLOAD_KEY,
    ContentIndex,
    escape_key,
    payload_folder,
    sha256,
)
from clew.log.events import LogEvent

logger = logging.getLogger(__name__)

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_BLOCK = 65_536


class LogTail(Struct, frozen=True, kw_only=True):
    """The end of an existing log: its last number, and its last `history_mutation`."""

    seq: int
    event: str
    entry_id: int = 0
    sha256: str = ""


_tail = JsonDecoder(LogTail)


def log_path(folder: Path, session_id: str) -> Path:
    """Return the path of a session's log; an id that is not a safe file name is rewritten."""
    name = session_id
    if not _SAFE_NAME.fullmatch(session_id):
        plain = re.sub(r"[^A-Za-z0-9]+", "-", session_id)[:60].strip("-")
        name = f"{plain}-{sha256(session_id.encode())[:12]}"
    return folder / f"{name}.jsonl"


class LogFile:
    """Writes events as numbered, dated and redacted lines, and large fields to private files.

    After a failed write, the next one starts a new line.
    """

    def __init__(self, *, redaction: Redaction, limit: int, clock: Callable[[], float]) -> None:
        """Create a log that is not open yet.

        Args:
            redaction: Applied to everything before it is written.
            limit: Fields with more bytes go to payload files.
            clock: Returns seconds since the epoch.
        """
        self.redaction = redaction
        self.contents = ContentIndex(redaction.value)
        """What the file contains; forgotten when lines are lost."""
        self.warn: Callable[[str], None] = logger.warning
        """Called once for each reason why the file cannot be written."""
        self._limit = limit
        self._clock = clock
        self._session_id = ""
        self._path: Path | None = None
        self._file = -1
        self._stored: set[str] = set()
        """The names of payload files that are complete."""
        self._seq = 0
        self._is_torn = False
        self._reported: set[str] = set()

    def open(self, path: Path, session_id: str) -> LogTail:
        """Create the log at `path`, or continue it; returns where it ended.

        Raises:
            OSError: The file cannot be opened.
        """
        self.close()
        self.contents.reset()
        self._path = path
        make_private_folder(path.parent)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        try:
            os.fchmod(self._file, 0o600)
            tail = _read_tail(self._file)
            self._is_torn = bool(next(_lines_backwards(self._file)))
        except BaseException:
            self.close()
            raise
        self._stored.clear()
        self._session_id = session_id
        self._seq = tail.seq
        return tail

    @property
    def next_seq(self) -> int:
        """The number of the next line."""
        return self._seq + 1

    def write(self, event: LogEvent, *, redacted: bool = False) -> None:
        """Write one event; with `redacted`, the caller already removed its secrets.

        Raises:
            OSError: The line may be missing or incomplete.
        """
        fields: dict[str, Any] = msgspec.to_builtins(event, str_keys=True, enc_hook=str)
        if not redacted:
            fields = self.redaction.value(fields)
        if self._file < 0:
            return
        self._seq += 1
        stamp = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        fields = {"seq": self._seq, "timestamp": stamp, "session_id": self._session_id, **fields}
        try:
            line = self._encode(fields)
        except UnicodeEncodeError:
            line = self._encode(make_encodable(fields))
        view = memoryview(b"\n" + line + b"\n" if self._is_torn else line + b"\n")
        self._is_torn = True
        while view:
            view = view[os.write(self._file, view) :]
        self._is_torn = False

    def _encode(self, fields: dict[str, Any]) -> bytes:
        """Return the JSON of `fields`, with references for large values."""
        line = msgspec.json.encode(fields)
        if len(line) <= self._limit and PAYLOAD_KEY.encode() not in line:
            return line
        return msgspec.json.encode({key: self._shrink(value) for key, value in fields.items()})

    def _shrink(self, value: Any) -> Any:
        """Return `value`, or a reference if it is too large even after its parts have shrunk."""
        match value:
            case str():
                return self._store(value, value.encode(), "txt")
            case dict():
                value = {escape_key(key): self._shrink(inner) for key, inner in value.items()}
                return self._store(value, msgspec.json.encode(value), "json")
            case list() | tuple():
                value = [self._shrink(inner) for inner in value]
                return self._store(value, msgspec.json.encode(value), "json")
            case _:
                return value

    def _store(self, value: Any, data: bytes, suffix: str) -> Any:
        if len(data) <= self._limit or self._path is None:
            return value
        name = f"{sha256(data)}.{suffix}"
        path = payload_folder(self._path) / name
        if name not in self._stored:
            if not path.is_file() or path.stat().st_size != len(data):
                make_private_folder(path.parent)
                replace_file(path, data, mode=0o600, durable=False)
            self._stored.add(name)
        return {PAYLOAD_KEY: name, "bytes": len(data)}

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Catch every failure in the block, so that no run breaks; report each reason once."""
        try:
            yield
        except Exception as error:
            self.contents.reset()
            reason = str(error.strerror if isinstance(error, OSError) else repr(error))
            if reason not in self._reported:
                self._reported.add(reason)
                logger.exception("the session log failed")
                self.warn(f"the session log {self._path or ''} cannot be written: {reason}")

    def close(self) -> None:
        """Close the file; harmless when called again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _read_tail(file: int) -> LogTail:
    """Read the file from its end, so that the time does not depend on its length."""
    seq = 0
    for line in _lines_backwards(file):
        try:
            tail = _tail.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        seq = max(seq, tail.seq)
        if tail.event == "history_mutation":
            return replace(tail, seq=seq)
    return LogTail(seq=seq, event="")


def _lines_backwards(file: int) -> Iterator[bytes]:
    """Yield the text after the last line break, then the lines before it."""
    end = os.fstat(file).st_size
    rest = b""
    while end > 0:
        start = max(0, end - _BLOCK)
        rest = os.pread(file, end - start, start) + rest
        first, *lines = rest.split(b"\n")
        yield from reversed(lines)
        rest, end = first, start
    yield rest
