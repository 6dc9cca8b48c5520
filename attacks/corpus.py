"""What a corpus of attacks is, and what became of the attacks of one."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectSendStream

T = TypeVar("T")
CORES = os.cpu_count() or 1


class Status(StrEnum):
    """What became of an attack."""

    HELD = "held"
    """Clew behaved as documented."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """This machine lacks something that the attack needs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One attack of a corpus, and what became of it."""

    case: str
    """Names the attack; unique in its corpus."""
    status: Status
    detail: str = ""
    """What went wrong, or what is missing on this machine."""


class Corpus(Protocol):
    """A module of attacks; register it in `attacks/__main__.py`."""

    NAME: str
    """One or two words, as in `hostile-servers`."""
    TARGET: str
    """What must hold, in one short sentence for the table."""

    def run(self, sample: int | None = None) -> AsyncIterator[Outcome]:
        """Carry out the attacks and yield what became of each.

        Args:
            sample: Carry out about this many attacks, spread over the corpus; by default all.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusResult:
    """The row of one corpus."""

    name: str
    target: str
    outcomes: Sequence[Outcome]
    seconds: float

    def select(self, status: Status) -> list[Outcome]:
        """Return the outcomes with this status."""
        return [one for one in self.outcomes if one.status is status]

    @property
    def reasons(self) -> list[str]:
        """Why attacks were skipped; each reason once."""
        return list(dict.fromkeys(one.detail for one in self.select(Status.SKIPPED)))


async def carry_out(
    corpus: Corpus,
    sample: int | None = None,
    *,
    report: Callable[[Outcome], None] = lambda _: None,
) -> CorpusResult:
    """Run a corpus, or a sample of it, and report each outcome at once."""
    begun = time.monotonic()
    outcomes = []
    async for outcome in corpus.run(sample):
        report(outcome)
        outcomes.append(outcome)
    seconds = time.monotonic() - begun
    return CorpusResult(name=corpus.NAME, target=corpus.TARGET, outcomes=outcomes, seconds=seconds)


async def run_together(
    cases: Iterable[T], attack: Callable[[T], Awaitable[Iterable[Outcome]]], *, limit: int = CORES
) -> AsyncIterator[Outcome]:
    """Carry out attacks that do not disturb each other, `limit` at the same time."""
    waiting = iter(cases)
    send, receive = anyio.create_memory_object_stream[Iterable[Outcome]](limit)

    async def work(results: MemoryObjectSendStream[Iterable[Outcome]]) -> None:
        async with results:
            for case in waiting:
                await results.send(await attack(case))

    async with anyio.create_task_group() as group:
        async with send:
            for _ in range(limit):
                group.start_soon(work, send.clone())
        async with receive:
            async for outcomes in receive:
                for outcome in outcomes:
                    yield outcome


def select_sample(cases: Sequence[T], sample: int | None) -> Sequence[T]:
    """Return `sample` cases at equal distances, the same ones every time; all if it is None."""
    if sample is None or sample >= len(cases):
        return cases
    return [cases[place * len(cases) // sample] for place in range(sample)]
