"""The lines of a manifest, and the checkpoints they add up to."""

import sys
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct, field

from clew.checkpoints.states import State
from clew.checkpoints.values import Cause
from clew.core.ids import EntryId

VERSION = 1


class Floor(Struct, frozen=True, kw_only=True, tag_field="line", tag="floor"):
    """The first line: of what happened up to `entry`, nothing is kept here."""

    entry: EntryId
    number: int = 0
    """The number of the last checkpoint that is gone."""
    version: int = VERSION


class Began(Struct, frozen=True, kw_only=True, tag_field="line", tag="begin"):
    """A checkpoint began."""

    number: int
    cause: Cause
    entry: EntryId
    at: float
    words: str = ""


class Kept(Struct, frozen=True, kw_only=True, tag_field="line", tag="keep"):
    """What stood at a path before its first change."""

    number: int
    path: str
    state: State


class Left(Struct, frozen=True, kw_only=True):
    """What a turn left at a path, and by how many lines it differs from what was there."""

    state: State
    added: int | None = None
    """None where lines cannot be counted, or say nothing."""
    removed: int | None = None


class Sealed(Struct, frozen=True, kw_only=True, tag_field="line", tag="seal"):
    """A checkpoint is over: this is what it left at each path it kept."""

    number: int
    last: EntryId
    left: dict[str, Left]


Record: TypeAlias = Floor | Began | Kept | Sealed


class Checkpoint(Struct, kw_only=True):
    """The files of one turn, or of one restore, as they were before it and after it."""

    number: int
    cause: Cause
    first: EntryId
    """The prompt of the turn, or the entry that tells of the restore."""
    last: EntryId | None = None
    """Where it ended; None while it goes on."""
    at: float
    words: str = ""
    """The first words of the prompt."""
    kept: dict[str, State] = field(default_factory=dict)
    left: dict[str, Left] = field(default_factory=dict)

    def records(self) -> list[Record]:
        """Return the lines from which this checkpoint can be read again."""
        began = Began(
            number=self.number, cause=self.cause, entry=self.first, at=self.at, words=self.words
        )
        kept = [Kept(number=self.number, path=p, state=s) for p, s in self.kept.items()]
        if self.last is None:
            return [began, *kept]
        return [began, *kept, Sealed(number=self.number, last=self.last, left=self.left)]


class History(Struct, kw_only=True):
    """All checkpoints of a session, oldest first, and what came before them."""

    floor: Floor
    checkpoints: list[Checkpoint] = field(default_factory=list)

    @property
    def running(self) -> Checkpoint | None:
        """The checkpoint that is not over yet, if there is one."""
        newest = self.checkpoints[-1] if self.checkpoints else None
        return newest if newest is not None and newest.last is None else None

    @property
    def next_number(self) -> int:
        """The number of the checkpoint to come."""
        return 1 + (self.checkpoints[-1].number if self.checkpoints else self.floor.number)

    @property
    def next_entry(self) -> EntryId:
        """The first entry of which no checkpoint tells yet."""
        newest = self.checkpoints[-1] if self.checkpoints else None
        last = self.floor.entry if newest is None else newest.last or newest.first
        return EntryId(last + 1)

    def since(self, entry: EntryId) -> list[Checkpoint]:
        """Return what happened to files since `entry`, oldest first; all of its turn counts.

        What was changed just before a prompt, outside of any turn or by a restore that was
        broken off, may bear the prompt's number; the prompt is meant.
        """
        for index, checkpoint in reversed(list(enumerate(self.checkpoints))):
            if checkpoint.cause == "turn" and checkpoint.first == entry:
                return self.checkpoints[index:]
        for index in range(len(self.checkpoints)):
            if self._end(index) >= entry:
                return self.checkpoints[index:]
        return []

    def _end(self, index: int) -> EntryId:
        """Return the last entry of a checkpoint; one that was never sealed lasts to the next."""
        last = self.checkpoints[index].last
        if last is None and index + 1 < len(self.checkpoints):
            return EntryId(self.checkpoints[index + 1].first - 1)
        return EntryId(sys.maxsize) if last is None else last

    def take(self, record: Record) -> bool:
        """Add one line; False when it says something about a checkpoint that is not there."""
        match record:
            case Floor():
                self.floor = record
            case Began(number=number, cause=cause, entry=entry, at=at, words=words):
                self.checkpoints.append(
                    Checkpoint(number=number, cause=cause, first=entry, at=at, words=words)
                )
            case Kept(path=path, state=state):
                if (found := self._numbered(record.number)) is None:
                    return False
                found.kept.setdefault(path, state)
            case Sealed(last=last, left=left):
                if (found := self._numbered(record.number)) is None:
                    return False
                found.last, found.left = last, left
        return True

    def _numbered(self, number: int) -> Checkpoint | None:
        return next((c for c in reversed(self.checkpoints) if c.number == number), None)

    def records(self) -> Iterable[Record]:
        """Return the lines from which all this can be read again."""
        yield self.floor
        for checkpoint in self.checkpoints:
            yield from checkpoint.records()
