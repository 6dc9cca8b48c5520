"""The folder of one session's checkpoints: its manifest, its blobs, and their size limit."""

import hashlib
import logging
from collections.abc import Iterable, Sequence, Set
from pathlib import Path

from clew.checkpoints.checkpoint_list import compare
from clew.checkpoints.manifest import (
    BeginRecord,
    Checkpoint,
    CheckpointHistory,
    CheckpointManifest,
    FinalState,
    FloorRecord,
    KeepRecord,
    ManifestRecord,
    SealRecord,
)
from clew.checkpoints.path_states import (
    AbsentState,
    FileState,
    FolderState,
    PathState,
    UnkeptState,
    decode_path,
    display_path,
    encode_path,
    read_state,
    read_state_and_content,
)
from clew.checkpoints.values import CheckpointLimits, FileVersions
from clew.core.errors import StoreDamaged
from clew.core.ids import EntryId
from clew.files.atomic import make_private_folder, replace_file, sync_folder

logger = logging.getLogger(__name__)


class CheckpointStorage:
    """Writes each change to disk before it counts. One user at a time; methods raise OSError.

    Args:
        folder: Made when the first file is kept.
        floor: The last entry before checkpoints were kept, if there is no manifest yet.
        limits: How much is kept.
    """

    def __init__(self, folder: Path, *, floor: EntryId, limits: CheckpointLimits) -> None:
        self._folder = folder
        self._floor = floor
        self._limits = limits
        self._manifest = CheckpointManifest(folder / "manifest.jsonl")
        self._history: CheckpointHistory | None = None
        self._unwritten: list[ManifestRecord] = []
        self.blobs = BlobStore(folder / "blobs")

    @property
    def history(self) -> CheckpointHistory:
        """All checkpoints, read at the first access."""
        if self._history is None:
            content = self._manifest.load(floor=self._floor)
            if content.faults:
                logger.warning("%s: %d lines cannot be read", self._folder, content.faults)
            self._history = content.history
        return self._history

    def begin(self, begin: BeginRecord) -> Checkpoint:
        """Begin a checkpoint; the previous one must be sealed.

        It is written with the first file that it keeps, or when it is sealed: a turn that
        changes nothing does not wait for the disk.
        """
        history = self.history
        make_private_folder(self._folder)
        self._unwritten += [begin] if history.checkpoints else [history.floor, begin]
        history.apply(begin)
        return history.checkpoints[-1]

    def keep(self, checkpoint: Checkpoint, paths: Iterable[Path]) -> None:
        """Keep the state of each path, unless the checkpoint already has it."""
        fresh = dict.fromkeys(path for path in paths if encode_path(path) not in checkpoint.kept)
        records = [
            KeepRecord(
                number=checkpoint.number,
                path=encode_path(path),
                state=self.blobs.capture(path, limit=self._limits.file_bytes),
            )
            for path in fresh
        ]
        if records:
            self._write(records)
        for record in records:
            self.history.apply(record)

    def seal(self, checkpoint: Checkpoint, *, last: EntryId) -> None:
        """End a checkpoint, and write the final state of each of its paths."""
        left = {path: self.compare(path, state) for path, state in checkpoint.kept.items()}
        seal = SealRecord(number=checkpoint.number, last=last, left=left)
        self._write([seal], durable=bool(left))
        self.history.apply(seal)

    def read_state(self, path: Path) -> PathState:
        """Return the current state of a path."""
        return read_state(path, limit=self._limits.file_bytes)

    def compare(self, path: str, before: PathState) -> FinalState:
        """Return the current state of a path, compared with its kept state."""
        return compare(path, before, self.blobs.read, limit=self._limits.file_bytes)

    def read_versions(self, path: str, before: PathState) -> FileVersions | None:
        """Return the kept and the current content of a file; None if it is the same, or no file."""
        state, now = read_state_and_content(decode_path(path), limit=self._limits.file_bytes)
        files = (FileState, AbsentState)
        if state == before or {type(before), type(state)} <= {AbsentState, FolderState}:
            return None
        shown = display_path(path)
        for one in (before, state):
            if not isinstance(one, files):
                why = one.why if isinstance(one, UnkeptState) else "it is not a regular file"
                return FileVersions(path=shown, before=None, after=None, note=why)
        after = now if isinstance(state, FileState) else None
        try:
            old = self.blobs.read(before.digest) if isinstance(before, FileState) else None
        except StoreDamaged as error:
            return FileVersions(path=shown, before=None, after=after, note=str(error))
        return None if old == after else FileVersions(path=shown, before=old, after=after)

    def prune(self) -> None:
        """Delete the oldest checkpoints until the rest is within the limits."""
        history = self.history
        count = _count_surplus(history.checkpoints, self._limits)
        if not count:
            return
        gone, rest = history.checkpoints[:count], history.checkpoints[count:]
        last = gone[-1].last or EntryId(rest[0].first - 1)
        floor = FloorRecord(entry=last, number=gone[-1].number)
        shorter = CheckpointHistory(floor=floor, checkpoints=rest)
        self._manifest.replace(shorter.records())
        self._history = shorter
        self.blobs.sweep({file.digest for checkpoint in rest for file in _files(checkpoint)})

    def _write(self, records: Sequence[ManifestRecord], *, durable: bool = True) -> None:
        self._manifest.append([*self._unwritten, *records], durable=durable)
        self._unwritten.clear()


class BlobStore:
    """File contents, each stored once under its SHA-256. All methods block.

    A blob is complete or absent: it is written under another name, forced to disk, and renamed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def capture(self, path: Path, *, limit: int) -> PathState:
        """Return the state of `path`, and keep the content of a file of at most `limit` bytes.

        Raises:
            OSError: The content cannot be kept.
        """
        state, data = read_state_and_content(path, limit=limit)
        if isinstance(state, FileState) and not (self._folder / state.digest).exists():
            if not self._folder.is_dir():
                self._folder.mkdir(mode=0o700)
                sync_folder(self._folder.parent)
            replace_file(self._folder / state.digest, data, mode=0o600)
        return state

    def read(self, digest: str) -> bytes:
        """Return a content.

        Raises:
            StoreDamaged: It is missing or damaged.
        """
        try:
            data = (self._folder / digest).read_bytes()
        except FileNotFoundError:
            raise StoreDamaged("its kept content is missing") from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise StoreDamaged("its kept content is damaged")
        return data

    def sweep(self, wanted: Set[str]) -> None:
        """Delete all blobs but those `wanted`, and temporary files that a crash left."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name not in wanted:
                    path.unlink(missing_ok=True)


def _count_surplus(checkpoints: Sequence[Checkpoint], limits: CheckpointLimits) -> int:
    """Return how many of the oldest checkpoints exceed the limits; never all of them."""
    seen: set[str] = set()
    total = 0
    for count, checkpoint in enumerate(reversed(checkpoints)):
        for file in _files(checkpoint):
            total += 0 if file.digest in seen else file.size
            seen.add(file.digest)
        if count and (count >= limits.checkpoints or total > limits.total_bytes):
            return len(checkpoints) - count
    return 0


def _files(checkpoint: Checkpoint) -> list[FileState]:
    return [state for state in checkpoint.kept.values() if isinstance(state, FileState)]
