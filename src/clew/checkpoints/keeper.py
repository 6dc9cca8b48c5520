"""`Checkpoints`: keeps files before they are changed, and brings them back."""

import hashlib
import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from clew.checkpoints.listing import summary
from clew.checkpoints.plan import Rules
from clew.checkpoints.records import Began, Checkpoint
from clew.checkpoints.restoring import restore
from clew.checkpoints.shelf import Shelf
from clew.checkpoints.states import Unkept, shown, trail
from clew.checkpoints.values import (
    DEFAULT_LIMITS,
    Cause,
    Limits,
    Restored,
    Summary,
)
from clew.core.errors import SessionError, StoreUnavailable
from clew.core.ids import EntryId, SessionId
from clew.core.text import replace_surrogates

logger = logging.getLogger(__name__)

_START = EntryId(0)
_WORDS = 120
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class Checkpoints:
    """The kept files of one session: a `Keeper` on disk.

    Args:
        folder: Where sessions keep files; each has a folder of its own in there.
        session_id: Whose files.
        root: The project's folder.
        floor: The last entry of the journal before anything was kept, if it had any.
        limits: How much is kept.
        clock: What time it is, for people.
    """

    def __init__(
        self,
        folder: Path,
        session_id: SessionId,
        *,
        root: Path,
        floor: EntryId = _START,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder.resolve()
        self._root = root.resolve()
        self._clock = clock
        self._shelf = Shelf(_folder_of(folder, session_id), floor=floor, limits=limits)
        self._lock = threading.Lock()

    def begin(self, entry: EntryId, words: str) -> None:
        """Begin the checkpoint of a turn whose prompt is `entry`."""
        with self._lock, self._translated():
            self._end(EntryId(entry - 1))
            self._shelf.begin(self._began("turn", entry, words))

    def keep(self, path: Path) -> None:
        """Keep what stands at `path`, and all else that a change of it may touch."""
        with self._lock:
            try:
                paths = [p for p in trail(path) if not p.is_relative_to(self._folder)]
                self._shelf.keep(self._running(), paths)
            except OSError as error:
                why = f"what it holds now cannot be kept for a rewind ({error.strerror})"
                raise OSError(error.errno, why) from error

    def seal(self, last: EntryId) -> list[str]:
        """End the checkpoint of a turn; returns what a person should know."""
        with self._lock:
            running = self._shelf.history.running
            try:
                self._end(last)
                self._shelf.prune()
            except OSError as error:
                logger.warning("a checkpoint could not be ended", exc_info=True)
                return [f"the checkpoint of this turn could not be ended: {error.strerror}"]
        return [
            f"{shown(path)} cannot be rewound: {state.why}"
            for path, state in (running.kept if running else {}).items()
            if isinstance(state, Unkept)
        ]

    def summaries(self) -> list[Summary]:
        """Return all checkpoints, oldest first."""
        with self._lock, self._translated():
            return [summary(c, self._shelf.compare) for c in self._shelf.history.checkpoints]

    def since(self, entry: EntryId) -> Sequence[Checkpoint]:
        """Return what must be taken back to get to the state before the turn of `entry`."""
        with self._lock, self._translated():
            history = self._shelf.history
            if entry <= history.floor.entry:
                raise SessionError(
                    f"files can only go back to after entry #{history.floor.entry}: "
                    "nothing older is kept. Rewind the conversation alone, or to a later entry."
                )
            return history.since(entry)

    def of_rewind(self, entry: EntryId) -> Sequence[Checkpoint]:
        """Return what the rewind of which `entry` tells did to files."""
        with self._lock, self._translated():
            made = self._shelf.history.checkpoints
            return [c for c in made if c.cause == "rewind" and c.first == entry]

    def take_back(
        self,
        chosen: Sequence[Checkpoint],
        *,
        entry: EntryId,
        force: bool = False,
        outside: bool = False,
    ) -> Restored:
        """Bring files back to the state before `chosen`, and keep what that overwrites."""
        rules = Rules(root=self._root, force=force, outside=outside)
        with self._lock, self._translated():
            self._end(EntryId(entry - 1))
            done = restore(self._shelf, chosen, rules, self._began("rewind", entry, ""))
        self.seal(entry)
        return done

    def _end(self, last: EntryId) -> None:
        """Seal what goes on, if anything does: the turn is over, or ended in a crash."""
        running = self._shelf.history.running
        if running is not None:
            self._shelf.seal(running, last=EntryId(max(last, running.first)))

    def _running(self) -> Checkpoint:
        """Return the checkpoint of the turn; what is changed outside a turn gets its own."""
        history = self._shelf.history
        between = self._began("turn", history.next_entry, "")
        return history.running or self._shelf.begin(between)

    def _began(self, cause: Cause, entry: EntryId, words: str) -> Began:
        line = replace_surrogates(" ".join(words.split()))
        return Began(
            number=self._shelf.history.next_number,
            cause=cause,
            entry=entry,
            at=self._clock(),
            words=line if len(line) <= _WORDS else f"{line[:_WORDS]}…",
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(
                f"the checkpoints in {self._folder} cannot be used: {error.strerror}"
            ) from error


def forget(folder: Path, session_id: SessionId) -> None:
    """Remove all that a session kept; does nothing when it kept nothing.

    Raises:
        OSError: It could not be removed.
    """
    with suppress(FileNotFoundError):
        shutil.rmtree(_folder_of(folder, session_id))


def _folder_of(folder: Path, session_id: SessionId) -> Path:
    """Return the folder of a session, whatever its id looks like."""
    if _SAFE.fullmatch(session_id):
        return folder / session_id
    return folder / hashlib.sha256(session_id.encode(errors="surrogatepass")).hexdigest()
