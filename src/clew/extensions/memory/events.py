"""What happens to a memory: the outcome for whoever asked, and the event for the record."""

import threading
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.redaction import redact
from clew.core.text import one_line
from clew.extensions.memory.facts import Fact, Kind

EventKind: TypeAlias = Literal[
    "extracted", "queued", "saved", "skipped", "approved", "rejected", "retrieved"
]
Status: TypeAlias = Literal["saved", "queued", "skipped", "rejected"]


class MemoryEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the audit trail. What may not be kept is not in it either."""

    kind: EventKind
    at: float
    """Seconds since the epoch."""
    topic: str = ""
    id: str = ""
    """The candidate, where there was one."""
    text: str = ""
    """The fact; for `retrieved` the question, without secrets."""
    why: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of a fact."""

    status: Status
    topic: str
    kind: Kind = "project"
    id: str = ""
    """By which a queued fact is approved or rejected."""
    text: str = ""
    """The fact as it is kept; empty when it was skipped."""
    deduplicated: bool = False
    """It was there already, so nothing was written twice."""
    why: str = ""
    """For `skipped`: the reason, without what must not be repeated."""


class Reference(Struct, frozen=True, kw_only=True):
    """Where something that was retrieved comes from."""

    topic: str
    """Empty for the index."""
    path: str
    """Of the file, from the memory's folder on."""
    text: str = ""
    """What was retrieved."""
    score: int = 0


class Trail:
    """Tells whoever listens what happened, and remembers what was used.

    Args:
        clock: Dates the events.
        on_event: Who listens.
    """

    def __init__(
        self, clock: Callable[[], float], on_event: Callable[[MemoryEvent], None] | None
    ) -> None:
        self._clock = clock
        self._on_event = on_event
        self._mutex = threading.Lock()
        self.used: tuple[Reference, ...] = ()
        """Each place once, the latest last."""

    def tell(self, kind: EventKind, fact: Fact, *, id_: str = "", why: str = "") -> None:
        """Tell of one event."""
        if self._on_event is not None:
            event = MemoryEvent(
                kind=kind, at=self._clock(), topic=fact.topic, id=id_, text=fact.text, why=why
            )
            self._on_event(event)

    def saved(self, fact: Fact, *, deduplicated: bool, id_: str = "") -> Outcome:
        """Tell that a fact is kept, and return that outcome."""
        if deduplicated:
            self.tell("skipped", fact, id_=id_, why="It is known already.")
        else:
            self.tell("saved", fact, id_=id_)
        return outcome("saved", fact, id_=id_, deduplicated=deduplicated)

    def skipped(self, fact: Fact, why: str, *, id_: str = "") -> Outcome:
        """Tell that a fact may not be kept, without the fact, and return that outcome."""
        bare = Fact(text="", topic=fact.topic, kind=fact.kind)
        self.tell("skipped", bare, id_=id_, why=why)
        return outcome("skipped", bare, id_=id_, why=why)

    def retrieved(self, references: Sequence[Reference], query: str = "") -> None:
        """Tell what was retrieved, and count it as used."""
        self.note(references)
        asked = redact(one_line(query))
        for reference in references:
            self.tell("retrieved", Fact(text=asked, topic=reference.topic), why=reference.path)

    def note(self, references: Sequence[Reference]) -> None:
        """Count something as used."""
        with self._mutex:
            paths = {reference.path for reference in references}
            self.used = (*(known for known in self.used if known.path not in paths), *references)


def outcome(
    status: Status, fact: Fact, *, id_: str = "", deduplicated: bool = False, why: str = ""
) -> Outcome:
    """Return what became of a fact."""
    return Outcome(
        status=status,
        topic=fact.topic,
        kind=fact.kind,
        id=id_,
        text=fact.text,
        deduplicated=deduplicated,
        why=why,
    )
