"""The file of a log: lines are appended, each with one write, and only its owner can read it."""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.files.atomic import make_private_folder

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_BLOCK = 65_536


class Tail(Struct, frozen=True, kw_only=True):
    """Where a log ended when it was last written to."""

    seq: int = 0
    entry_id: int = 0
    """The last entry of the history that it holds."""
    sha256: str = ""
    is_torn: bool = False
    """True when the last line is not whole."""


class _Head(Struct, frozen=True):
    seq: int
    event: str
    entry_id: int = 0
    sha256: str = ""


_head = msgspec.json.Decoder(_Head)


def log_path(folder: Path, session_id: str) -> Path:
    """Return where the log of a session lies; an id that is no file name is spelt as one."""
    name = session_id
    if not _SAFE.fullmatch(session_id):
        plain = re.sub(r"[^A-Za-z0-9]+", "-", session_id)[:60].strip("-")
        name = f"{plain}-{hashlib.sha256(session_id.encode()).hexdigest()[:12]}"
    return folder / f"{name}.jsonl"


def payload_folder(path: Path) -> Path:
    """Return where the large fields of the log at `path` lie."""
    return path.with_suffix(".payloads")


class LogFile:
    """A log that is being written. A write that failed is made good by the next that does not."""

    def __init__(self, path: Path) -> None:
        make_private_folder(path.parent)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        try:
            os.fchmod(self._file, 0o600)
            self.tail = _tail(self._file)
        except BaseException:
            os.close(self._file)
            raise
        self._is_torn = self.tail.is_torn

    def append(self, line: bytes) -> None:
        """Write one line, with its end; when this returns, the process may die."""
        data = b"\n" + line + b"\n" if self._is_torn else line + b"\n"
        self._is_torn = True
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        self._is_torn = False

    def close(self) -> None:
        """Let go of the file; harmless when called again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _tail(file: int) -> Tail:
    """Read backwards as far as needed, so that a long log opens as fast as a short one."""
    seq = 0
    is_torn = False
    for place, line in enumerate(_backwards(file)):
        if place == 0:
            is_torn = bool(line)
        try:
            head = _head.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        seq = seq or head.seq
        if head.event == "history_mutation":
            return Tail(
                seq=max(seq, head.seq), entry_id=head.entry_id, sha256=head.sha256, is_torn=is_torn
            )
    return Tail(seq=seq, is_torn=is_torn)


def _backwards(file: int) -> Iterator[bytes]:
    """Yield what stands after the last line end, and then the lines before it."""
    end = os.fstat(file).st_size
    rest = b""
    while end > 0:
        start = max(0, end - _BLOCK)
        rest = os.pread(file, end - start, start) + rest
        first, *lines = rest.split(b"\n")
        yield from reversed(lines)
        rest, end = first, start
    yield rest
