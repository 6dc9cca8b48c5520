"""Long tool loops beside a large prompt or large pins, in a small window."""

from collections.abc import AsyncGenerator
from typing import NamedTuple

import pytest

from clew import Session, tool
from clew.context.estimate import text_units
from clew.core.context_state import LossReport
from clew.core.entries import Compacted
from clew.core.errors import ContextThrashing
from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    CompactionStarted,
    Event,
    Warned,
)
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.providers.protocol import Chunk, Request
from clew.providers.scripted import Pause, ScriptedProvider, call_reply, text_reply
from tests.event_buses import bus_for
from tests.histories import problems

pytestmark = pytest.mark.anyio

WINDOW, STEPS = 32_000, 60


_TEXT = " ".join(f"w{n % 97}" for n in range(1_000))
_RATE = text_units(_TEXT) / len(_TEXT)


def words(tokens: int) -> str:
    chars = int(tokens / _RATE)
    return (_TEXT * (chars // len(_TEXT) + 1))[:chars]


class Worker(ScriptedProvider):
    """Calls a tool `STEPS` times; its summaries are as long as they may be."""

    def __init__(self, *, summary: int) -> None:
        super().__init__([], facts=ModelFacts(name="m", window=WINDOW))
        self.calls = self.summaries = 0
        self._summary = summary

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        if request.tools:
            self.calls += 1
            more = self.calls < STEPS
            steps = call_reply(("look", {"n": self.calls})) if more else text_reply("done")
        else:
            self.summaries += 1
            longest = request.max_output_tokens or self._summary
            steps = text_reply(words(min(self._summary, longest * 9 // 10)))
        for step in steps:
            assert not isinstance(step, Pause | Exception)
            yield step


class Outcome(NamedTuple):
    worker: Worker
    reports: list[LossReport]
    events: list[Event]
    error: ContextThrashing | None


async def loop(*, prompt: int, result: int, pins: int = 0, summary: int = 100_000) -> Outcome:
    @tool(risk=Risk.INSPECT)
    def look(n: int) -> str:
        """Look at something."""
        return f"{n}: {words(result)}"

    events: list[Event] = []
    worker, error = Worker(summary=summary), None
    async with Session(
        worker, model="m", tools=[look], detect_loops=False, event_bus=bus_for(events.append)
    ) as session:
        if pins:
            await session.inject_message("user", words(pins))
            await session.inject_message("assistant", "noted")
            await session.pin(session.journal.view.items[0].entry_id)
        try:
            await session.run(words(prompt))
        except ContextThrashing as thrashing:
            error = thrashing
        reports = [e.body.report for e in session.journal.entries if isinstance(e.body, Compacted)]
    return Outcome(worker, reports, events, error)


@pytest.mark.req("CMP-8")
@pytest.mark.parametrize("result", [300, 1_500, 4_000])
@pytest.mark.parametrize(
    ("prompt", "pins"), [(1_000, 0), (18_000, 0), (22_000, 0), (25_000, 0), (4_000, 18_000)]
)
async def test_compactions_gain_a_tenth_and_summaries_cost_a_share_of_the_work(
    prompt: int, pins: int, result: int
) -> None:
    worker, reports, events, error = await loop(prompt=prompt, pins=pins, result=result)

    assert worker.summaries <= 1 + worker.calls // 4
    for report in reports:
        # Only a view that cannot be sent is compacted for less, and never with a model call.
        if report.tokens_after > 0.9 * report.tokens_before:
            assert report.tokens_before > 0.95 * WINDOW
            assert report.author == "rules"
    assert error is not None or worker.calls == STEPS
    started = [event for event in events if isinstance(event, CompactionStarted)]
    ended = [event for event in events if isinstance(event, CompactionEnded | CompactionFailed)]
    assert len(started) == len(ended)
    assert len([event for event in events if isinstance(event, Warned)]) <= 1
    for request in worker.requests:
        assert problems(request.messages) == []


@pytest.mark.req("CMP-8")
async def test_a_window_that_refills_at_once_ends_the_run_and_says_what_to_do() -> None:
    worker, reports, events, error = await loop(prompt=27_000, result=4_000)

    assert error is not None
    assert "user messages" in str(error)
    assert "Put long text into a file" in str(error)
    assert error.state.max_tokens == WINDOW
    assert len(reports) <= 6
    assert worker.summaries <= 2
    (warning,) = [event.text for event in events if isinstance(event, Warned)]
    assert "was full again after 1 call" in warning
    assert "Put long text into a file" in warning


@pytest.mark.req("CMP-8", "CMP-11")
@pytest.mark.req("CMP-8")
@pytest.mark.parametrize(
    ("prompt", "result", "happened"),
    [
        (24_000, 800, "gained little room in 2 compactions"),
        (25_000, 12_000, "was full again after 1 call"),
    ],
)
async def test_a_model_writes_few_summaries_that_do_not_last(
    prompt: int, result: int, happened: str
) -> None:
    worker, reports, events, error = await loop(prompt=prompt, result=result)

    assert error is None
    assert len(reports) > 10
    assert worker.summaries <= 2
    (warning,) = [event.text for event in events if isinstance(event, Warned)]
    assert happened in warning


async def test_large_pins_are_named_as_the_cause() -> None:
    _, _, _, error = await loop(prompt=4_000, pins=22_000, result=4_000)

    assert error is not None
    assert "pinned messages" in str(error)
    assert "Unpin what you do not need" in str(error)


async def test_a_run_that_was_stopped_can_be_continued() -> None:
    @tool(risk=Risk.INSPECT)
    def look(n: int) -> str:
        """Look at something."""
        return words(4_000)

    async with Session(Worker(summary=500), model="m", tools=[look], detect_loops=False) as session:
        with pytest.raises(ContextThrashing):
            await session.run(words(27_000))
        view = session.journal.view

        await session.set_model("m", max_context_tokens=200_000)

        assert (await session.continue_run()).response == "done"
        assert view.items[0].message.text in "".join(m.text for m in session.get_history())
