"""Checkpoints on disk: keep files before they are changed, and restore them."""

import hashlib
import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from clew.checkpoints.checkpoint_list import summarize
from clew.checkpoints.manifest import BeginRecord, Checkpoint
from clew.checkpoints.path_states import PathState, UnkeptState, display_path, find_affected_paths
from clew.checkpoints.restore import RestoreRules, restore
from clew.checkpoints.storage import CheckpointStorage
from clew.checkpoints.values import (
    DEFAULT_CHECKPOINT_LIMITS,
    CheckpointCause,
    CheckpointLimits,
    CheckpointSummary,
    FileVersions,
    RestoreResult,
)
from clew.core.errors import SessionError, StoreUnavailable
from clew.core.ids import EntryId, SessionId
from clew.core.text import replace_surrogates

logger = logging.getLogger(__name__)

_START = EntryId(0)
_WORDS = 120
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class FileCheckpoints:
    """Keeps the files of one session. All methods block, and may be called from any thread.

    Args:
        folder: The folder for the checkpoints of all sessions; each has a subfolder.
        session_id: The session.
        root: The project folder.
        floor: The last entry of the journal before checkpoints were kept, if it had any.
        limits: How much is kept.
        clock: Dates the checkpoints.
    """

    def __init__(
        self,
        folder: Path,
        session_id: SessionId,
        *,
        root: Path,
        floor: EntryId = _START,
        limits: CheckpointLimits = DEFAULT_CHECKPOINT_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder.resolve()
        self._root = root.resolve()
        self._clock = clock
        self._storage = CheckpointStorage(
            _session_folder(folder, session_id), floor=floor, limits=limits
        )
        self._lock = threading.Lock()

    def begin(self, entry: EntryId, words: str) -> None:
        """Begin the checkpoint of a turn whose prompt is `entry`.

        Raises:
            StoreUnavailable: Files cannot be kept.
        """
        with self._lock, self._translate_errors():
            self._end_running(EntryId(entry - 1))
            self._storage.begin(self._begin_record("turn", entry, words))

    def keep(self, path: Path) -> None:
        """Keep the file at `path`, and all else that a change of it may touch.

        When this returns, the change can be undone, even after a crash. A path that the running
        turn has already kept is not read again.

        Raises:
            OSError: The file cannot be kept, so do not change it.
        """
        with self._lock:
            try:
                paths = [p for p in find_affected_paths(path) if not p.is_relative_to(self._folder)]
                self._storage.keep(self._open_checkpoint(), paths)
            except OSError as error:
                why = f"its current content cannot be kept for a rewind ({error.strerror})"
                raise OSError(error.errno, why) from error

    def seal(self, last: EntryId) -> list[str]:
        """End the checkpoint of a turn whose last entry is `last`.

        Returns:
            Warnings for the user: files that were changed, but could not be kept.
        """
        with self._lock:
            running = self._storage.history.running
            try:
                self._end_running(last)
                self._storage.prune()
            except OSError as error:
                logger.warning("a checkpoint could not be ended", exc_info=True)
                return [f"the checkpoint of this turn could not be ended: {error.strerror}"]
        return [
            f"{display_path(path)} cannot be rewound: {state.why}"
            for path, state in (running.kept if running else {}).items()
            if isinstance(state, UnkeptState)
        ]

    def summaries(self) -> list[CheckpointSummary]:
        """Return all checkpoints, oldest first.

        Raises:
            StoreUnavailable: They cannot be read.
        """
        with self._lock, self._translate_errors():
            checkpoints = self._storage.history.checkpoints
            return [summarize(checkpoint, self._storage.compare) for checkpoint in checkpoints]

    def changes(self) -> list[FileVersions]:
        """Return every file that the session changed: its first content, and its content now.

        Raises:
            StoreUnavailable: The checkpoints cannot be read.
        """
        with self._lock, self._translate_errors():
            first: dict[str, PathState] = {}
            for checkpoint in self._storage.history.checkpoints:
                for path, state in checkpoint.kept.items():
                    first.setdefault(path, state)
            return [
                versions
                for path, state in first.items()
                if (versions := self._storage.read_versions(path, state)) is not None
            ]

    def since(self, entry: EntryId) -> Sequence[Checkpoint]:
        """Return the checkpoints to undo to return to the state before the turn of `entry`.

        Raises:
            SessionError: The entry is too old: its files are no longer kept, or never were.
            StoreUnavailable: The checkpoints cannot be read.
        """
        with self._lock, self._translate_errors():
            history = self._storage.history
            if entry <= history.floor.entry:
                raise SessionError(
                    f"files can only go back to after entry #{history.floor.entry}: "
                    "nothing older is kept. Rewind the conversation alone, or to a later entry."
                )
            return history.since(entry)

    def of_rewind(self, entry: EntryId) -> Sequence[Checkpoint]:
        """Return the checkpoints of the rewind that `entry` records.

        Raises:
            StoreUnavailable: They cannot be read.
        """
        with self._lock, self._translate_errors():
            checkpoints = self._storage.history.checkpoints
            return [c for c in checkpoints if c.cause == "rewind" and c.first == entry]

    def restore(
        self,
        chosen: Sequence[Checkpoint],
        *,
        entry: EntryId,
        force: bool = False,
        outside: bool = False,
    ) -> RestoreResult:
        """Restore files to their state before `chosen`, and keep what that overwrites.

        Args:
            chosen: The checkpoints to undo, oldest first.
            entry: The journal entry that will record the restore.
            force: Also overwrite files that another program changed.
            outside: Also restore files outside the project folder.

        Raises:
            StoreUnavailable: What would be overwritten cannot be kept; nothing was changed.
        """
        rules = RestoreRules(root=self._root, force=force, outside=outside)
        with self._lock, self._translate_errors():
            self._end_running(EntryId(entry - 1))
            begin = self._begin_record("rewind", entry, "")
            result = restore(self._storage, chosen, rules, begin)
        self.seal(entry)
        return result

    def _end_running(self, last: EntryId) -> None:
        """Seal the running checkpoint, if any: its turn is over, or a crash ended it."""
        running = self._storage.history.running
        if running is not None:
            self._storage.seal(running, last=EntryId(max(last, running.first)))

    def _open_checkpoint(self) -> Checkpoint:
        """Return the checkpoint of the turn; a change outside a turn gets one of its own."""
        history = self._storage.history
        between = self._begin_record("turn", history.next_entry, "")
        return history.running or self._storage.begin(between)

    def _begin_record(self, cause: CheckpointCause, entry: EntryId, words: str) -> BeginRecord:
        line = replace_surrogates(" ".join(words.split()))
        return BeginRecord(
            number=self._storage.history.next_number,
            cause=cause,
            entry=entry,
            at=self._clock(),
            words=line if len(line) <= _WORDS else f"{line[:_WORDS]}…",
        )

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(
                f"the checkpoints in {self._folder} cannot be used: {error.strerror}"
            ) from error


def delete_checkpoints(folder: Path, session_id: SessionId) -> None:
    """Delete all checkpoints of a session; does nothing when it has none.

    Raises:
        OSError: They cannot be deleted.
    """
    with suppress(FileNotFoundError):
        shutil.rmtree(_session_folder(folder, session_id))


def _session_folder(folder: Path, session_id: SessionId) -> Path:
    """Return the folder of a session; an id that is not a safe name is hashed."""
    if _SAFE.fullmatch(session_id):
        return folder / session_id
    return folder / hashlib.sha256(session_id.encode(errors="surrogatepass")).hexdigest()
