"""What a turn consumed: exact where every call was counted, and an estimate elsewhere."""

from typing import Any

import msgspec
import pytest

from clew.core.entries import Charged, MessageAdded, spending_of
from clew.core.messages import assistant, user
from clew.core.results import ExecutionResult
from clew.core.usage import Spending, Usage
from clew.providers.scripted import ScriptedReply, call_reply, text_reply
from clew.session.history import HistoryEntry
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("INT-4")]

SMALL = Usage(input_tokens=1, output_tokens=1)
LARGE = Usage(input_tokens=20_000, output_tokens=10)


def a_call(usage: Usage | None) -> ScriptedReply:
    return call_reply(("Glob", {"pattern": "*"}), usage=usage)


HISTORIES: dict[str, list[HistoryEntry]] = {}
"""The history of each run, by its id."""


def told(result: ExecutionResult) -> list[dict[str, Any]]:
    """Return the summaries of usage in a history."""
    return [item.data for item in HISTORIES[result.run_id] if item.type == "usage-summary"]


async def submit(place: Place, *replies: ScriptedReply) -> ExecutionResult:
    async with place.session(replies) as session:
        result = await session.run("hi")
        HISTORIES[result.run_id] = session.get_full_history()
        return result


async def test_a_turn_is_exact_when_every_call_was_counted(place: Place) -> None:
    result = await submit(place, a_call(SMALL), text_reply("done", usage=LARGE))

    assert result.usage is not None
    assert (result.usage.kind, result.usage.total_tokens) == ("exact", 20_012)
    assert [(one["kind"], one["total_tokens"]) for one in told(result)] == [("exact", 20_012)]


@pytest.mark.parametrize("replies", [(LARGE, None), (None, LARGE)])
async def test_one_call_that_was_not_counted_makes_an_estimate(
    place: Place, replies: tuple[Usage | None, Usage | None]
) -> None:
    first, second = replies

    result = await submit(place, a_call(first), text_reply("done", usage=second))

    assert result.usage is not None
    assert result.usage.kind == "estimated"
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (20_000, 10)
    assert result.usage.total_tokens >= 20_010
    assert [one["kind"] for one in told(result)] == ["estimated"]


async def test_the_total_of_an_estimate_is_no_less_than_the_context(place: Place) -> None:
    partly = await submit(place, a_call(SMALL), text_reply("done"))
    assert partly.usage is not None
    assert partly.usage.total_tokens == partly.usage.context_used_tokens > 2

    nothing = await submit(place, text_reply("done"))
    assert nothing.usage is not None
    assert nothing.usage.kind == "estimated"
    assert nothing.usage.total_tokens == nothing.usage.context_used_tokens > 0
    assert told(nothing) == []


async def test_an_uncounted_turn_does_not_blur_the_next_one(place: Place) -> None:
    async with place.session([text_reply("one"), text_reply("two", usage=SMALL)]) as session:
        first = await session.run("hi")
        second = await session.run("hi")
        HISTORIES[second.run_id] = session.get_full_history()

    assert first.usage is not None
    assert second.usage is not None
    assert (first.usage.kind, second.usage.kind) == ("estimated", "exact")
    assert [one["kind"] for one in told(second)][-1] == "exact"


def test_calls_that_nobody_counted_are_told_apart() -> None:
    spent = Spending()
    for body in (
        MessageAdded(message=user("no call")),
        MessageAdded(message=assistant("counted"), usage=SMALL, cost=0.5),
        MessageAdded(message=assistant("guessed"), cost=0.25),
        MessageAdded(message=assistant("nothing known"), uncounted=True),
        Charged(why="a summary", usage=SMALL),
        Charged(why="a summary"),
    ):
        spent += spending_of(body)

    assert (spent.calls, spent.uncounted, spent.unpriced, spent.usd) == (5, 3, 3, 0.75)
    assert (spent + spent).uncounted == 6


def test_spending_that_was_kept_before_calls_were_told_apart_is_read() -> None:
    old = msgspec.msgpack.encode({"usd": 1.0, "calls": 2, "unpriced": 1, "usage": {}})

    assert msgspec.msgpack.decode(old, type=Spending) == Spending(usd=1.0, calls=2, unpriced=1)
