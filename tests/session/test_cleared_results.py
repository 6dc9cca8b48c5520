"""Tool results that leave the view: announced, reported, and restored by an undo."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

from clew import ContextPolicy, MemoryStore, ModelFacts, Session, tool
from clew.context.economy import CachePrices, Economy
from clew.context.estimate import message_units
from clew.core.entries import Compacted, ResultsCleared, Undone
from clew.core.errors import ConfigError, ContextFull
from clew.core.events import CompactionEnded, Event, ToolResultsCleared
from clew.core.permissions import Risk
from clew.core.usage import Usage
from clew.providers.protocol import Chunk, Request
from clew.providers.scripted import ScriptedProvider, call_reply, text_reply

pytestmark = pytest.mark.anyio

WINDOW = 20_000
SMALL_TAIL = CachePrices(recent_tokens=1_000)


@tool(risk=Risk.INSPECT)
def read(number: int, size: int = 2_400) -> str:
    """Read a file."""
    return (f"file {number} " + "x" * size) if size < 2_500 else "a word; " * (size // 8)


class Reader(ScriptedProvider):
    """Reads `calls` files in each run; reports tokens only if `counts`, as local servers do not."""

    def __init__(self, calls: int, *, counts: bool = True, window: int = WINDOW) -> None:
        super().__init__([], ModelFacts(name="m", window=window, summarises=False))
        self.calls, self._left, self._counts = calls, calls, counts

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        self._left -= 1
        units = sum(map(message_units, request.messages))
        usage = Usage(input_tokens=units, output_tokens=50) if self._counts else None
        reply = call_reply(("read", {"number": len(self.requests)}), usage=usage)
        if self._left < 0:
            reply, self._left = text_reply("done", usage=usage), self.calls
        for step in reply:
            assert isinstance(step, Chunk)
            yield step


def open_reader(provider: ScriptedProvider, **options: Any) -> Session:
    policy = ContextPolicy(prices=SMALL_TAIL, preserve_recent_turns=1)
    return Session(
        provider, model="m", tools=[read], detect_loops=False, **({"policy": policy} | options)
    )


def cleared(request: Request) -> int:
    texts = [result.text for message in request.messages for result in message.results]
    return sum(text.startswith("[cleared") for text in texts)


def heard(session: Session) -> list[Event]:
    events: list[Event] = []
    session.on("results_cleared", events.append)
    session.on("compaction", events.append)
    return events


@pytest.mark.req("CMP-14", "STR-8")
@pytest.mark.parametrize("counts", [True, False], ids=["counted", "estimated"])
async def test_cleared_results_are_announced_with_a_report(*, counts: bool) -> None:
    provider = Reader(46, counts=counts)
    session = open_reader(provider)
    async with session:
        events = heard(session)
        await session.run("read all")

        (event,) = events
        assert isinstance(event, ToolResultsCleared)
        report = event.report
        assert event.trigger == "economy"
        assert event.before.used_tokens == report.tokens_before
        assert event.before.used_tokens >= WINDOW // 2
        assert event.after.used_tokens < event.before.used_tokens
        assert cleared(provider.requests[-1]) == len(report.cleared) > 10
        (entry,) = [e for e in session.journal.entries if isinstance(e.body, ResultsCleared)]
        body = entry.body
        assert isinstance(body, ResultsCleared)
        assert (body.kept, body.trigger) == (len(report.kept), "economy")
        assert (body.tokens_before, body.tokens_after) == (
            report.tokens_before,
            report.tokens_after,
        )
        listed = [one for one in session.get_full_history() if one.type == "results_cleared"]
        assert listed[0].data["cleared"] == list(report.cleared)


@pytest.mark.req("CMP-14", "CTX-6")
async def test_the_economy_of_an_open_session_can_be_changed() -> None:
    provider = Reader(40)
    policy = ContextPolicy(economy=Economy.FULL, prices=SMALL_TAIL, preserve_recent_turns=1)
    session = open_reader(provider, policy=policy)
    async with session:
        events = heard(session)
        await session.run("read all")
        assert events == []

        session.set_economy("balanced")
        provider.calls = provider._left = 2
        await session.run("and then?")

        assert [type(event) for event in events] == [ToolResultsCleared]
        with pytest.raises(ConfigError, match="economy must be one of"):
            session.set_economy("huge")


@pytest.mark.req("CMP-14")
async def test_an_undo_restores_cleared_results_and_they_stay() -> None:
    provider = Reader(43)
    session = open_reader(provider)
    async with session:
        events = heard(session)
        await session.run("read all")
        removed = set(events[0].report.cleared)  # type: ignore[union-attr]

        undone = await session.undo()

        assert isinstance(undone.body, ResultsCleared)
        assert cleared(provider.requests[-1]) > 0
        assert session.journal.view.restored == removed
        provider.calls = provider._left = 2
        await session.run("and then?")
        assert cleared(provider.requests[-1]) == 0
        assert len(events) == 1


@pytest.mark.req("CMP-14")
async def test_an_undo_takes_back_the_newest_change_first() -> None:
    provider = Reader(46)
    session = open_reader(provider)
    async with session:
        await session.run("read all")
        await session.compact()

        kinds = [type((await session.undo()).body) for _ in range(2)]

    assert kinds == [Compacted, ResultsCleared]


@pytest.mark.req("CMP-14")
async def test_opening_a_session_and_the_first_call_change_nothing() -> None:
    """Even if the provider's cache has expired since the last call."""
    keep = ContextPolicy(economy=Economy.FULL)
    store = MemoryStore()
    async with open_reader(Reader(46), store=store, session_id="s", policy=keep) as first:
        await first.run("read all")
        before = first.get_history()
    provider = Reader(0)
    late = ContextPolicy(prices=replace(SMALL_TAIL, cold_after=-1.0), preserve_recent_turns=1)
    async with open_reader(provider, store=store, session_id="s", policy=late) as session:
        events = heard(session)
        assert session.get_history() == before
        await session.run("and now?")

    assert events == []
    assert cleared(provider.requests[0]) == 0
    assert len(provider.requests[0].messages) == len(before) + 1


@pytest.mark.req("CMP-14", "STR-6")
async def test_the_option_announces_what_it_clears_and_spares_what_an_undo_restored() -> None:
    provider = Reader(2, window=200_000)
    session = open_reader(provider, compress_tool_results=True)
    async with session:
        events = heard(session)
        await session.run("read")
        assert [event.trigger for event in events] == ["option"]  # type: ignore[union-attr]

        await session.undo()
        await session.run("read more")

        requests = provider.requests[3:]
        assert [cleared(request) for request in requests] == [1, 1, 2]
        first = requests[-1].messages[2].results[0].text
        assert first.startswith("file 1")


@pytest.mark.req("CMP-14")
async def test_results_that_are_shortened_to_fit_are_announced() -> None:
    provider = ScriptedProvider(
        [call_reply(("read", {"number": n, "size": 2_600})) for n in range(7)] + ["done"],
        ModelFacts(name="m", window=4_000, summarises=False),
    )
    session = open_reader(provider, auto_compact_threshold=False)
    async with session:
        events = heard(session)
        await session.run("read")

        assert {event.trigger for event in events} == {"limit"}  # type: ignore[union-attr]
        report = events[-1].report  # type: ignore[union-attr]
        assert report.tokens_after < report.tokens_before
        assert isinstance((await session.undo()).body, ResultsCleared)


@pytest.mark.req("CMP-14")
async def test_what_a_prompt_that_does_not_fit_caused_is_not_held_against_later_clearing() -> None:
    provider = Reader(46)
    session = open_reader(provider)
    async with session:
        await session.run("read all")
        kept = session.get_history()
        with pytest.raises(ContextFull):
            await session.run("y " * 40_000)

        assert session.get_history() == kept
        assert any(isinstance(entry.body, Undone) for entry in session.journal.entries)
        assert session.journal.view.restored == frozenset()


@pytest.mark.req("CMP-17")
async def test_full_clears_nothing_below_the_threshold() -> None:
    provider = Reader(46)
    session = open_reader(provider, economy="full")
    async with session:
        events = heard(session)
        await session.run("read all")

    assert events == []
    assert cleared(provider.requests[-1]) == 0


@pytest.mark.req("CMP-17")
@pytest.mark.parametrize("option", [{}, {"compress_tool_results": False}], ids=["unset", "false"])
async def test_lean_compacts_to_a_small_working_set_by_rules(option: dict[str, Any]) -> None:
    provider = Reader(140, window=200_000)
    session = open_reader(provider, economy="lean", **option)
    async with session:
        events = heard(session)
        await session.run("read all")

    assert all(isinstance(event, CompactionEnded) for event in events)
    assert {event.report.author for event in events} == {"rules"}  # type: ignore[union-attr]
    assert events[0].before.used_tokens < 36_000  # type: ignore[union-attr]
    assert events[0].after.used_tokens < 20_000  # type: ignore[union-attr]


@pytest.mark.req("CMP-17")
async def test_lean_waits_for_the_threshold_after_an_undo() -> None:
    provider = Reader(100, window=200_000)
    session = open_reader(provider, economy="lean")
    async with session:
        events = heard(session)
        await session.run("read all")
        assert len(events) == 1

        await session.undo()
        provider.calls = provider._left = 3
        await session.run("and then?")

        assert len(events) == 1


@pytest.mark.req("CMP-17", "STR-6")
async def test_false_keeps_results_until_a_compaction() -> None:
    provider = Reader(46)
    session = open_reader(provider, compress_tool_results=False)
    async with session:
        events = heard(session)
        await session.run("read all")

    assert events == []
    assert cleared(provider.requests[-1]) == 0


def test_an_unknown_economy_is_refused() -> None:
    with pytest.raises(ConfigError, match="economy must be one of full, balanced, lean"):
        ContextPolicy(economy="thrifty")  # type: ignore[arg-type]


@pytest.mark.req("CMP-14")
async def test_protected_results_stay_through_clearing_and_compaction() -> None:
    provider = Reader(46)
    session = open_reader(provider, protect=["read(1)"])
    async with session:
        await session.run("read all")
        assert cleared(provider.requests[-1]) > 0
        await session.compact(force=True)
        results = [r.text for message in session.get_history() for r in message.results]

    assert results[0].startswith("file 1 x")
