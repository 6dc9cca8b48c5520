"""Summaries that are prepared while the session continues, and swapped in by a compaction."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from clew import Session
from clew.context.policy import ContextPolicy
from clew.context.view import fold
from clew.core.entries import Charged, Compacted, MessageAdded
from clew.core.errors import ConfigError, ProviderError
from clew.core.events import BackgroundSummary, CompactionProgress, Event, SummaryStage, Warned
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.log.replay_state import replay_log
from clew.log.validation import validate_log
from clew.log.writer import SessionLog
from clew.providers.prices import Price
from clew.providers.protocol import Request, UsageChunk
from clew.providers.scripted import Pause, ScriptedProvider, ScriptedReply, text_reply
from tests.event_buses import bus_for
from tests.histories import problems

pytestmark = pytest.mark.anyio

LONG = "計算機科学は楽しい。" * 30
"""About one token per character, so that a transcript fits into one request."""
FACTS = ModelFacts(name="m", window=4_000, max_output=400)
ON = ContextPolicy(background_compaction="on", preserve_recent_turns=1)
PRICES = {"m": Price(input=1.0, output=1.0)}
COUNTED = Usage(input_tokens=1_000_000, output_tokens=0)


class Writer:
    """Answers turns and requests for a summary from two scripts, so their order does not matter."""

    name = "scripted"

    def __init__(self, *summaries: ScriptedReply, turns: ScriptedReply = LONG) -> None:
        self._summaries = ScriptedProvider(summaries, FACTS)
        self._turns = ScriptedProvider([turns] * 60, FACTS)

    def facts(self, model: str) -> ModelFacts:
        return self._turns.facts(model)

    async def stream(self, request: Request) -> Any:
        is_summary = "handover notes" in request.system
        async for chunk in (self._summaries if is_summary else self._turns).stream(request):
            yield chunk

    async def aclose(self) -> None:
        """Do nothing."""

    @property
    def asked(self) -> list[Request]:
        """The requests for a summary."""
        return self._summaries.requests

    @property
    def turns(self) -> list[Request]:
        return self._turns.requests


class Watched:
    """A session with everything that it published."""

    def __init__(
        self, *summaries: ScriptedReply, policy: ContextPolicy = ON, **options: Any
    ) -> None:
        self.events: list[Event] = []
        self.provider = Writer(*summaries)
        made: dict[str, Any] = {"policy": policy, "prices": PRICES} | options
        self.session = Session(
            self.provider, model="m", event_bus=bus_for(self.events.append), **made
        )

    @property
    def stages(self) -> list[SummaryStage]:
        return [event.stage for event in self.of(BackgroundSummary)]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def bodies(self, kind: type[Any]) -> list[Any]:
        return [e.body for e in self.session.journal.entries if isinstance(e.body, kind)]

    async def reach(self, stage: SummaryStage) -> None:
        """Wait for a stage."""
        with anyio.fail_after(5):
            while stage not in self.stages:
                await anyio.lowlevel.checkpoint()

    async def fill(self, until: SummaryStage) -> None:
        """Ask until the summary has come so far."""
        for number in range(30):
            await self.session.run(f"question {number}")
            if SummaryStage.PREPARING in self.stages:
                break
        await self.reach(until)

    async def continue_until_compacted(self) -> Compacted:
        for number in range(30):
            await self.session.run(f"later question {number}")
            for body in self.bodies(Compacted):
                assert isinstance(body, Compacted)
                return body
        raise AssertionError("no compaction")


def texts(session: Session) -> list[str]:
    return [item.message.text for item in session.journal.view.items]


@pytest.mark.req("CMP-1", "CMP-7")
async def test_a_summary_is_prepared_and_swapped_in_for_exactly_what_it_covers() -> None:
    watched = Watched(text_reply("Prepared notes.", usage=COUNTED))
    async with watched.session as session:
        await watched.fill(SummaryStage.PREPARED)
        assert watched.bodies(Compacted) == []
        before = {item.entry_id: item.message for item in session.journal.view.items}
        done = await watched.continue_until_compacted()

        assert done.summary.startswith("Prepared notes.")
        assert set(done.dropped) <= before.keys()
        kept = {item.entry_id: item.message for item in session.journal.view.items[1:]}
        for entry in session.journal.entries:
            if isinstance(entry.body, MessageAdded) and entry.id not in done.dropped:
                assert kept[entry.id] == entry.body.message
        assert "prepared in the background" in done.report.why
        assert fold(session.journal.entries).items == session.journal.view.items
        assert len(watched.provider.asked) == 1
        assert session.get_cost().usd >= 1.0
    assert watched.stages[:2] == [SummaryStage.PREPARING, SummaryStage.PREPARED]
    assert watched.of(BackgroundSummary)[1].cost == pytest.approx(1.0)
    assert all(event.background for event in watched.of(CompactionProgress))
    for request in watched.provider.turns:
        assert problems(request.messages) == []


@pytest.mark.req("CMP-1")
async def test_the_session_continues_while_a_summary_is_written() -> None:
    pause = Pause()
    watched = Watched([pause, *text_reply("Late notes.")])
    async with watched.session as session:
        await watched.fill(SummaryStage.PREPARING)
        with anyio.fail_after(5):
            await pause.reached.wait()
        await session.run("a question in the meantime")
        assert watched.stages == [SummaryStage.PREPARING]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.compact)
            await anyio.wait_all_tasks_blocked()
            assert watched.bodies(Compacted) == []
            pause.release()

        assert watched.bodies(Compacted)[0].summary.startswith("Late notes.")
        assert "a question in the meantime" in texts(session)
    assert len(watched.provider.asked) == 1


async def _pin(session: Session, covered: int) -> None:
    await session.pin(covered)


async def _clear(session: Session, covered: int) -> None:
    await session.clear_history()


async def _rewind(session: Session, covered: int) -> None:
    await session.rewind(covered, code=False)


async def _switch(session: Session, covered: int) -> None:
    await session.set_model("n")


async def _instruct(session: Session, covered: int) -> None:
    await session.compact("keep the numbers")


@pytest.mark.req("CMP-1", "CMP-8")
@pytest.mark.parametrize("change", [_pin, _clear, _rewind, _switch, _instruct])
@pytest.mark.parametrize("written", [True, False], ids=["written", "being written"])
async def test_a_summary_is_discarded_when_what_it_covers_changes(
    change: Any, *, written: bool
) -> None:
    first = [UsageChunk(COUNTED), *([] if written else [Pause()]), *text_reply("Stale notes.")]
    watched = Watched(first, *["Fresh notes."] * 8)
    watched.provider.facts = lambda model: ModelFacts(name=model, window=4_000, max_output=400)  # type: ignore[method-assign]
    async with watched.session as session:
        await watched.fill(SummaryStage.PREPARED if written else SummaryStage.PREPARING)
        await anyio.wait_all_tasks_blocked()
        covered = session.journal.view.items[1].entry_id

        await change(session, covered)
        await watched.reach(SummaryStage.DISCARDED)
        await session.run("what comes after")

        discarded = next(e for e in watched.of(BackgroundSummary) if e.why)
        assert discarded.cost == pytest.approx(1.0)
        assert watched.bodies(Charged)[0].why == "a summary prepared in the background"
        assert not any("Stale notes." in text for text in texts(session))
        assert fold(session.journal.entries).items == session.journal.view.items


async def test_an_undo_of_an_older_compaction_discards_a_prepared_summary() -> None:
    watched = Watched(*["Notes."] * 9)
    async with watched.session as session:
        await watched.fill(SummaryStage.PREPARED)
        await session.compact()
        seen = len(watched.stages)
        for number in range(30):
            await session.run(f"more {number}")
            if len(watched.stages) > seen:
                break
        await anyio.wait_all_tasks_blocked()
        prepared = list(watched.stages)

        await session.undo()

        assert prepared[-1] is SummaryStage.PREPARED
        assert watched.stages == [*prepared, SummaryStage.DISCARDED]


async def test_a_change_of_what_it_does_not_cover_keeps_a_prepared_summary() -> None:
    watched = Watched("Prepared notes.")
    async with watched.session as session:
        await watched.fill(SummaryStage.PREPARED)
        await session.run("a later question")
        last = session.journal.view.items[-2].entry_id
        await session.pin(last)
        await session.rewind(last, code=False)
        await session.set_system_message("Be brief.")

        assert watched.stages == [SummaryStage.PREPARING, SummaryStage.PREPARED]
        done = await watched.continue_until_compacted()
        assert done.summary.startswith("Prepared notes.")


@pytest.mark.req("CMP-8")
@pytest.mark.parametrize(
    "fault",
    [ProviderError("down", provider="s"), "", "word " * 3_000],
    ids=["down", "empty", "long"],
)
async def test_a_failure_in_the_background_is_a_warning_and_the_compaction_asks_again(
    fault: ScriptedReply,
) -> None:
    watched = Watched(fault, "Second notes.")
    async with watched.session:
        await watched.fill(SummaryStage.FAILED)
        assert len(watched.of(Warned)) == 1
        done = await watched.continue_until_compacted()

        assert done.summary.startswith("Second notes.")
        assert len(watched.provider.asked) == 2


@pytest.mark.parametrize("end", ["abort", "shutdown"])
async def test_an_abort_and_the_end_of_the_session_cancel_what_is_being_written(end: str) -> None:
    watched = Watched([UsageChunk(COUNTED), Pause(), *text_reply("Never.")])
    session = await watched.session.open()
    await watched.fill(SummaryStage.PREPARING)
    await anyio.wait_all_tasks_blocked()

    session.abort()
    if end == "shutdown":
        await session.shutdown()
    await watched.reach(SummaryStage.DISCARDED)

    assert watched.of(BackgroundSummary)[-1].cost == pytest.approx(1.0)
    assert len(watched.bodies(Charged)) == 1
    await session.shutdown()


async def test_closing_a_session_waits_until_an_interrupted_summary_is_charged() -> None:
    watched = Watched([UsageChunk(COUNTED), Pause(), *text_reply("Never.")])
    async with watched.session:
        await watched.fill(SummaryStage.PREPARING)
        await anyio.wait_all_tasks_blocked()

    assert watched.stages == [SummaryStage.PREPARING, SummaryStage.DISCARDED]
    assert [charge.usage for charge in watched.bodies(Charged)] == [COUNTED]


async def test_instructions_of_a_hook_discard_what_was_prepared_without_them() -> None:
    class Instructing:
        async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
            context = ("keep the numbers",) if event is HookEvent.PRE_COMPACT else ()
            return HookVerdict(context=context)

    watched = Watched("Prepared notes.", *["Notes with numbers."] * 5, hooks=Instructing())
    async with watched.session as session:
        await watched.fill(SummaryStage.PREPARED)
        done = await watched.continue_until_compacted()
        for number in range(10):
            await session.run(f"more {number}")

    assert done.summary.startswith("Notes with numbers.")
    assert watched.stages == [
        SummaryStage.PREPARING,
        SummaryStage.PREPARED,
        SummaryStage.DISCARDED,
    ]
    assert len(watched.of(Warned)) == 1
    assert "keep the numbers" in watched.provider.asked[-1].messages[-1].text


async def test_a_large_prompt_after_the_preparation_makes_it_useless() -> None:
    watched = Watched("Prepared notes.", "Fresh notes.")
    async with watched.session as session:
        await watched.fill(SummaryStage.PREPARED)
        await session.inject_message("user", "word " * 3_200)
        await session.inject_message("assistant", "fine")
        await session.run("and now?")

    assert "it would free too little now" in [e.why for e in watched.of(BackgroundSummary)]


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        (ContextPolicy(preserve_recent_turns=1), {}),
        (ON, {"context_strategy": "sliding_window"}),
        (ON, {"context_strategy": "compact"}),
    ],
    ids=["off", "no model needed", "by rules"],
)
async def test_nothing_is_prepared_where_it_is_off_or_no_model_is_needed(
    policy: ContextPolicy, options: dict[str, Any]
) -> None:
    watched = Watched("Notes.", policy=policy, **options)
    async with watched.session as session:
        for number in range(14):
            await session.run(f"question {number}")

    assert watched.stages == []


async def test_a_budget_that_is_spent_starts_nothing() -> None:
    watched = Watched("Notes.")
    async with watched.session as session:
        while session.get_context_state().used_tokens < 2_600:
            await session.run("next")
        session.state.set_budget(session.get_cost().usd + 0.0035)
        await session.run("the last one that is paid for")

        assert session.get_context_state().used_tokens > 0.7 * 4_000
        assert watched.stages == []


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="off, on or auto"):
        ContextPolicy(background_compaction="sometimes")  # type: ignore[arg-type]


@pytest.mark.req("LOG-4")
async def test_the_log_of_a_session_with_calls_side_by_side_is_complete(tmp_path: Path) -> None:
    pause = Pause()
    log = SessionLog(tmp_path)
    watched = Watched([pause, *text_reply("Notes.", usage=COUNTED)], session_log=log)
    async with watched.session as session:
        await watched.fill(SummaryStage.PREPARING)
        await session.run("a question beside the summary")
        pause.release()
        await watched.reach(SummaryStage.PREPARED)
        await watched.continue_until_compacted()

        assert log.path is not None
        replayed = replay_log(log.path)
        assert replayed.history == session.get_history()
        assert list(replayed.entries) == list(session.journal.entries)
    assert validate_log(log.path).faults == ()
