"""The file that says what was kept: one JSON line after the other, each forced to disk.

A process that dies leaves at most one line that is not whole. It tells of a change that was
not made yet, so it is cut off before the next line is written.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.checkpoints.records import VERSION, Floor, History, Record
from clew.core.errors import StoreUnavailable
from clew.core.ids import EntryId
from clew.files.atomic import replace_file, sync_folder

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


class Reading(Struct, frozen=True, kw_only=True):
    """What a manifest says."""

    history: History
    faults: int = 0
    """Lines that could not be read; what they said is lost, the rest is not."""
    length: int = 0
    """Bytes up to the end of the last whole line."""


class Manifest:
    """Reads and writes the file at `path`; has one writer. All methods block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._length: int | None = None
        self._is_named = False

    def load(self, *, floor: EntryId) -> Reading:
        """Return what the file says; if there is none, that nothing is known up to `floor`.

        Raises:
            OSError: It cannot be read.
            StoreUnavailable: A newer Clew wrote it.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            data = b""
        reading = _read(data, floor)
        if reading.history.floor.version > VERSION:
            raise StoreUnavailable(
                f"{self._path} was written by a newer Clew; update Clew to use these checkpoints"
            )
        self._length = reading.length
        return reading

    def append(self, records: Iterable[Record], *, durable: bool = True) -> None:
        """Add lines; if they are to be durable, they cannot be lost when this returns.

        Raises:
            OSError: They could not be written; the file is as it was.
        """
        data = b"".join(map(_line, records))
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            size = os.fstat(handle).st_size
            end = size if self._length is None else min(size, self._length)
            os.ftruncate(handle, end)
            os.lseek(handle, end, os.SEEK_SET)
            _write_all(handle, data)
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        if durable and not self._is_named:
            self._is_named = True
            sync_folder(self._path.parent)
            sync_folder(self._path.parent.parent)
        self._length = end + len(data)

    def replace(self, records: Iterable[Record]) -> None:
        """Write the whole file anew, in one step.

        Raises:
            OSError: It could not be written; the file is as it was.
        """
        data = b"".join(map(_line, records))
        replace_file(self._path, data, mode=0o600)
        self._length = len(data)


def _line(record: Record) -> bytes:
    return _encoder.encode(record) + b"\n"


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _read(data: bytes, floor: EntryId) -> Reading:
    whole = data[: data.rfind(b"\n") + 1]
    history = History(floor=Floor(entry=floor))
    faults = 0
    for line in whole.split(b"\n")[:-1]:
        try:
            understood = history.take(_decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            understood = False
        faults += not understood
    return Reading(history=history, faults=faults, length=len(whole))
