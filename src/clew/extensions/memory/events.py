"""What happens to a memory: the outcome for whoever asked, and the event for the record."""

from typing import Literal, TypeAlias

from msgspec import Struct

from clew.extensions.memory.facts import Kind

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
