"""`ProjectMemory`: what a project wants remembered, behind one door.

Nothing happens by itself: facts are written, proposed and looked up only when somebody asks.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from clew.core.errors import ClewError, ConfigError
from clew.core.redaction import redact
from clew.core.text import one_line
from clew.extensions.memory.candidates import (
    Candidate,
    MemoryCandidateExtractor,
    MemoryPolicyEvaluator,
    why_unfit,
)
from clew.extensions.memory.events import MemoryEvent, Outcome, Reference, Trail, outcome
from clew.extensions.memory.facts import Fact, checked_kind, topic_name
from clew.extensions.memory.files import made_and_held
from clew.extensions.memory.pending import Pending, PendingMemoryStore, pending_id, waiting
from clew.extensions.memory.retrieval import MemoryRetrievalService, Page
from clew.extensions.memory.store import INDEX, ProjectMemoryStore, Topic


class ProjectMemory:
    """The memory of one project. All methods block, and may be called from any thread.

    Several processes may use one folder: each change is made to what is on disk then.

    Args:
        folder: Where it is kept, `<project>/.clew/memory`; made when something is written.
        clock: Seconds since the epoch; dates facts and events.
        on_event: Hears of everything that happens to a memory, after it happened.
        root: The folder that `folder` must not lead out of; two above it unless one is given.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        on_event: Callable[[MemoryEvent], None] | None = None,
        root: Path | None = None,
    ) -> None:
        self._folder = folder
        self._root = root or folder.parent.parent
        self._clock = clock
        self._store = ProjectMemoryStore(folder, clock=clock, root=self._root)
        self._pending = PendingMemoryStore(folder, root=self._root)
        self._trail = Trail(clock, on_event)

    def startup(self) -> str:
        """Return the beginning of the index for a system prompt: 200 lines, 25 KB at most.

        Never fails: an index that cannot be read is empty here, and is among the `problems`.
        """
        try:
            return self._store.startup()
        except ClewError:
            return ""

    def problems(self) -> tuple[str, ...]:
        """Return what cannot be used, each with what to do about it.

        Topics are looked at and not read, so a large memory does not keep a session from
        opening; of many that cannot be used, a few are named.
        """
        found = (*_problem_of(self._store.startup), *_problem_of(self._pending.all))
        return tuple(dict.fromkeys((*found, *self._store.problems())))

    def topics(self) -> tuple[Topic, ...]:
        """Return the topics by name, those that cannot be used with the reason.

        Raises:
            ClewError: They cannot be listed.
        """
        return self._store.topics()

    def show(self, topic: str = "") -> str:
        """Return a topic whole, or the index; it counts as used from then on.

        Raises:
            ClewError: There is no such topic, or it cannot be read.
        """
        if topic.strip():
            path, text = self._store.path_of(topic), self._store.read(topic)
            reference = Reference(topic=topic_name(topic), path=path)
        else:
            reference, text = Reference(topic="", path=INDEX), self._store.index()
        self._trail.retrieved((reference,))
        return text

    def add(self, text: str, *, topic: str, kind: str = "project") -> Outcome:
        """Remember a fact, on one line. One that is known already is not written twice.

        Raises:
            ClewError: That is no topic or kind, or a file cannot be read or written.
        """
        fact = _fact(text, topic, kind)
        if why := why_unfit(text):
            return self._trail.skipped(fact, why)
        with self._held():
            deduplicated = self._store.append(fact)
        return self._trail.saved(fact, deduplicated=deduplicated)

    def propose(self, text: str, *, topic: str, kind: str = "project", source: str = "") -> Outcome:
        """Let a fact wait for approval, unless it is known or waits already.

        Raises:
            ClewError: That is no topic or kind, or a file cannot be read or written.
        """
        fact = _fact(text, topic, kind)
        if why := why_unfit(text):
            return self._trail.skipped(fact, why)
        return self._queue(fact, source=source)

    def capture(
        self,
        text: str,
        *,
        extractor: MemoryCandidateExtractor | None = None,
        policy: MemoryPolicyEvaluator | None = None,
        source: str = "",
    ) -> tuple[Outcome, ...]:
        """Look through a text for facts, and save, queue or skip each as the policy says.

        Raises:
            ClewError: A file cannot be read or written.
        """
        found = (extractor or MemoryCandidateExtractor()).extract(text)
        judge = policy or MemoryPolicyEvaluator()
        return tuple(self._take(candidate, judge, source) for candidate in found)

    def pending(self) -> tuple[Pending, ...]:
        """Return the facts that wait, oldest first.

        Raises:
            ClewError: They cannot be read; the file is left as it is.
        """
        return self._pending.all()

    def approve(self, id_: str) -> Outcome:
        """Save a fact that waits. Of several who try, one succeeds.

        A fact that may not be kept, because somebody changed the file, is skipped and waits on.

        Raises:
            ConfigError: No such fact waits.
            ClewError: A file cannot be read or written.
        """
        with self._held():
            record = self._pending.get(id_)
            fact = _fact(record.text, record.topic, record.kind)
            if not (why := why_unfit(record.text)):
                # Saving it twice changes nothing, so a crash in between is harmless.
                deduplicated = self._store.append(fact)
                self._pending.remove(id_)
        if why:
            return self._trail.skipped(fact, why, id_=id_)
        self._trail.tell("approved", fact, id_=id_)
        return self._trail.saved(fact, deduplicated=deduplicated, id_=id_)

    def reject(self, id_: str) -> Outcome:
        """Take a fact that waits off the list. Of several who try, one succeeds.

        Raises:
            ConfigError: No such fact waits.
            ClewError: The file cannot be read or written.
        """
        with self._held():
            record = self._pending.remove(id_)
        fact = Fact(text=redact(one_line(record.text)), topic=record.topic, kind=record.kind)
        self._trail.tell("rejected", fact, id_=id_)
        return outcome("rejected", fact, id_=id_)

    def find(
        self, query: str, *, service: MemoryRetrievalService | None = None
    ) -> tuple[Reference, ...]:
        """Return what the topics say about a question; it counts as used from then on.

        Raises:
            ClewError: The topics cannot be listed.
        """
        pages = (Page(topic.name, topic.path, text) for topic, text in self._store.pages())
        found = (service or MemoryRetrievalService()).find(query, pages)
        self._trail.retrieved(found, query)
        return found

    def used(self) -> tuple[Reference, ...]:
        """Return what was shown or found so far, each place once, the latest last."""
        return self._trail.used

    def restore_used(self, references: Sequence[Reference]) -> None:
        """Begin with what an earlier part of the session used."""
        self._trail.note(references)

    def _take(self, candidate: Candidate, judge: MemoryPolicyEvaluator, source: str) -> Outcome:
        fact = _fact(candidate.text, candidate.topic, candidate.kind)
        decision = judge.evaluate(candidate.text, confidence=candidate.confidence)
        if decision.action == "skip":
            self._trail.tell("extracted", Fact(text="", topic=fact.topic, kind=fact.kind))
            return self._trail.skipped(fact, decision.why)
        self._trail.tell("extracted", fact, id_=pending_id(fact))
        if decision.action == "save":
            return self.add(fact.text, topic=fact.topic, kind=fact.kind)
        return self._queue(fact, source=source, confidence=candidate.confidence)

    def _queue(self, fact: Fact, *, source: str, confidence: float = 1.0) -> Outcome:
        record = waiting(fact, at=self._clock(), source=source, confidence=confidence)
        with self._held():
            is_known = self._store.has(fact)
            is_new = not is_known and self._pending.put(record)
        if is_known:
            return self._trail.saved(fact, deduplicated=True)
        if is_new:
            self._trail.tell("queued", fact, id_=record.id)
        return outcome("queued", fact, id_=record.id, deduplicated=not is_new)

    def _held(self) -> AbstractContextManager[None]:
        return made_and_held(self._folder, inside=self._root)


def _problem_of(look: Callable[[], object]) -> tuple[str, ...]:
    try:
        look()
    except ClewError as error:
        return (str(error),)
    return ()


def _fact(text: str, topic: str, kind: str) -> Fact:
    from clew.extensions.memory.candidates import why_sensitive  # noqa: PLC0415 - many patterns

    if found := why_sensitive(topic):
        raise ConfigError(f"The name of a topic must not hold something secret ({found}).")
    return Fact(text=one_line(text), topic=topic_name(topic), kind=checked_kind(kind))
