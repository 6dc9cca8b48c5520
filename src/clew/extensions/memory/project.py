"""`ProjectMemory`: the facts that a project remembers.

Nothing happens implicitly: facts are written, queued and retrieved only by explicit calls.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from clew.core.errors import ClewError, ConfigError
from clew.core.redaction import redact
from clew.core.text import one_line
from clew.extensions.memory.candidates import (
    MemoryCandidate,
    MemoryCandidateExtractor,
    MemoryPolicyEvaluator,
    find_objection,
    find_secret,
)
from clew.extensions.memory.events import (
    AuditTrail,
    MemoryEvent,
    MemoryOutcome,
    MemoryReference,
    build_outcome,
)
from clew.extensions.memory.facts import Fact, parse_kind, parse_topic
from clew.extensions.memory.pending_facts import (
    PendingFact,
    PendingMemoryStore,
    make_pending,
    pending_id,
)
from clew.extensions.memory.retrieval import MemoryPage, MemoryRetrievalService
from clew.extensions.memory.store import INDEX, MemoryTopic, ProjectMemoryStore
from clew.extensions.private_files import create_and_lock


class ProjectMemory:
    """The memory of one project. All methods block; call them from any thread.

    Several processes may use one folder: each change applies to what is on disk at that time.

    Args:
        folder: The folder, `<project>/.clew/memory`; created by the first write. Links may not
            lead out of the project, two folders above it.
        clock: Returns the time of facts and events, in seconds since the epoch.
        on_event: Called after every memory event.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        on_event: Callable[[MemoryEvent], None] | None = None,
    ) -> None:
        self._folder = folder
        self._root = folder.parent.parent
        self._clock = clock
        self._store = ProjectMemoryStore(folder, clock=clock)
        self._pending = PendingMemoryStore(folder)
        self._trail = AuditTrail(clock, on_event)

    def startup(self) -> str:
        """Return the beginning of the index for a system prompt: 200 lines, 25 KB at most.

        Never fails: an index that cannot be read is empty here and listed in `problems`.
        """
        try:
            return self._store.startup()
        except ClewError:
            return ""

    def problems(self) -> tuple[str, ...]:
        """Return the files that cannot be used, each with a remedy.

        Topics are checked without reading them, so a large memory does not delay the start of a
        session. Of many problems, only a few are listed.
        """
        found = (*_problem_of(self._store.startup), *_problem_of(self._pending.all))
        return tuple(dict.fromkeys((*found, *self._store.problems())))

    def topics(self) -> tuple[MemoryTopic, ...]:
        """Return the topics by name; those that cannot be used have a `problem`.

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
            reference = MemoryReference(topic=parse_topic(topic), path=path)
        else:
            reference, text = MemoryReference(topic="", path=INDEX), self._store.index()
        self._trail.record_retrieved((reference,))
        return text

    def add(self, text: str, *, topic: str, kind: str = "project") -> MemoryOutcome:
        """Store a fact on one line. A known fact is not written again.

        Raises:
            ClewError: The topic or kind is not valid, or a file cannot be read or written.
        """
        fact = _fact(text, topic, kind)
        if why := find_objection(text):
            return self._trail.record_skipped(fact, why)
        with self._lock():
            deduplicated = self._store.append(fact)
        return self._trail.record_saved(fact, deduplicated=deduplicated)

    def propose(
        self, text: str, *, topic: str, kind: str = "project", source: str = ""
    ) -> MemoryOutcome:
        """Queue a fact for approval, unless it is known or queued already.

        Raises:
            ClewError: The topic or kind is not valid, or a file cannot be read or written.
        """
        fact = _fact(text, topic, kind)
        if why := find_objection(text):
            return self._trail.record_skipped(fact, why)
        return self._queue(fact, source=source)

    def capture(
        self,
        text: str,
        *,
        extractor: MemoryCandidateExtractor | None = None,
        policy: MemoryPolicyEvaluator | None = None,
        source: str = "",
    ) -> tuple[MemoryOutcome, ...]:
        """Extract facts from a text, and save, queue or skip each as the policy decides.

        Raises:
            ClewError: A file cannot be read or written.
        """
        found = (extractor or MemoryCandidateExtractor()).extract(text)
        judge = policy or MemoryPolicyEvaluator()
        return tuple(self._take(candidate, judge, source) for candidate in found)

    def pending(self) -> tuple[PendingFact, ...]:
        """Return the waiting facts, oldest first.

        Raises:
            ClewError: They cannot be read; the file is unchanged.
        """
        return self._pending.all()

    def approve(self, id_: str) -> MemoryOutcome:
        """Save a waiting fact. Of several concurrent calls, one succeeds.

        A fact that may not be stored, because the file was edited, is skipped and keeps waiting.

        Raises:
            ConfigError: There is no such waiting fact.
            ClewError: A file cannot be read or written.
        """
        with self._lock():
            record = self._pending.get(id_)
            fact = _fact(record.text, record.topic, record.kind)
            if not (why := find_objection(record.text)):
                # Saving twice changes nothing, so a crash in between does no harm.
                deduplicated = self._store.append(fact)
                self._pending.remove(id_)
        if why:
            return self._trail.record_skipped(fact, why, id_=id_)
        self._trail.emit("approved", fact, id_=id_)
        return self._trail.record_saved(fact, deduplicated=deduplicated, id_=id_)

    def reject(self, id_: str) -> MemoryOutcome:
        """Discard a waiting fact. Of several concurrent calls, one succeeds.

        Raises:
            ConfigError: There is no such waiting fact.
            ClewError: The file cannot be read or written.
        """
        with self._lock():
            record = self._pending.remove(id_)
        fact = Fact(text=redact(one_line(record.text)), topic=record.topic, kind=record.kind)
        self._trail.emit("rejected", fact, id_=id_)
        return build_outcome("rejected", fact, id_=id_)

    def find(
        self, query: str, *, service: MemoryRetrievalService | None = None
    ) -> tuple[MemoryReference, ...]:
        """Search the topics; the results count as used.

        Raises:
            ClewError: The topics cannot be listed.
        """
        pages = (MemoryPage(topic.name, topic.path, text) for topic, text in self._store.pages())
        found = (service or MemoryRetrievalService()).find(query, pages)
        self._trail.record_retrieved(found, query)
        return found

    def list_used(self) -> tuple[MemoryReference, ...]:
        """Return the references used so far: each file once, the latest last."""
        return self._trail.used

    def restore_used(self, references: Sequence[MemoryReference]) -> None:
        """Restore the references that the session used before it was resumed."""
        self._trail.mark_used(references)

    def _take(
        self, candidate: MemoryCandidate, judge: MemoryPolicyEvaluator, source: str
    ) -> MemoryOutcome:
        fact = _fact(candidate.text, candidate.topic, candidate.kind)
        decision = judge.evaluate(candidate.text, confidence=candidate.confidence)
        if decision.action == "skip":
            self._trail.emit("extracted", Fact(text="", topic=fact.topic, kind=fact.kind))
            return self._trail.record_skipped(fact, decision.why)
        self._trail.emit("extracted", fact, id_=pending_id(fact))
        if decision.action == "save":
            return self.add(fact.text, topic=fact.topic, kind=fact.kind)
        return self._queue(fact, source=source, confidence=candidate.confidence)

    def _queue(self, fact: Fact, *, source: str, confidence: float = 1.0) -> MemoryOutcome:
        record = make_pending(fact, at=self._clock(), source=source, confidence=confidence)
        with self._lock():
            is_known = self._store.has(fact)
            is_new = not is_known and self._pending.put(record)
        if is_known:
            return self._trail.record_saved(fact, deduplicated=True)
        if is_new:
            self._trail.emit("queued", fact, id_=record.id)
        return build_outcome("queued", fact, id_=record.id, deduplicated=not is_new)

    def _lock(self) -> AbstractContextManager[None]:
        return create_and_lock(self._folder, inside=self._root)


def _problem_of(look: Callable[[], object]) -> tuple[str, ...]:
    try:
        look()
    except ClewError as error:
        return (str(error),)
    return ()


def _fact(text: str, topic: str, kind: str) -> Fact:
    if found := find_secret(topic):
        raise ConfigError(f"The name of a topic must not contain a secret ({found}).")
    return Fact(text=one_line(text), topic=parse_topic(topic), kind=parse_kind(kind))
