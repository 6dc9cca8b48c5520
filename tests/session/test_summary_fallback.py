"""The ladder of a compaction: what follows when a summary cannot be had, and what it costs."""

from collections.abc import Sequence

import anyio
import pytest

from clew import Session, Summarize, tool
from clew.context.economy import Economy
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.summary_breaker import RETRY_AFTER
from clew.core.entries import Charged, Compacted, MessageAdded
from clew.core.errors import (
    AbortError,
    ContextOverflow,
    NothingToDrop,
    ProviderBusy,
    ProviderDenied,
    ProviderError,
)
from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    CompactionStarted,
    Event,
    ToolEnded,
    Warned,
)
from clew.core.ids import CallId
from clew.core.messages import ToolCall, assistant, tool_result
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.core.usage import Usage
from clew.providers.prices import Price
from clew.providers.protocol import Finished, StopReason, TextChunk
from clew.providers.scripted import (
    Pause,
    ScriptedProvider,
    ScriptedReply,
    ScriptedStep,
    call_reply,
    text_reply,
)
from clew.session.state import CompactionRequest
from clew.session.window_fit import compact_if_requested
from tests.event_buses import bus_for
from tests.histories import problems

pytestmark = pytest.mark.anyio

LONG = "word " * 250
MANUAL = ContextPolicy(thresholds=Thresholds(compact=False))
DOWN = ProviderBusy("the server is overloaded", provider="scripted")
CALL = Usage(input_tokens=1_000, output_tokens=100)
"""Costs 0.002 dollars."""
PRICES = {"m": Price(input=1.0, output=10.0), "small": Price(input=1.0, output=10.0)}


class Models(ScriptedProvider):
    """A provider that knows every model by its name; `reader` needs no chunks."""

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(name=model, window=100_000 if model == "reader" else 2_000)


def paid(text: str) -> list[ScriptedStep]:
    return text_reply(text, usage=CALL)


async def filled(
    drafts: Sequence[ScriptedReply],
    events: list[Event],
    *,
    summary_model: str | None = None,
    budget: float | None = None,
) -> tuple[Session, Models]:
    """Return an open session with three turns; `drafts` answer what follows."""
    provider = Models(drafts)
    session = Session(
        provider,
        model="m",
        policy=MANUAL,
        prices=PRICES,
        budget_usd=budget,
        summary_model=summary_model,
        event_bus=bus_for(events.append),
    )
    await session.open()
    await more(session)
    provider.requests.clear()
    return session, provider


async def more(session: Session) -> None:
    for number in range(3):
        await session.inject_message("user", f"question {number}")
        await session.inject_message("assistant", LONG)


def warnings(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Warned)]


def outcomes(done: Compacted) -> list[tuple[str, str]]:
    return [(attempt.author, attempt.outcome) for attempt in done.report.attempts]


@pytest.mark.req("CMP-8")
@pytest.mark.parametrize(
    ("first", "fault"),
    [
        (DOWN, "the server is overloaded"),
        (paid(""), "it was empty"),
        (paid("word " * 2_000), "it was too long"),
    ],
)
async def test_a_failed_draft_is_followed_by_a_brief_one_and_both_are_reported(
    first: ScriptedReply, fault: str
) -> None:
    events: list[Event] = []
    session, provider = await filled([first, paid("brief notes")], events)

    done = await session.compact()

    assert outcomes(done) == [("m", fault), ("m", "used")]
    assert done.report.author == "model"
    assert "Be brief." in provider.requests[1].messages[-1].text
    assert len(warnings(events)) == 1
    await session.shutdown()


@pytest.mark.req("CMP-8")
async def test_what_was_paid_for_drafts_that_were_not_used_is_in_the_report() -> None:
    events: list[Event] = []
    session, _ = await filled([paid("word " * 2_000), paid("")], events)

    done = await session.compact()

    assert outcomes(done) == [("m", "it was too long"), ("m", "it was empty"), ("rules", "used")]
    costs = [attempt.cost for attempt in done.report.attempts]
    assert costs == [pytest.approx(0.002), pytest.approx(0.002), 0.0]
    assert [attempt.tokens for attempt in done.report.attempts] == [1_100, 1_100, 0]
    assert session.get_cost().usd == pytest.approx(0.004)
    charges = [e.body for e in session.journal.entries if isinstance(e.body, Charged)]
    assert len(charges) == 2
    await session.shutdown()


@pytest.mark.req("CMP-8")
async def test_a_draft_that_saves_too_little_is_not_used() -> None:
    events: list[Event] = []
    session, _ = await filled([], events)
    view = session.journal.view
    # Facts that the program adds to every summary can make it too long.
    session.state.options["extra_facts"] = lambda: ["fact " * view.units]
    session.state.provider = Models([paid("notes"), paid("notes")])

    with pytest.raises(NothingToDrop, match="save too little"):
        await session.compact()

    assert session.journal.view == view
    (failed,) = [event for event in events if isinstance(event, CompactionFailed)]
    authors = [attempt.author for attempt in failed.attempts]
    assert authors[:2] == ["m", "m"]
    assert set(authors[2:]) == {"rules"}
    assert failed.attempts[0].outcome == "it would save too little"
    assert sum(attempt.cost or 0 for attempt in failed.attempts) == pytest.approx(0.004)
    assert not [event for event in events if isinstance(event, CompactionEnded)]
    await session.shutdown()


@pytest.mark.req("CMP-8")
async def test_an_automatic_compaction_that_fails_lets_the_run_continue() -> None:
    events: list[Event] = []
    session, _ = await filled([], events)
    session.state.options["extra_facts"] = lambda: ["fact " * 2_000]
    session.state.provider = Models([*[paid("notes")] * 4, "the answer"])  # twice in two chunks
    session.set_thresholds(compact=0.3)

    assert await session.run("next") == "the answer"

    assert len([event for event in events if isinstance(event, CompactionStarted)]) == 1
    assert len([event for event in events if isinstance(event, CompactionFailed)]) == 1
    await session.shutdown()


@pytest.mark.req("CMP-8")
async def test_one_outage_is_one_failure_and_three_open_the_breaker_for_a_while() -> None:
    events: list[Event] = []
    now = 1_000.0
    session, provider = await filled([DOWN] * 6 + [DOWN] * 2 + [paid("notes")] * 9, events)
    session.state.clock = lambda: now

    for asked in (2, 4, 6, 6):
        done = await session.compact()
        assert done.report.author == "rules"
        assert len(provider.requests) == asked
        await more(session)
    opened = [text for text in warnings(events) if "in a row" in text]
    assert len(opened) == 1
    assert "for the next 5 minutes, or until you change the model" in opened[0]

    now += RETRY_AFTER
    assert (await session.compact()).report.author == "rules"
    assert len(provider.requests) == 8
    await more(session)
    assert (await session.compact()).report.author == "rules"
    assert len(provider.requests) == 8
    await more(session)
    now += RETRY_AFTER
    assert (await session.compact()).report.author == "model"
    await more(session)
    assert (await session.compact()).report.author == "model"
    assert len([text for text in warnings(events) if "in a row" in text]) == 1
    await session.shutdown()


@pytest.mark.req("CMP-8", "CMP-13")
async def test_another_model_closes_the_breaker() -> None:
    events: list[Event] = []
    session, provider = await filled([DOWN] * 6 + [paid("notes")] * 4, events)
    for _ in range(3):
        await session.compact()
        await more(session)

    await session.set_model("other")

    assert (await session.compact()).report.author == "model"
    assert provider.requests[-1].model == "other"
    await session.shutdown()


@pytest.mark.req("CMP-8")
async def test_the_same_outage_is_warned_of_once() -> None:
    events: list[Event] = []
    session, _ = await filled([DOWN, DOWN], events)

    await session.compact()

    assert warnings(events) == ["m wrote no summary: the server is overloaded"]
    await session.shutdown()


@pytest.mark.req("CMP-8")
async def test_a_model_that_refuses_is_not_asked_twice_and_the_own_one_steps_in() -> None:
    events: list[Event] = []
    denied = ProviderDenied("no credit", provider="scripted")
    session, provider = await filled(
        [denied, paid("notes by the own one")], events, summary_model="small"
    )

    done = await session.compact()

    assert outcomes(done) == [("small", "no credit"), ("m", "used")]
    assert [request.model for request in provider.requests] == ["small", "m"]
    await session.shutdown()


@pytest.mark.req("CMP-8")
async def test_a_summariser_that_overflows_gets_shorter_chunks() -> None:
    events: list[Event] = []
    overflow = ContextOverflow("too long", provider="scripted")
    session, provider = await filled([overflow, *[paid("notes")] * 8], events)
    await more(session)

    done = await session.compact()

    assert done.report.author == "model"
    sizes = [len(request.messages[0].text) for request in provider.requests]
    assert max(sizes[1:]) < sizes[0]
    assert len(sizes) > 2
    await session.shutdown()


@pytest.mark.req("CMP-8", "PRV-7")
async def test_a_summary_that_the_budget_does_not_allow_is_written_by_rules() -> None:
    events: list[Event] = []
    session, provider = await filled([], events, budget=0.0001)

    done = await session.compact()

    assert provider.requests == []
    assert done.report.author == "rules"
    assert warnings(events) == ["the budget does not allow a summary by m"]
    await session.shutdown()


@pytest.mark.req("CMP-8", "CMP-12")
@pytest.mark.parametrize("attempt", [0, 1])
async def test_an_abort_in_any_attempt_changes_nothing_and_reports_what_was_paid(
    attempt: int,
) -> None:
    events: list[Event] = []
    pause = Pause()
    drafts: list[ScriptedReply] = [paid("")] * attempt
    session, _ = await filled([*drafts, [TextChunk("notes so "), pause]], events)
    before = session.journal.view
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                with pytest.raises(AbortError):
                    await session.compact()

            tasks.start_soon(run)
            await pause.reached.wait()
            session.abort()

    assert session.journal.view == before
    (failed,) = [event for event in events if isinstance(event, CompactionFailed)]
    assert [one.outcome for one in failed.attempts] == ["it was empty"] * attempt + [
        "it was aborted"
    ]
    assert sum(one.cost or 0 for one in failed.attempts) == pytest.approx(0.002 * attempt)
    assert session.state.summary_breaker.failures == 0
    await session.shutdown()


@tool(risk=Risk.INSPECT)
def look() -> str:
    """Look at something large."""
    return LONG


def steps(count: int) -> list[ScriptedReply]:
    return [call_reply(("look", {})) for _ in range(count)]


def working(replies: Sequence[ScriptedReply], events: list[Event]) -> tuple[Session, Models]:
    """Return a session for one long turn: it is full after six steps."""
    provider = Models(replies)
    session = Session(
        provider,
        model="m",
        tools=[look],
        max_context_tokens=2_040,
        detect_loops=False,
        policy=ContextPolicy(economy=Economy.FULL),
        strategy=Summarize(summary_model="reader"),
        event_bus=bus_for(events.append),
    )
    return session, provider


@pytest.mark.req("CMP-8", "CMP-1")
@pytest.mark.parametrize(
    "drafts",
    [[DOWN, DOWN, DOWN], [paid(""), DOWN, DOWN], ["word " * 2_000, paid(""), DOWN]],
)
async def test_a_failing_summariser_does_not_stop_a_long_turn(drafts: list[ScriptedReply]) -> None:
    events: list[Event] = []
    session, provider = working([*steps(6), *drafts, *steps(2), "done"], events)
    async with session:
        assert await session.run("one request") == "done"

    (ended,) = [event for event in events if isinstance(event, CompactionEnded)]
    assert ended.report.author == "rules"
    authors = [attempt.author for attempt in ended.report.attempts]
    assert authors == ["reader", "reader", "m", "rules"]
    for request in provider.requests:
        assert problems(request.messages) == []


@pytest.mark.req("CMP-12")
@pytest.mark.parametrize("attempt", [0, 1])
async def test_an_abort_of_a_compaction_inside_a_turn_leaves_a_turn_that_can_be_continued(
    attempt: int,
) -> None:
    events: list[Event] = []
    pause = Pause()
    drafts: list[ScriptedReply] = [DOWN] * attempt
    cut: list[ScriptedStep] = [TextChunk("so "), pause]
    script = [*steps(6), *drafts, cut, paid("notes"), "done"]
    session, _ = working(script, events)
    async with session:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    assert (await session.execute("one request")).interrupted

                tasks.start_soon(run)
                await pause.reached.wait()
                view = session.journal.view
                session.abort()

        assert session.journal.view.items == view.items
        assert (await session.continue_run()).response == "done"
    assert len([event for event in events if isinstance(event, CompactionFailed)]) == 1
    assert len([event for event in events if isinstance(event, CompactionEnded)]) == 1


@pytest.mark.req("CMP-8")
async def test_a_compaction_that_was_asked_for_during_a_run_precedes_the_next_call() -> None:
    events: list[Event] = []
    script = [*steps(1), paid("notes"), "done"]
    session, provider = await filled(script, events, summary_model="reader")
    session.state.tools = {"look": look}

    def ask(event: Event) -> None:
        if isinstance(event, ToolEnded):
            request = CompactionRequest(instructions="keep the numbers")
            session.state.compaction_request = request

    session.bus.on("tool_end", ask)
    assert await session.run("look at it") == "done"

    assert session.state.compaction_request is None
    (ended,) = [event for event in events if isinstance(event, CompactionEnded)]
    assert ended.trigger == "manual"
    assert "keep the numbers" in provider.requests[1].messages[-1].text
    assert provider.requests[-1].messages[-1].results
    await session.shutdown()


@pytest.mark.req("CMP-8")
async def test_a_model_that_keeps_asking_for_compactions_pays_for_few_summaries() -> None:
    events: list[Event] = []
    session, _ = await filled([paid("notes")] * 9, events)
    for _ in range(4):
        session.state.compaction_request = CompactionRequest()
        await compact_if_requested(session.state)
        await more(session)

    authors = [e.report.author for e in events if isinstance(e, CompactionEnded)]
    assert authors == ["model", "rules", "rules", "rules"]
    await session.shutdown()


@pytest.mark.req("CMP-8")
async def test_a_draft_at_an_unknown_price_is_reported_so() -> None:
    events: list[Event] = []
    unpriced: list[ScriptedStep] = [TextChunk("notes"), Finished(reason=StopReason.DONE)]
    session, _ = await filled([unpriced], events)

    done = await session.compact()

    assert [(one.tokens, one.cost) for one in done.report.attempts] == [(0, None)]
    await session.shutdown()


@pytest.mark.req("CMP-8")
async def test_clearing_helps_where_no_summary_is_short_enough() -> None:
    events: list[Event] = []
    session, _ = await filled([], events)
    provider_error = ProviderError("down", provider="scripted")
    session.state.provider = Models([provider_error] * 9)
    session.state.options["extra_facts"] = lambda: ["fact " * 3_000]
    await _add_results(session)

    done = await session.compact()

    assert done.dropped == ()
    assert done.summary == ""
    assert len(done.report.cleared) == 4
    assert "no summary was short enough" in done.report.why
    assert [one.author for one in done.report.attempts] == ["m", "m", "rules", "rules", "rules"]
    await session.shutdown()


async def _add_results(session: Session) -> None:
    for number in range(4):
        call = ToolCall(call_id=CallId(f"c{number}"), name="look", arguments="{}")
        await session.journal.append(MessageAdded(message=assistant(call)))
        await session.journal.append(MessageAdded(message=tool_result(call, LONG)))
    await session.inject_message("assistant", "I have seen it.")
