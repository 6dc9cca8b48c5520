"""The trail that a memory leaves in a session: its events, and what of it was used."""

import threading
from collections.abc import Callable, Sequence

from clew.core.redaction import redact
from clew.core.text import one_line
from clew.extensions.memory.events import EventKind, MemoryEvent, Outcome, Reference, Status
from clew.extensions.memory.facts import Fact


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
