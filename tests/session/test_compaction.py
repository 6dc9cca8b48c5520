"""Compaction through a session: when, what it keeps, how it fails, how it is undone."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from clew import Session, tool
from clew.context.estimate import message_units
from clew.context.policy import ContextPolicy, Thresholds
from clew.core.entries import Compacted, ResultsCleared
from clew.core.errors import (
    AbortError,
    ContextFull,
    ContextOverflow,
    NothingToDrop,
    NothingToUndo,
    ProviderError,
    SessionError,
)
from clew.core.events import CompactionEnded, CompactionStarted, ContextUpdated, Event, Warned
from clew.core.messages import Message, Role
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.providers.protocol import Chunk, Request, TextChunk
from clew.providers.scripted import Pause, ScriptedProvider, ScriptedReply, call_reply, text_reply
from clew.stores.sqlite import SqliteStore
from tests.event_buses import bus_for
from tests.histories import problems

pytestmark = pytest.mark.anyio

FACTS = ModelFacts(name="m", window=2_000, summarises=False)
WRITER = ModelFacts(name="m", window=2_000)
LONG = "word " * 250


def scripted(*replies: ScriptedReply, facts: ModelFacts = FACTS) -> ScriptedProvider:
    return ScriptedProvider(replies, facts=facts)


def compactions(session: Session) -> list[Compacted]:
    return [e.body for e in session.journal.entries if isinstance(e.body, Compacted)]


async def fill(session: Session, turns: int) -> None:
    for number in range(turns):
        await session.run(f"question {number}")


@pytest.mark.req("CMP-1", "CMP-2", "CMP-3", "CTX-6")
async def test_a_long_session_compacts_by_itself_and_goes_on() -> None:
    events: list[Event] = []
    provider = scripted(*[LONG] * 40)
    async with Session(provider, model="m", event_bus=bus_for(events.append)) as session:
        await session.run("Rule: always answer in French.")
        await fill(session, 30)

        done = compactions(session)
        assert len(done) >= 3
        assert {body.trigger for body in done} == {"auto"}
        assert all(b.report.tokens_after < 0.9 * b.report.tokens_before for b in done)
        history = session.get_history()
        assert history[0].role is Role.ASSISTANT
        assert history[0].text.startswith("[Context Summary]")
        assert history[-2].text == "question 29"
    for request in provider.requests:
        assert problems(request.messages) == []
    states = [event.state for event in events if isinstance(event, ContextUpdated)]
    for request in provider.requests:
        assert sum(message_units(message) for message in request.messages) <= 0.95 * 2_000
    assert any(state.status == "critical" for state in states)
    begun = [event for event in events if isinstance(event, CompactionStarted)]
    ended = [event for event in events if isinstance(event, CompactionEnded)]
    assert len(begun) == len(ended) == len(done)
    assert all(event.after.used_tokens < event.before.used_tokens for event in ended)


@pytest.mark.req("CMP-1")
async def test_a_compaction_happens_inside_a_tool_loop() -> None:
    @tool(risk=Risk.INSPECT)
    def chatter() -> str:
        """Talk."""
        return LONG

    provider = scripted(*[call_reply(("chatter", {})) for _ in range(12)], "done")
    async with Session(provider, model="m", tools=[chatter], detect_loops=False) as session:
        assert await session.run("one request") == "done"

        kinds = [type(entry.body) for entry in session.journal.entries]
        assert kinds.count(Compacted) + kinds.count(ResultsCleared) >= 2
    for request in provider.requests:
        assert problems(request.messages) == []
        assert sum(message_units(message) for message in request.messages) <= 0.95 * 2_000
        assert "one request" in [message.text for message in request.messages]


@pytest.mark.req("CMP-7")
async def test_a_models_summary_replaces_the_old_turns_and_is_updated_by_the_next() -> None:
    provider = scripted(*[LONG] * 3, "First notes.", *[LONG] * 2, "Second.", facts=WRITER)
    async with Session(provider, model="m") as session:
        await fill(session, 3)
        await session.compact("keep the numbers")
        asked = provider.requests[-1].messages[0].text
        assert "keep the numbers" in asked
        assert "question 0" in asked
        assert compactions(session)[0].report.author == "model"
        assert session.get_history()[0].text.startswith("[Context Summary]\nFirst notes.")

        await fill(session, 2)
        await session.compact()

        assert "Earlier notes:\nFirst notes." in provider.requests[-1].messages[0].text
        assert [m.text.startswith("[Context Summary]") for m in session.get_history()].count(
            True
        ) == 1


async def test_what_a_model_drafts_before_its_summary_is_not_kept() -> None:
    answer = "<analysis>\nLet me think.\n</analysis>\n<summary>\nThe notes.\n</summary>"
    provider = scripted(*[LONG] * 3, answer, facts=WRITER)
    async with Session(provider, model="m") as session:
        await fill(session, 3)
        await session.compact()

        summary = session.get_history()[0].text
        assert summary.startswith("[Context Summary]\nThe notes.\n")
        assert "Let me think" not in summary


@pytest.mark.req("CMP-8")
@pytest.mark.parametrize("failure", [ProviderError("down", provider="s"), "", "word " * 2_000])
async def test_a_summary_that_cannot_be_had_or_does_not_fit_is_written_by_rules(
    failure: ScriptedReply,
) -> None:
    events: list[Event] = []
    provider = scripted(LONG, LONG, LONG, failure, facts=WRITER)
    async with Session(provider, model="m", event_bus=bus_for(events.append)) as session:
        await fill(session, 3)

        done = await session.compact()

        assert done.report.author == "rules"
        assert "question 0" in done.summary or "word" in done.summary
    assert any("summary" in event.text for event in events if isinstance(event, Warned))


@pytest.mark.req("CMP-12")
async def test_an_aborted_compaction_leaves_everything_as_it_was() -> None:
    pause = Pause()
    provider = scripted(LONG, LONG, LONG, [TextChunk("notes so "), pause], facts=WRITER)
    async with Session(provider, model="m") as session:
        await fill(session, 3)
        before = session.journal.view
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    with pytest.raises(AbortError):
                        await session.compact()

                tasks.start_soon(run)
                await pause.reached.wait()
                session.abort()

        assert session.journal.view == before


@pytest.mark.req("CMP-10")
async def test_undo_brings_back_every_message_and_new_ones_stay() -> None:
    async with Session(scripted(*[LONG] * 9), model="m") as session:
        await fill(session, 3)
        before = session.get_history()
        await session.compact()
        assert session.get_history() != before
        await session.run("afterwards")

        undone = await session.undo()

        assert isinstance(undone.body, Compacted)
        after = session.get_history()
        assert after[: len(before)] == before
        assert [message.text for message in after[len(before) :]] == ["afterwards", LONG]
        with pytest.raises(NothingToUndo):
            await session.undo()


@pytest.mark.req("SES-1")
async def test_a_cleared_history_can_be_brought_back() -> None:
    async with Session(scripted("one", "two"), model="m") as session:
        await session.run("hi")
        await session.clear_history()
        assert session.get_history() == []

        await session.undo()

        assert len(session.get_history()) == 2


@pytest.mark.req("CTX-8")
async def test_what_does_not_fit_is_not_sent_and_the_session_stays_usable() -> None:
    provider = scripted("fine", "still fine")
    async with Session(provider, model="m") as session:
        await session.run("hi")

        with pytest.raises(ContextFull) as caught:
            await session.run("word " * 5_000)

        assert caught.value.state.used_tokens > caught.value.state.max_tokens
        assert "at most 1,900 are sent" in str(caught.value)
        assert len(provider.requests) == 1
        assert await session.run("short again") == "still fine"
        assert session.search("word word")


@pytest.mark.req("CTX-8", "CTX-6")
async def test_with_automatic_compaction_off_the_guard_still_holds() -> None:
    policy = ContextPolicy(thresholds=Thresholds(compact=False))
    async with Session(scripted(*[LONG] * 20), model="m", policy=policy) as session:
        with pytest.raises(ContextFull):
            await fill(session, 20)
        assert compactions(session) == []

        session.set_auto_compact_threshold(0.5)

        assert await session.run("go on") == LONG
        assert len(compactions(session)) == 1


@pytest.mark.req("CMP-9")
async def test_an_overflow_leads_to_one_compaction_and_one_retry() -> None:
    overflow = ContextOverflow("too long", provider="scripted")
    provider = scripted(LONG, LONG, LONG, overflow, "made it", overflow, overflow)
    async with Session(provider, model="m", policy=_lazy()) as session:
        await fill(session, 3)

        assert await session.run("next") == "made it"

        assert [body.trigger for body in compactions(session)] == ["overflow"]
        with pytest.raises((ContextOverflow, NothingToDrop)):
            await session.run("again")


def _lazy() -> ContextPolicy:
    return ContextPolicy(thresholds=Thresholds(compact=False))


@pytest.mark.req("CMP-10")
async def test_a_compaction_that_would_gain_nothing_is_refused_when_asked_for() -> None:
    async with Session(scripted("short"), model="m") as session:
        await session.run("hi")

        with pytest.raises(NothingToDrop):
            await session.compact()


@pytest.mark.req("CMP-11")
async def test_a_pinned_message_survives_every_compaction() -> None:
    async with Session(scripted(*[LONG] * 40), model="m") as session:
        await session.run("Never touch the billing code. " + LONG)
        rule = session.journal.view.items[0]
        await session.pin(rule.entry_id)
        await fill(session, 25)

        assert len(compactions(session)) > 2
        assert rule.message in session.get_history()

        await session.pin(rule.entry_id, pinned=False)
        await fill(session, 6)
        assert rule.message not in session.get_history()
        with pytest.raises(SessionError, match="not a message"):
            await session.pin(1)
        with pytest.raises(SessionError, match="not a message"):
            await session.pin(10_000)


@pytest.mark.req("STO-3", "STO-2")
async def test_a_reopened_session_has_the_same_view_and_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    async with Session(scripted(*[LONG] * 20), model="m", store=store) as session:
        await fill(session, 12)
        before, session_id = session.journal.view, session.session_id
    again = scripted("welcome back")
    async with Session(again, model="m", store=store, session_id=session_id) as session:
        assert session.journal.view == before
        assert await session.run("hello") == "welcome back"
        assert again.requests[0].messages[0].text.startswith("[Context Summary]")
    await store.aclose()


@pytest.mark.req("STO-2", "TOL-4")
async def test_calls_that_a_crash_left_open_are_answered_on_reopening(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    reply = call_reply(("add", {"a": 1}), ("add", {"a": 2}))
    async with Session(scripted(reply), model="m", store=store, max_turns=1) as session:
        with pytest.raises(SessionError):
            await session.run("go")
        record = session.journal.record
        cut = session.journal.entries[:3]
    crashed = SqliteStore(tmp_path / "crashed.db")
    await crashed.create(record)
    await crashed.append(record.id, cut)

    provider = scripted("fine")
    async with Session(provider, model="m", store=crashed, session_id=record.id) as session:
        history: list[Message] = session.get_history()
        assert problems(history) == []
        assert len(history) == 4
        assert await session.run("hello") == "fine"
    assert problems(provider.requests[0].messages) == []
    await store.aclose()
    await crashed.aclose()


class Forgetful(ScriptedProvider):
    """Answers at length, and writes summaries that say nothing."""

    def __init__(self) -> None:
        super().__init__([], facts=WRITER)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        asks = request.messages[-1].text.startswith(("Rule", "question"))
        for chunk in text_reply(LONG if asks else "The work went on."):
            assert not isinstance(chunk, Pause | Exception)
            yield chunk


@pytest.mark.req("CMP-7", "CMP-15", "CMP-16")
async def test_a_rule_survives_ten_compactions_by_a_model_that_omits_it() -> None:
    rule = "Rule: never touch the billing code,\n  not even its tests."
    async with Session(Forgetful(), model="m") as session:
        await session.run(rule)
        asked = 0
        while len(compactions(session)) < 10:
            await session.run(f"question {asked}.")

            shown = "\n".join(message.text for message in session.get_history())
            assert rule in shown
            assert [n for n in range(asked) if f"question {n}." not in shown] == []
            asked += 1

        bodies = compactions(session)
        assert "model" in {body.report.author for body in bodies}
        assert {body.notes for body in bodies} <= {"", "The work went on."}
