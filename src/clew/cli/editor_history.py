"""What was typed before, in one private file that all sessions share."""

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from clew.core.redaction import redact
from clew.files.atomic import make_private_folder
from clew.files.locks import lock_descriptor

logger = logging.getLogger(__name__)

_MOST_BYTES = 2_000_000
"""When the file is longer, its older half goes."""
_TIMEOUT = 2.0
"""Seconds to wait for another session that writes now."""
_LONGEST = 20_000
"""Characters; longer ones are pastes that nobody looks for here."""


class HistoryFile:
    """A JSON text on each line, so that an entry may have several lines itself.

    Secrets are taken out before anything is written. That a line cannot be kept or read is
    never an error: nobody shall lose a prompt over it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self) -> list[str]:
        """Return all entries, the oldest first; damaged ones are left out."""
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return []
        return list(_read(lines))

    def add(self, text: str) -> None:
        """Write an entry down."""
        if len(text) > _LONGEST:
            return
        # Half of a surrogate pair, as a broken paste may leave it, is no text for a file.
        clean = redact(text).encode(errors="replace").decode()
        try:
            self._append(msgspec.json.encode(clean) + b"\n")
        except OSError as error:
            logger.debug("the history cannot be written: %s", error)

    def _append(self, line: bytes) -> None:
        make_private_folder(self._path.parent)
        file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        try:
            if os.name == "posix":
                os.fchmod(file, 0o600)
            with contextlib.suppress(TimeoutError):
                lock_descriptor(file, timeout=_TIMEOUT)
            if os.fstat(file).st_size > _MOST_BYTES:
                _shorten(file)
            os.write(file, line if _ends_whole(file) else b"\n" + line)
        finally:
            os.close(file)


def _read(lines: list[bytes]) -> Iterator[str]:
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line, type=str)


def _ends_whole(file: int) -> bool:
    """Does the file end with a line break, as it does unless a write was cut off?"""
    size = os.lseek(file, 0, os.SEEK_END)
    if not size:
        return True
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1) == b"\n"


def _shorten(file: int) -> None:
    size = os.fstat(file).st_size
    os.lseek(file, size - _MOST_BYTES // 2, os.SEEK_SET)
    _, _, kept = os.read(file, _MOST_BYTES).partition(b"\n")
    os.ftruncate(file, 0)
    os.write(file, kept)
