"""Memory events for the audit trail, and the outcomes and references that callers get."""

import threading
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.redaction import redact
from clew.core.text import one_line
from clew.extensions.memory.facts import Fact, FactKind

EventKind: TypeAlias = Literal[
    "extracted", "queued", "saved", "skipped", "approved", "rejected", "retrieved"
]
OutcomeStatus: TypeAlias = Literal["saved", "queued", "skipped", "rejected"]


class MemoryEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the audit trail. It never contains a fact that may not be stored."""

    kind: EventKind
    at: float
    """Seconds since the epoch."""
    topic: str = ""
    id: str = ""
    """The id of the candidate, if there was one."""
    text: str = ""
    """The fact; for `retrieved` the query, without secrets."""
    why: str = ""


class MemoryOutcome(Struct, frozen=True, kw_only=True):
    """What happened to a fact."""

    status: OutcomeStatus
    topic: str
    kind: FactKind = "project"
    id: str = ""
    """The id for approving or rejecting a queued fact."""
    text: str = ""
    """The fact as stored; empty if it was skipped."""
    deduplicated: bool = False
    """The fact was already known, so nothing was written."""
    why: str = ""
    """For `skipped`: the reason, without the secret."""


class MemoryReference(Struct, frozen=True, kw_only=True):
    """The source of something that was retrieved."""

    topic: str
    """Empty for the index."""
    path: str
    """The path of the file, relative to the memory's folder."""
    text: str = ""
    """The text that was retrieved."""
    score: int = 0


class AuditTrail:
    """Emits memory events, and keeps the list of references that were used.

    Args:
        clock: Returns the time of an event, in seconds since the epoch.
        on_event: Called with every event.
    """

    def __init__(
        self, clock: Callable[[], float], on_event: Callable[[MemoryEvent], None] | None
    ) -> None:
        self._clock = clock
        self._on_event = on_event
        self._mutex = threading.Lock()
        self.used: tuple[MemoryReference, ...] = ()
        """Each path once, the latest last."""

    def emit(self, kind: EventKind, fact: Fact, *, id_: str = "", why: str = "") -> None:
        """Emit one event."""
        if self._on_event is not None:
            event = MemoryEvent(
                kind=kind, at=self._clock(), topic=fact.topic, id=id_, text=fact.text, why=why
            )
            self._on_event(event)

    def record_saved(self, fact: Fact, *, deduplicated: bool, id_: str = "") -> MemoryOutcome:
        """Record that a fact is stored, and return that outcome."""
        if deduplicated:
            self.emit("skipped", fact, id_=id_, why="It is already known.")
        else:
            self.emit("saved", fact, id_=id_)
        return build_outcome("saved", fact, id_=id_, deduplicated=deduplicated)

    def record_skipped(self, fact: Fact, why: str, *, id_: str = "") -> MemoryOutcome:
        """Record that a fact may not be stored, without its text, and return that outcome."""
        bare = Fact(text="", topic=fact.topic, kind=fact.kind)
        self.emit("skipped", bare, id_=id_, why=why)
        return build_outcome("skipped", bare, id_=id_, why=why)

    def record_retrieved(self, references: Sequence[MemoryReference], query: str = "") -> None:
        """Record references as retrieved and used."""
        self.mark_used(references)
        asked = redact(one_line(query))
        for reference in references:
            self.emit("retrieved", Fact(text=asked, topic=reference.topic), why=reference.path)

    def mark_used(self, references: Sequence[MemoryReference]) -> None:
        """Add references to those that were used."""
        with self._mutex:
            paths = {reference.path for reference in references}
            self.used = (*(known for known in self.used if known.path not in paths), *references)


def build_outcome(
    status: OutcomeStatus, fact: Fact, *, id_: str = "", deduplicated: bool = False, why: str = ""
) -> MemoryOutcome:
    """Return the outcome for a fact."""
    return MemoryOutcome(
        status=status,
        topic=fact.topic,
        kind=fact.kind,
        id=id_,
        text=fact.text,
        deduplicated=deduplicated,
        why=why,
    )
