"""The folder of one session: its manifest, its contents, and what both say together."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from clew.checkpoints.blobs import Blobs
from clew.checkpoints.listing import compare
from clew.checkpoints.manifest import Manifest
from clew.checkpoints.records import (
    Began,
    Checkpoint,
    Floor,
    History,
    Kept,
    Left,
    Record,
    Sealed,
)
from clew.checkpoints.retention import digests, surplus
from clew.checkpoints.states import State, examine, name
from clew.checkpoints.values import Limits
from clew.core.ids import EntryId
from clew.files.atomic import make_private_folder

logger = logging.getLogger(__name__)


class Shelf:
    """What was kept is on disk before it counts. One user at a time; methods may raise OSError.

    Args:
        folder: Made when something is to be kept.
        floor: Up to which entry nothing can be known, if there is no manifest yet.
        limits: How much is kept.
    """

    def __init__(self, folder: Path, *, floor: EntryId, limits: Limits) -> None:
        self._folder = folder
        self._floor = floor
        self._limits = limits
        self._manifest = Manifest(folder / "manifest.jsonl")
        self._history: History | None = None
        self._unwritten: list[Record] = []
        self.blobs = Blobs(folder / "blobs")

    @property
    def history(self) -> History:
        """What is kept, read when it is first asked for."""
        if self._history is None:
            reading = self._manifest.load(floor=self._floor)
            if reading.faults:
                logger.warning("%s: %d lines cannot be read", self._folder, reading.faults)
            self._history = reading.history
        return self._history

    def begin(self, began: Began) -> Checkpoint:
        """Begin a checkpoint; what goes on must have been sealed.

        It is written down with the first file that it keeps, or when it is sealed: a turn
        that changes nothing does not wait for the disk.
        """
        history = self.history
        make_private_folder(self._folder)
        self._unwritten += [began] if history.checkpoints else [history.floor, began]
        history.take(began)
        return history.checkpoints[-1]

    def keep(self, checkpoint: Checkpoint, paths: Iterable[Path]) -> None:
        """Keep what stands at each path, unless the checkpoint has it already."""
        fresh = dict.fromkeys(path for path in paths if name(path) not in checkpoint.kept)
        kept = [
            Kept(
                number=checkpoint.number,
                path=name(path),
                state=self.blobs.capture(path, limit=self._limits.file_bytes),
            )
            for path in fresh
        ]
        if kept:
            self._write(kept)
        for record in kept:
            self.history.take(record)

    def seal(self, checkpoint: Checkpoint, *, last: EntryId) -> None:
        """Note what a checkpoint left at each of its paths, and that it is over."""
        left = {path: self.compare(path, state) for path, state in checkpoint.kept.items()}
        sealed = Sealed(number=checkpoint.number, last=last, left=left)
        self._write([sealed], durable=bool(left))
        self.history.take(sealed)

    def examine(self, path: Path) -> State:
        """Return what stands at a path now."""
        return examine(path, limit=self._limits.file_bytes)

    def compare(self, path: str, before: State) -> Left:
        """Return what stands at a path now, compared with what was kept of it."""
        return compare(path, before, self.blobs, limit=self._limits.file_bytes)

    def _write(self, records: Sequence[Record], *, durable: bool = True) -> None:
        self._manifest.append([*self._unwritten, *records], durable=durable)
        self._unwritten.clear()

    def prune(self) -> None:
        """Let the oldest checkpoints go until the rest is within the limits."""
        history = self.history
        count = surplus(history.checkpoints, self._limits)
        if not count:
            return
        gone, rest = history.checkpoints[:count], history.checkpoints[count:]
        last = gone[-1].last or EntryId(rest[0].first - 1)
        floor = Floor(entry=last, number=gone[-1].number)
        shorter = History(floor=floor, checkpoints=rest)
        self._manifest.replace(shorter.records())
        self._history = shorter
        self.blobs.sweep(digests(rest))
