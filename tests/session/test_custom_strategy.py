"""`Custom`: a function of the user's own takes part in everything that a compaction does."""

import anyio.lowlevel
import pytest

from clew import Custom, Session
from clew.core.entries import Compacted
from clew.core.errors import ConfigError, ContextOverflow, NothingToDrop
from clew.core.events import CompactionEnded, CompactionStarted, Event, Warned
from clew.core.messages import Message, assistant, user
from clew.core.models import ModelFacts
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.providers.scripted import ScriptedProvider, ScriptedReply
from tests.event_buses import bus_for

pytestmark = pytest.mark.anyio

LONG = "word " * 250


def scripted(*replies: ScriptedReply) -> ScriptedProvider:
    return ScriptedProvider(replies, facts=ModelFacts(name="m", window=4_000))


def compactions(session: Session) -> list[Compacted]:
    return [e.body for e in session.journal.entries if isinstance(e.body, Compacted)]


class Shorten:
    """Replaces all before the last request by a note, from `limit` tokens on."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, messages: list[Message], tokens: int) -> list[Message]:
        if tokens < self.limit:
            return messages
        last = max(n for n, message in enumerate(messages) if message.role == "user")
        return [user("in short: hello"), *messages[last:]]


class Recorder:
    """Hooks that record the events of compactions, and may refuse one."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.answer = HookVerdict()

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        await anyio.lowlevel.checkpoint()
        if event not in (HookEvent.PRE_COMPACT, HookEvent.POST_COMPACT):
            return HookVerdict()
        self.seen.append(f"{event} {payload.trigger}")
        return self.answer


@pytest.mark.req("STR-4")
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_of_the_users_own_decides(*, is_async: bool) -> None:
    seen: list[int] = []

    def compress(messages: list[Message], tokens: int) -> list[Message]:
        seen.append(tokens)
        return messages if len(messages) < 5 else [user("in short: hello"), *messages[-3:]]

    async def later(messages: list[Message], tokens: int) -> list[Message]:
        return compress(messages, tokens)

    provider = scripted(*["fine"] * 4)
    custom = Custom(compress=later if is_async else compress)
    async with Session(provider, model="m", strategy=custom) as session:
        for number in range(3):
            await session.run(f"question {number}")

        sent = [message.text for message in provider.requests[-1].messages]
        assert sent == ["in short: hello", "question 1", "fine", "question 2"]
        assert len(seen) == 3
        (body,) = compactions(session)
        assert body.strategy == "custom"
        await session.undo()
        assert session.get_history()[0].text == "question 0"


@pytest.mark.req("STR-4")
@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        ([], "empty"),
        (None, "list of messages"),
        ([assistant("hi")], "not the user's"),
        ([user("something else")], "left out message #2"),
    ],
)
async def test_a_function_may_not_break_the_history(result: list[Message], complaint: str) -> None:
    provider = scripted("fine")
    custom = Custom(compress=lambda messages, tokens: result)
    async with Session(provider, model="m", strategy=custom) as session:
        with pytest.raises(ConfigError, match=complaint):
            await session.run("hello")

        assert [message.text for message in session.get_history()] == ["hello"]
        with pytest.raises(ConfigError, match=complaint):
            await session.compact()


@pytest.mark.req("STR-4")
async def test_what_a_function_put_in_earlier_may_go_one_by_one() -> None:
    def compress(messages: list[Message], tokens: int) -> list[Message]:
        if len(messages) == 1:
            return [user("note 1"), user("note 2"), *messages]
        return [user("note 2"), *messages[2:]]

    provider = scripted("a", "b")
    custom = Custom(compress=compress)
    async with Session(provider, model="m", strategy=custom) as session:
        await session.run("one")
        await session.run("two")

    sent = [message.text for message in provider.requests[-1].messages]
    assert sent == ["note 2", "one", "a", "two"]


@pytest.mark.req("STR-4", "CMP-1")
async def test_compacting_by_hand_asks_the_function_and_reports_what_left() -> None:
    events: list[Event] = []
    shorten = Shorten(limit=10_000)
    custom = Custom(compress=shorten, name="mine")
    async with Session(
        scripted(*[LONG] * 3), model="m", strategy=custom, event_bus=bus_for(events.append)
    ) as session:
        for number in range(3):
            await session.run(f"question {number}")
        with pytest.raises(NothingToDrop, match="returned the same messages"):
            await session.compact()
        shorten.limit = 0

        done = await session.compact()

        assert compactions(session) == [done]
        assert (done.strategy, done.trigger, done.report.author) == ("mine", "manual", "custom")
        assert (done.report.kept, done.report.summarised) == ((6, 7), (2, 3, 4, 5))
        state = session.get_context_state()
        assert done.report.tokens_after == pytest.approx(state.used_tokens, abs=5)
        started, ended = (e for e in events if isinstance(e, CompactionStarted | CompactionEnded))
        assert isinstance(started, CompactionStarted)
        assert isinstance(ended, CompactionEnded)
        assert ended.report == done.report
        assert ended.after.used_tokens < ended.before.used_tokens
        await session.undo()
        assert session.get_history()[0].text == "question 0"


@pytest.mark.req("STR-4", "CMP-9")
async def test_an_overflow_leads_to_the_function_and_one_retry() -> None:
    overflow = ContextOverflow("too long", provider="scripted")
    provider = scripted("fine", "fine", overflow, "made it")
    custom = Custom(compress=Shorten(limit=4_000))
    async with Session(provider, model="m", strategy=custom) as session:
        await session.run("one")
        await session.run("two")

        assert await session.run("three") == "made it"

        assert [body.trigger for body in compactions(session)] == ["overflow"]
        sent = [message.text for message in provider.requests[-1].messages]
        assert sent == ["in short: hello", "three"]


@pytest.mark.req("STR-4", "CMP-5")
async def test_hooks_may_refuse_what_the_function_decided_and_hear_of_it_afterwards() -> None:
    events: list[Event] = []
    hooks = Recorder()
    hooks.answer = HookVerdict(block="not now")
    provider = scripted(LONG, "fine", "fine")
    custom = Custom(compress=Shorten(limit=300))
    async with Session(
        provider, model="m", strategy=custom, hooks=hooks, event_bus=bus_for(events.append)
    ) as session:
        await session.run("one")
        await session.run("two")

        assert compactions(session) == []
        assert provider.requests[-1].messages[0].text == "one"
        assert Warned("a compaction was refused: not now") in events
        hooks.answer = HookVerdict()
        await session.run("three")

        assert [body.trigger for body in compactions(session)] == ["auto"]
        assert hooks.seen == ["PreCompact auto", "PreCompact auto", "PostCompact auto"]


@pytest.mark.req("STR-4", "CMP-10")
async def test_only_the_function_knows_what_it_would_drop_so_there_is_no_preview() -> None:
    custom = Custom(compress=Shorten(limit=0))
    async with Session(scripted("fine"), model="m", strategy=custom) as session:
        await session.run("one")

        with pytest.raises(NothingToDrop, match="only the function"):
            session.preview_compaction()
