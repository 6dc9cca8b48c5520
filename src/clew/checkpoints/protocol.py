"""What a session asks of whoever keeps its files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from clew.checkpoints.values import Restored, Summary
from clew.core.ids import EntryId

if TYPE_CHECKING:
    from clew.checkpoints.records import Checkpoint


class Keeper(Protocol):
    """Keeps the files of one session. All methods block, and may be called from any thread."""

    def begin(self, entry: EntryId, words: str) -> None:
        """Begin the checkpoint of a turn whose prompt is `entry`.

        Raises:
            StoreUnavailable: Nothing can be kept.
        """
        ...

    def keep(self, path: Path) -> None:
        """Keep what stands at `path`, and all else that a change of it may touch.

        When this returns, the change can be taken back, also after a crash. What the running
        turn has kept already is not looked at again.

        Raises:
            OSError: It cannot be kept, so it should not be changed.
        """
        ...

    def seal(self, last: EntryId) -> list[str]:
        """End the checkpoint of a turn, of which `last` is the last entry.

        Returns:
            What a person should know: files that were changed, but could not be kept.
        """
        ...

    def summaries(self) -> list[Summary]:
        """Return all checkpoints, oldest first.

        Raises:
            StoreUnavailable: They cannot be read.
        """
        ...

    def since(self, entry: EntryId) -> "Sequence[Checkpoint]":
        """Return what must be taken back to get to the state before the turn of `entry`.

        Raises:
            SessionError: That is too long ago: it is no longer kept, or never was.
            StoreUnavailable: They cannot be read.
        """
        ...

    def of_rewind(self, entry: EntryId) -> "Sequence[Checkpoint]":
        """Return what the rewind of which `entry` tells did to files.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        ...

    def take_back(
        self,
        chosen: "Sequence[Checkpoint]",
        *,
        entry: EntryId,
        force: bool = False,
        outside: bool = False,
    ) -> Restored:
        """Bring files back to the state before `chosen`, and keep what that overwrites.

        Args:
            chosen: What to take back, oldest first.
            entry: The journal's entry that will tell of it.
            force: Also overwrite what somebody else changed.
            outside: Also restore files that are not in the project's folder.

        Raises:
            StoreUnavailable: Nothing was changed, as it could not be kept.
        """
        ...
