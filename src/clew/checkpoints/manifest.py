"""The manifest of checkpoints: one JSON line per event, each forced to disk.

A process that dies leaves at most one incomplete line. It belongs to a change that was not made
yet, so the next write removes it.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from clew.checkpoints.path_states import PathState
from clew.checkpoints.values import CheckpointCause
from clew.core.errors import StoreUnavailable
from clew.core.ids import EntryId
from clew.core.json_text import JsonDecoder
from clew.files.atomic import replace_file, sync_folder

MANIFEST_VERSION = 1


class FloorRecord(Struct, frozen=True, kw_only=True, tag_field="line", tag="floor"):
    """The first line: nothing is kept of what happened up to `entry`."""

    entry: EntryId
    number: int = 0
    """The number of the last deleted checkpoint."""
    version: int = MANIFEST_VERSION


class BeginRecord(Struct, frozen=True, kw_only=True, tag_field="line", tag="begin"):
    """A checkpoint began."""

    number: int
    cause: CheckpointCause
    entry: EntryId
    at: float
    words: str = ""


class KeepRecord(Struct, frozen=True, kw_only=True, tag_field="line", tag="keep"):
    """The state of a path before its first change."""

    number: int
    path: str
    state: PathState


class FinalState(Struct, frozen=True, kw_only=True):
    """The state of a path after a turn, and how many lines differ from the kept state."""

    state: PathState
    added: int | None = None
    """None if lines cannot be counted."""
    removed: int | None = None


class SealRecord(Struct, frozen=True, kw_only=True, tag_field="line", tag="seal"):
    """A checkpoint ended, with the final state of each path it kept."""

    number: int
    last: EntryId
    left: dict[str, FinalState]


ManifestRecord: TypeAlias = FloorRecord | BeginRecord | KeepRecord | SealRecord

_encoder = msgspec.json.Encoder()
_decoder: JsonDecoder[ManifestRecord] = JsonDecoder(ManifestRecord)


class Checkpoint(Struct, kw_only=True):
    """The files of one turn, or of one restore, as they were before it and after it."""

    number: int
    cause: CheckpointCause
    first: EntryId
    """The prompt of the turn, or the entry that records the restore."""
    last: EntryId | None = None
    """The last entry; None while the checkpoint is running."""
    at: float
    words: str = ""
    """The first words of the prompt."""
    kept: dict[str, PathState] = field(default_factory=dict)
    left: dict[str, FinalState] = field(default_factory=dict)

    def records(self) -> list[ManifestRecord]:
        """Return the lines that describe this checkpoint."""
        begin = BeginRecord(
            number=self.number, cause=self.cause, entry=self.first, at=self.at, words=self.words
        )
        kept = [KeepRecord(number=self.number, path=p, state=s) for p, s in self.kept.items()]
        if self.last is None:
            return [begin, *kept]
        return [begin, *kept, SealRecord(number=self.number, last=self.last, left=self.left)]


class CheckpointHistory(Struct, kw_only=True):
    """All checkpoints of a session, oldest first."""

    floor: FloorRecord
    checkpoints: list[Checkpoint] = field(default_factory=list)

    @property
    def running(self) -> Checkpoint | None:
        """The checkpoint that has not ended yet, if there is one."""
        newest = self.checkpoints[-1] if self.checkpoints else None
        return newest if newest is not None and newest.last is None else None

    @property
    def next_number(self) -> int:
        """The number of the next checkpoint."""
        return 1 + (self.checkpoints[-1].number if self.checkpoints else self.floor.number)

    @property
    def next_entry(self) -> EntryId:
        """The first entry that no checkpoint covers yet."""
        newest = self.checkpoints[-1] if self.checkpoints else None
        last = self.floor.entry if newest is None else newest.last or newest.first
        return EntryId(last + 1)

    def since(self, entry: EntryId) -> list[Checkpoint]:
        """Return the checkpoints from the turn of `entry` on, oldest first.

        A change just before a prompt, made outside a turn or by an interrupted restore, may
        have the prompt's number; the checkpoint of the prompt is preferred.
        """
        for index, checkpoint in reversed(list(enumerate(self.checkpoints))):
            if checkpoint.cause == "turn" and checkpoint.first == entry:
                return self.checkpoints[index:]
        for index in range(len(self.checkpoints)):
            if self._end(index) >= entry:
                return self.checkpoints[index:]
        return []

    def apply(self, record: ManifestRecord) -> bool:
        """Add one line; return False if its checkpoint does not exist."""
        match record:
            case FloorRecord():
                self.floor = record
            case BeginRecord(number=number, cause=cause, entry=entry, at=at, words=words):
                self.checkpoints.append(
                    Checkpoint(number=number, cause=cause, first=entry, at=at, words=words)
                )
            case KeepRecord(path=path, state=state):
                if (found := self._find_checkpoint(record.number)) is None:
                    return False
                found.kept.setdefault(path, state)
            case SealRecord(last=last, left=left):
                if (found := self._find_checkpoint(record.number)) is None:
                    return False
                found.last, found.left = last, left
        return True

    def records(self) -> Iterable[ManifestRecord]:
        """Return the lines that describe all checkpoints."""
        yield self.floor
        for checkpoint in self.checkpoints:
            yield from checkpoint.records()

    def _end(self, index: int) -> EntryId:
        """Return the last entry of a checkpoint; one that was never sealed lasts to the next."""
        last = self.checkpoints[index].last
        if last is None and index + 1 < len(self.checkpoints):
            return EntryId(self.checkpoints[index + 1].first - 1)
        return EntryId(sys.maxsize) if last is None else last

    def _find_checkpoint(self, number: int) -> Checkpoint | None:
        return next((c for c in reversed(self.checkpoints) if c.number == number), None)


class ManifestContent(Struct, frozen=True, kw_only=True):
    """What a manifest file says."""

    history: CheckpointHistory
    faults: int = 0
    """Lines that could not be read; the others are not affected."""
    length: int = 0
    """Bytes up to the end of the last complete line."""


class CheckpointManifest:
    """Reads and writes the file at `path`; has one writer. All methods block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._length: int | None = None
        self._is_named = False

    def load(self, *, floor: EntryId) -> ManifestContent:
        """Return the content of the file; if there is none, nothing is known up to `floor`.

        Raises:
            OSError: The file cannot be read.
            StoreUnavailable: A newer Clew wrote it.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            data = b""
        content = _parse(data, floor)
        if content.history.floor.version > MANIFEST_VERSION:
            raise StoreUnavailable(
                f"{self._path} was written by a newer Clew; update Clew to use these checkpoints"
            )
        self._length = content.length
        return content

    def append(self, records: Iterable[ManifestRecord], *, durable: bool = True) -> None:
        """Add lines; if `durable`, they survive a power cut when this returns.

        Raises:
            OSError: They cannot be written; the file is unchanged.
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

    def replace(self, records: Iterable[ManifestRecord]) -> None:
        """Replace the whole file atomically.

        Raises:
            OSError: It cannot be written; the file is unchanged.
        """
        data = b"".join(map(_line, records))
        replace_file(self._path, data, mode=0o600)
        self._length = len(data)


def _line(record: ManifestRecord) -> bytes:
    return _encoder.encode(record) + b"\n"


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _parse(data: bytes, floor: EntryId) -> ManifestContent:
    whole = data[: data.rfind(b"\n") + 1]
    history = CheckpointHistory(floor=FloorRecord(entry=floor))
    faults = 0
    for line in whole.split(b"\n")[:-1]:
        try:
            understood = history.apply(_decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            understood = False
        faults += not understood
    return ManifestContent(history=history, faults=faults, length=len(whole))
