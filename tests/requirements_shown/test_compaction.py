"""Compaction through a session: what stays, what is summarised, and who is told."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from clew import ContextPolicy, Message, ModelFacts, Risk, Role, Session, Thresholds, tool
from clew.core.errors import NothingToDrop
from clew.core.events import CompactionEnded, Event
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.log.reader import LogReader
from clew.log.writer import SessionLog
from clew.providers.protocol import Chunk, Request
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply, text_reply
from tests.event_buses import bus_for

pytestmark = pytest.mark.anyio

WRITER = ModelFacts(name="m", window=3_000)
RULES_ONLY = ModelFacts(name="m", window=3_000, summarises=False)
LONG = "some words about the labyrinth " * 40
BY_HAND = ContextPolicy(thresholds=Thresholds(compact=False))
SYSTEM = "You are Daedalus, and you build only in stone."
RULE = "Rule: never use the word Minotaur in a commit message."


@tool(risk=Risk.INSPECT, target="path")
def Read(path: str) -> str:  # noqa: N802 - the name by which facts are gathered
    """Read a file."""
    return f"contents of {path}\n{LONG}"


class Assistant(ScriptedProvider):
    """Answers questions from one script, and requests for a summary with `notes`.

    Like a model that does as it is told, it carries over a rule that its input contains.
    """

    def __init__(
        self, *replies: ScriptedReply, notes: str = "", facts: ModelFacts = WRITER
    ) -> None:
        super().__init__(replies, facts)
        self.notes = notes
        self.summary_requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        if "Transcript:" not in request.messages[0].text:
            async for chunk in super().stream(request):
                yield chunk
            return
        self.summary_requests.append(request)
        notes = f"{self.notes}\n{RULE}" if RULE in request.messages[0].text else self.notes
        for step in text_reply(notes):
            assert isinstance(step, Chunk)
            yield step


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


def is_summary(message: Message) -> bool:
    return message.text.startswith("[Context Summary]")


@pytest.mark.req("CMP-2")
async def test_a_compaction_keeps_the_system_message_and_does_not_summarise_it() -> None:
    provider = Assistant(*[LONG] * 9, "fine", notes="The notes.")
    async with Session(provider, model="m", system_message=SYSTEM, policy=BY_HAND) as session:
        for number in range(9):
            await session.run(f"question {number}")
        await session.compact()
        await session.run("and now?")

    assert provider.summary_requests
    for request in provider.summary_requests:
        assert "Daedalus" not in request.system
        assert "Daedalus" not in "".join(texts(request.messages))
    assert [request.system for request in provider.requests] == [SYSTEM] * 10


@pytest.mark.req("CMP-2")
async def test_the_history_reads_summary_then_kept_tail() -> None:
    provider = Assistant(*[LONG] * 9, "fine", notes="The notes.")
    async with Session(provider, model="m", policy=BY_HAND) as session:
        for number in range(9):
            await session.run(f"question {number}")
        before = session.get_history()
        await session.compact()
        after = session.get_history()
        await session.run("and now?")

    assert after[0].role is Role.ASSISTANT
    assert after[0].text.startswith("[Context Summary]\nThe notes.")
    assert [message for message in after if is_summary(message)] == after[:1]
    assert after[-2:] == before[-2:]
    asked = [message.text for message in before if message.role is Role.USER]
    assert all(any(text in message.text for message in after) for text in asked)
    sent = provider.requests[-1].messages
    assert is_summary(sent[0])
    assert list(sent[1:-1]) == after[1:]
    assert sent[-1].text == "and now?"


@pytest.mark.req("CMP-3")
@pytest.mark.parametrize("facts", [WRITER, RULES_ONLY], ids=["model", "rules"])
async def test_pins_user_words_recent_turns_and_facts_survive_word_for_word(
    facts: ModelFacts,
) -> None:
    replies: list[ScriptedReply] = [
        *("noted", "it is 7 cubits", call_reply(("Read", {"path": "walls/north.plan"})), LONG),
        *[LONG] * 9,
        *("The end of the thread is red.", "fine"),
    ]
    provider = Assistant(*replies, notes="Notes that mention nothing.", facts=facts)
    session = Session(
        provider,
        model="m",
        tools=[Read],
        policy=BY_HAND,
        extra_facts=lambda: ["Running in the background: dig (job 3)"],
    )
    async with session:
        await session.run(RULE)
        await session.run("How wide is the gate?")
        await session.pin(number_of(session, "it is 7 cubits"))
        await session.run("Read the plan.")
        for number in range(9):
            await session.run(f"question {number}")
        await session.run("Which colour has the thread?")
        await session.compact()
        await session.run("and now?")

    sent = provider.requests[-1].messages
    assert is_summary(sent[0])
    assert RULE in sent[0].text
    assert "it is 7 cubits" in texts(sent)
    assert texts(sent)[-3:] == [
        "Which colour has the thread?",
        "The end of the thread is red.",
        "and now?",
    ]
    assert "walls/north.plan" in sent[0].text
    assert "Running in the background: dig (job 3)" in sent[0].text
    assert not any(result.name == "Read" for message in sent for result in message.results)


def number_of(session: Session, text: str) -> int:
    (entry,) = session.search(text)
    return entry.id


@pytest.mark.req("CMP-3")
async def test_the_current_request_survives_a_compaction_in_its_own_tool_loop() -> None:
    calls = [call_reply(("Read", {"path": f"walls/{n}.plan"})) for n in range(24)]
    provider = ScriptedProvider([*calls, "all read"], RULES_ONLY)
    request = "Read every plan, then tell me which wall is the longest."
    async with Session(provider, model="m", tools=[Read]) as session:
        await session.run(request)

        assert any(map(is_summary, session.get_history())) or any(
            "[cleared" in result.text for m in session.get_history() for result in m.results
        )
    assert all(request in texts(sent.messages) for sent in provider.requests)


class RecordingHooks:
    """Hooks that remember what they were told and may refuse a compaction."""

    def __init__(self) -> None:
        self.seen: list[tuple[HookEvent, HookInput]] = []
        self.refusal: str | None = None

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        self.seen.append((event, payload))
        return HookVerdict(block=self.refusal if event is HookEvent.PRE_COMPACT else None)

    def of(self, event: HookEvent) -> list[HookInput]:
        return [payload for name, payload in self.seen if name is event]


@pytest.mark.req("CMP-5")
async def test_hooks_events_and_log_report_one_compaction_alike(tmp_path: Path) -> None:
    events: list[Event] = []
    hooks = RecordingHooks()
    session = Session(
        Assistant(*[LONG] * 9, notes="The notes."),
        model="m",
        policy=BY_HAND,
        hooks=hooks,
        session_id="s",
        session_log=SessionLog(tmp_path),
        event_bus=bus_for(events.append),
    )
    async with session:
        for number in range(9):
            await session.run(f"question {number}")
        before = session.get_context_state()
        await session.compact("keep the names")
        after = session.get_context_state()
        (ended,) = [event for event in events if isinstance(event, CompactionEnded)]

    (asked,) = hooks.of(HookEvent.PRE_COMPACT)
    assert (asked.trigger, asked.custom_instructions) == ("manual", "keep the names")
    (told,) = hooks.of(HookEvent.POST_COMPACT)
    assert told.compact_summary == ended.summary
    assert ended.summary.startswith("The notes.")
    assert (ended.trigger, ended.before, ended.after) == ("manual", before, after)
    assert after.used_tokens < before.used_tokens
    (line,) = [line for line in LogReader(tmp_path / "s.jsonl") if line.name == "context_compact"]
    logged: dict[str, Any] = line.fields
    assert logged["trigger"] == "manual"
    assert logged["before"]["used_tokens"] == before.used_tokens
    assert logged["after"]["used_tokens"] == after.used_tokens


@pytest.mark.req("CMP-5")
async def test_a_pre_compact_hook_stops_a_compaction_by_hand_and_an_automatic_one() -> None:
    hooks = RecordingHooks()
    hooks.refusal = "the build is running"
    provider = ScriptedProvider([LONG] * 30, RULES_ONLY)
    async with Session(provider, model="m", hooks=hooks) as session:
        while not hooks.of(HookEvent.PRE_COMPACT):
            await session.run("more")
        assert hooks.of(HookEvent.PRE_COMPACT)[0].trigger == "auto"
        with pytest.raises(NothingToDrop, match="the build is running"):
            await session.compact()
        assert not any(map(is_summary, session.get_history()))
        assert hooks.of(HookEvent.POST_COMPACT) == []

        hooks.refusal = None
        await session.compact()

        assert is_summary(session.get_history()[0])
        assert len(hooks.of(HookEvent.POST_COMPACT)) == 1


@pytest.mark.req("CMP-7")
async def test_a_second_compaction_updates_the_first_summary() -> None:
    provider = Assistant(*[LONG] * 18, "fine")
    async with Session(provider, model="m", policy=BY_HAND) as session:
        for notes in ("First notes.", "Second notes."):
            provider.notes = notes
            provider.summary_requests.clear()
            for number in range(6):
                await session.run(f"question {number}")
            await session.compact()
            assert session.get_history()[0].text.startswith(f"[Context Summary]\n{notes}")
        await session.run("and now?")

    earlier, _, transcript = provider.summary_requests[0].messages[0].text.partition("Transcript:")
    assert "First notes." in earlier
    assert "First notes." not in transcript
    sent = provider.requests[-1].messages
    assert [is_summary(message) for message in sent].count(True) == 1
    assert "First notes." not in "".join(texts(sent))


@pytest.mark.req("CMP-7")
@pytest.mark.parametrize("facts", [WRITER, RULES_ONLY], ids=["model", "rules"])
async def test_the_users_rules_are_still_there_after_ten_compactions(facts: ModelFacts) -> None:
    provider = Assistant(*[LONG] * 120, notes="Notes.", facts=facts)
    async with Session(provider, model="m", policy=BY_HAND) as session:
        await session.run(RULE)
        for round_ in range(10):
            for number in range(6):
                await session.run(f"question {number} of round {round_}")
                assert RULE in "\n".join(texts(provider.requests[-1].messages))
            await session.compact()
        await session.run("and now?")

    assert RULE in "\n".join(texts(provider.requests[-1].messages))
