"""What a session costs, and that it stops where it was told to."""

import re

import pytest
from msgspec.structs import replace

from clew import Session, tool
from clew.core.entries import Charged
from clew.core.errors import AbortError, BudgetReached, ConfigError, StreamBroken
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.core.usage import Usage
from clew.providers.prices import Price
from clew.providers.protocol import Finished, StopReason, TextChunk, UsageChunk
from clew.providers.scripted import (
    Pause,
    ScriptedProvider,
    ScriptedReply,
    ScriptedStep,
    call_reply,
    text_reply,
)
from clew.session.model_call import ask_aside
from clew.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

FACTS = ModelFacts(name="m", window=1_000_000)
PRICES = {"m": Price(input=1.0, output=10.0, cache_read=0.1)}
CALL = Usage(input_tokens=100_000, output_tokens=10_000)
"""Costs 0.20 dollars."""


@tool(risk=Risk.INSPECT)
def look() -> str:
    """Look around."""
    return "nothing"


def session(
    *replies: ScriptedReply, budget: float | None = None, store: MemoryStore | None = None
) -> Session:
    return Session(
        ScriptedProvider(replies, FACTS),
        model="m",
        tools=[look],
        prices=PRICES,
        budget_usd=budget,
        store=store or MemoryStore(),
        session_id="s",
    )


@pytest.mark.req("PRV-7")
async def test_every_turn_is_counted_with_its_cache_price() -> None:
    cached = Usage(input_tokens=100_000, output_tokens=0, cache_read_tokens=90_000)
    async with session(text_reply("a", usage=CALL), text_reply("b", usage=cached)) as chat:
        await chat.run("one")
        first = chat.get_cost()
        await chat.run("two")
        both = chat.get_cost()

    assert first.usd == pytest.approx(0.20)
    assert both.usd == pytest.approx(0.20 + 0.01 + 0.009)
    assert (both.calls, both.unpriced, both.usage) == (2, 0, CALL + cached)


@pytest.mark.req("PRV-7")
async def test_an_unknown_price_is_said_to_be_unknown() -> None:
    provider = ScriptedProvider([text_reply("a", usage=CALL)], FACTS)
    async with Session(provider, model="m") as chat:
        await chat.run("one")

    assert (chat.get_cost().usd, chat.get_cost().unpriced) == (0.0, 1)


@pytest.mark.req("PRV-7")
async def test_what_the_provider_says_it_cost_counts_before_the_table() -> None:
    reply: list[ScriptedStep] = [
        TextChunk("a"),
        Finished(reason=StopReason.DONE, usage=CALL, cost=0.05),
    ]
    async with session(reply) as chat:
        await chat.run("one")

    assert chat.get_cost().usd == pytest.approx(0.05)


@pytest.mark.req("PRV-7")
async def test_a_budget_stops_the_session_between_calls_and_nothing_is_lost() -> None:
    replies = [call_reply(("look", {}), usage=CALL), text_reply("done", usage=CALL)]
    async with session(*replies, budget=0.15) as chat:
        with pytest.raises(BudgetReached, match=r"\$0\.2000 of its budget of \$0\.15"):
            await chat.run("one")
        roles = [str(message.role) for message in chat.get_history()]
        with pytest.raises(BudgetReached):
            await chat.run("two")
        chat.state.set_budget(1.0)
        answer = await chat.run("go on")

    assert roles == ["user", "assistant", "tool"]
    assert answer == "done"
    assert [m.text for m in chat.get_history() if m.role == "user"] == ["one", "go on"]


@pytest.mark.req("PRV-7")
async def test_a_budget_stops_before_the_call_that_would_exceed_it() -> None:
    replies = [call_reply(("look", {}), usage=CALL), text_reply("done", usage=CALL)]
    async with session(*replies, budget=0.30) as chat:
        with pytest.raises(BudgetReached) as caught:
            await chat.run("one")
        spent, roles = chat.get_cost().usd, [str(m.role) for m in chat.get_history()]
        with pytest.raises(BudgetReached):
            await chat.run("two")
        prompts = [m.text for m in chat.get_history() if m.role == "user"]
        chat.state.set_budget(0.5)
        answer = (await chat.continue_run()).response

    assert spent == pytest.approx(0.20)
    assert roles == ["user", "assistant", "tool"]
    assert prompts == ["one"]
    assert answer == "done"
    # The whole conversation is read again; an answer is as long as the model writes at most.
    assert re.search(r"about \$0\.15\d+ \(110,\d+ tokens in, about 4,096 out\)", str(caught.value))
    assert "$0.1000 of the budget of $0.30 is left" in str(caught.value)


@pytest.mark.req("PRV-7")
async def test_an_answer_may_be_as_long_as_the_budget_pays_for() -> None:
    facts = replace(FACTS, max_output=64_000)
    sent = {}
    for budget in (None, 0.05, 100.0):
        provider = ScriptedProvider([text_reply("short")], facts)
        async with Session(provider, model="m", prices=PRICES, budget_usd=budget) as chat:
            await chat.run("write a book")
        (request,) = provider.requests
        sent[budget] = request.max_output_tokens or 0

    assert sent[None] == sent[100.0] == 64_000
    # 0.05 dollars pay for 5,000 tokens at 10 dollars a million, less the prompt.
    assert 4_900 < sent[0.05] <= 5_000


async def test_a_model_without_a_price_for_answers_is_not_limited() -> None:
    provider = ScriptedProvider([text_reply("short")], replace(FACTS, max_output=64_000))
    free = {"m": Price(input=0.0, output=0.0)}
    async with Session(provider, model="m", prices=free, budget_usd=0.05) as chat:
        await chat.run("write a book")

    assert provider.requests[0].max_output_tokens == 64_000


@pytest.mark.req("PRV-7")
async def test_what_the_provider_has_cached_is_expected_to_be_cheap() -> None:
    cached = Usage(input_tokens=100_000, output_tokens=100, cache_read_tokens=90_000)
    replies = [call_reply(("look", {}), usage=cached), text_reply("done", usage=cached)]
    async with session(*replies, budget=0.05) as chat:
        assert await chat.run("one") == "done"
        chat.state.clock = lambda: 1e12
        with pytest.raises(BudgetReached, match=r"about \$0\.1"):
            await chat.run("the cache is cold now")

    assert 0.02 < chat.get_cost().usd < 0.05


@pytest.mark.req("PRV-7")
async def test_the_first_call_is_not_made_if_the_prompt_alone_exceeds_the_budget() -> None:
    async with session("never said", budget=0.01) as chat:
        with pytest.raises(BudgetReached, match="would cost about"):
            await chat.run("word " * 20_000)

    assert chat.get_history() == []


@pytest.mark.req("PRV-7")
async def test_a_question_beside_the_conversation_is_not_asked_beyond_the_budget() -> None:
    async with session("never said", budget=0.01) as chat:
        with pytest.raises(BudgetReached, match="would cost about"):
            await ask_aside(chat.state, "word " * 20_000, why="a test")

    assert chat.get_cost().calls == 0


@pytest.mark.req("PRV-7")
async def test_a_budget_that_cannot_be_kept_is_refused() -> None:
    provider = ScriptedProvider(["never said"], FACTS)
    async with Session(provider, model="m", budget_usd=1.0) as chat:
        with pytest.raises(BudgetReached, match="price of m on scripted is unknown"):
            await chat.run("one")

    assert provider.requests == []


@pytest.mark.req("PRV-7")
async def test_spending_is_remembered_when_a_session_is_opened_again() -> None:
    store = MemoryStore()
    async with session(text_reply("a", usage=CALL), store=store) as chat:
        await chat.run("one")
    async with session(text_reply("b", usage=CALL), store=store, budget=0.2) as again:
        with pytest.raises(BudgetReached):
            await again.run("two")


@pytest.mark.req("PRV-3", "PRV-7")
async def test_an_answer_that_was_broken_off_is_paid_for() -> None:
    broken = StreamBroken("gone", provider="scripted")
    async with session(
        [UsageChunk(CALL), TextChunk("Hel"), broken], [UsageChunk(CALL), broken]
    ) as chat:
        for prompt in ("one", "two"):
            with pytest.raises(StreamBroken):
                await chat.run(prompt)

    assert chat.get_cost().usd == pytest.approx(0.40)
    assert [e.body.cost for e in chat.journal.entries if isinstance(e.body, Charged)] == [
        pytest.approx(0.20)
    ]


@pytest.mark.req("PRV-7")
async def test_an_undo_brings_no_money_back() -> None:
    async with session(text_reply("a", usage=CALL)) as chat:
        await chat.run("one")
        await chat.clear_history()
        await chat.undo()

    assert chat.get_cost().usd == pytest.approx(0.20)


async def test_an_abort_before_the_first_word_costs_nothing_that_is_known() -> None:
    pause = Pause()
    async with session([pause]) as chat:
        pause.release()
        with pytest.raises((AbortError, StreamBroken)):
            await chat.run("one")

    assert chat.get_cost().calls == 0


@pytest.mark.req("PRV-7")
async def test_an_answer_that_nobody_counted_is_estimated_never_free() -> None:
    async with session(text_reply("word " * 100), budget=0.005) as chat:
        await chat.run("one")
        chat.state.set_budget(chat.get_cost().usd)
        with pytest.raises(BudgetReached):
            await chat.run("two")

    assert 0 < chat.get_cost().usd < 0.01


@pytest.mark.req("PRV-7")
async def test_an_answer_without_count_and_price_is_a_call_at_an_unknown_price() -> None:
    async with Session(ScriptedProvider(["a"], FACTS), model="m") as chat:
        await chat.run("one")

    assert (chat.get_cost().calls, chat.get_cost().unpriced) == (1, 1)


@pytest.mark.parametrize("amount", [float("nan"), -1.0, float("inf")])
async def test_a_budget_is_an_amount_of_money(amount: float) -> None:
    with pytest.raises(ConfigError, match="0 or more US dollars"):
        session(budget=amount)
    async with session() as chat:
        with pytest.raises(ConfigError):
            chat.state.set_budget(amount)


def test_a_misspelt_option_is_not_passed_over() -> None:
    with pytest.raises(TypeError, match="Session has no option budget"):
        Session(ScriptedProvider([]), model="m", budget=1.0)  # type: ignore[call-arg]
