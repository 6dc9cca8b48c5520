"""Strategies, tool output and reasoning through a session: what the next request contains."""

import itertools
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from clew import (
    Compact,
    ContextPolicy,
    Message,
    ModelFacts,
    Risk,
    Session,
    SlidingWindow,
    Summarize,
    Tiered,
    ToolOutput,
    Usage,
    tool,
)
from clew.context.economy import CachePrices
from clew.context.estimate import message_units
from clew.context.plan import Strategy
from clew.providers.openai_chat import OpenAIChat
from clew.providers.protocol import Chunk, ReasoningChunk, Request
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply, text_reply
from clew.testing.fake_openai import fake_openai, text_response

pytestmark = pytest.mark.anyio

LARGE = ModelFacts(name="m", window=200_000, summarises=False)
WORDS = "some words about the labyrinth " * 40
STRATEGIES = [Tiered(), SlidingWindow(max_turns=50), Summarize(), Compact()]


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


class TwoModels(ScriptedProvider):
    """Answers questions at length, and the model `small` with notes."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        for step in text_reply("Notes by small." if request.model == "small" else WORDS):
            assert isinstance(step, Chunk)
            yield step

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(name=model, window=200_000)


@pytest.mark.req("STR-2")
async def test_summarize_hands_old_turns_to_the_summary_model_above_max_tokens() -> None:
    provider = TwoModels([])
    session = Session(
        provider, model="m", strategy=Summarize(max_tokens=2_000), summary_model="small"
    )
    async with session:
        while not session.get_history() or len(provider.requests) < 20:
            full = session.get_context_state().used_tokens >= 2_000
            asked = len(provider.requests)
            await session.run(f"question {asked}")
            models = [request.model for request in provider.requests[asked:]]
            assert models[-1] == "m"
            assert ("small" in models) is full
            if full:
                break

        first = session.get_history()[0].text
        assert first.startswith("[Context Summary]\nNotes by small.")
    sent = provider.requests[-1].messages
    assert texts(sent)[0] == first
    assert "question 0" in "".join(texts(provider.requests[-2].messages))
    assert len("".join(texts(sent))) < len("".join(texts(provider.requests[-3].messages)))


@tool(risk=Risk.INSPECT)
def read(size: int) -> ToolOutput:
    """Read something of that many characters; odd sizes fail."""
    return ToolOutput(text="x" * size, failed=size % 2 == 1)


@tool(risk=Risk.INSPECT)
def delegate_to_agent(size: int) -> str:
    """Hand a task to another agent."""
    return "y" * size


def results(request: Request) -> list[str]:
    return [result.text for message in request.messages for result in message.results]


@pytest.mark.req("STR-6")
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
@pytest.mark.parametrize(("option", "limit"), [(True, 500), (2_000, 2_000)])
async def test_consumed_results_become_markers_from_the_next_call_on(
    strategy: Strategy, *, option: bool | int, limit: int
) -> None:
    provider = ScriptedProvider(
        [
            call_reply(("read", {"size": limit}), ("read", {"size": limit + 2})),
            call_reply(("read", {"size": limit + 4})),
            *("done", "more"),
        ],
        LARGE,
    )
    policy = ContextPolicy(compress_tool_results=option)
    async with Session(
        provider, model="m", tools=[read], policy=policy, strategy=strategy
    ) as session:
        await session.run("read")
        await session.run("and now?")

    just_read, next_call, next_run = (results(request) for request in provider.requests[1:])
    assert just_read == ["x" * limit, "x" * (limit + 2)]
    assert next_call[0] == next_run[0] == "x" * limit
    assert next_call[1] == next_run[1]
    assert next_call[1].startswith("[cleared: ")
    assert len(next_call[1]) < 100
    assert next_call[2] == "x" * (limit + 4)
    assert next_run[2].startswith("[cleared: ")


@pytest.mark.req("STR-6")
async def test_errors_and_delegation_results_are_never_compressed() -> None:
    calls = call_reply(("read", {"size": 5_001}), ("delegate_to_agent", {"size": 5_000}))
    provider = ScriptedProvider([calls, "done", "more"], LARGE)
    policy = ContextPolicy(compress_tool_results=True)
    async with Session(
        provider, model="m", tools=[read, delegate_to_agent], policy=policy
    ) as session:
        await session.run("read")
        await session.run("and now?")

    assert results(provider.requests[-1]) == ["x" * 5_001, "y" * 5_000]


@pytest.mark.req("STR-6")
async def test_results_stay_whole_unless_compression_is_switched_on() -> None:
    provider = ScriptedProvider([call_reply(("read", {"size": 5_000})), "done", "more"], LARGE)
    async with Session(provider, model="m", tools=[read]) as session:
        await session.run("read")
        await session.run("and now?")

    assert results(provider.requests[-1]) == ["x" * 5_000]


def lines(count: int) -> str:
    return "\n".join(f"line {number}" for number in range(count))


@pytest.mark.req("STR-7")
@pytest.mark.parametrize(
    ("own_limit", "longest"), [(None, 1_000), (400, 400), (3_000, 3_000)], ids=str
)
async def test_long_output_enters_as_head_and_tail_and_names_its_entry(
    own_limit: int | None, longest: int
) -> None:
    @tool(risk=Risk.INSPECT, max_output_chars=own_limit)
    def listing() -> str:
        """List."""
        return lines(2_000)

    provider = ScriptedProvider([call_reply(("listing", {})), "done"], LARGE)
    policy = ContextPolicy(max_tool_output_chars=1_000)
    async with Session(provider, model="m", tools=[listing], policy=policy) as session:
        await session.run("list")

        (text,) = results(provider.requests[-1])
        assert longest * 0.8 < len(text) <= longest
        head, marker, tail = split_at_marker(text)
        assert lines(2_000).startswith(head)
        assert lines(2_000).endswith(tail)
        assert head
        assert tail
        assert "#4" in marker


def split_at_marker(text: str) -> tuple[str, str, str]:
    start, end = text.index("["), text.index("]") + 1
    return text[:start].rstrip("\n… "), text[start:end], text[end:].lstrip("\n… ")


@pytest.mark.req("STR-7")
async def test_the_model_reads_cut_output_back_with_recall() -> None:
    @tool(risk=Risk.INSPECT, max_output_chars=400)
    def listing() -> str:
        """List."""
        return lines(300)

    provider = ScriptedProvider(
        [
            call_reply(("listing", {})),
            call_reply(("Recall", {"entry": 4})),
            "found",
        ],
        LARGE,
    )
    async with Session(provider, model="m", tools=[listing]) as session:
        await session.run("list")

    cut, recalled = results(provider.requests[-1])
    assert "#4" in cut
    assert "line 150" not in cut
    assert recalled.endswith("listing\n" + lines(300))


class Reader(ScriptedProvider):
    """Reads one file after the other, and counts its tokens as a provider does."""

    def __init__(self, calls: int) -> None:
        super().__init__([], replace(LARGE, window=20_000))
        self._left = calls

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        self._left -= 1
        usage = Usage(input_tokens=sum(map(message_units, request.messages)), output_tokens=50)
        call = ("read", {"size": 2_400 + 2 * len(self.requests)})
        for step in call_reply(call, usage=usage) if self._left >= 0 else text_reply("done"):
            assert isinstance(step, Chunk)
            yield step


async def loop_requests(calls: int, prices: CachePrices) -> list[Request]:
    """Return the requests of a run in which the model reads one file after the other."""
    provider = Reader(calls)
    policy = ContextPolicy(prices=prices, preserve_recent_turns=1)
    async with Session(
        provider, model="m", tools=[read], policy=policy, detect_loops=False
    ) as session:
        await session.run("read all")
    return provider.requests


def broken_prefixes(requests: Sequence[Request]) -> int:
    """Count the requests that do not begin with the one before, so that its cache is lost."""
    pairs = itertools.pairwise(requests)
    return sum(later.messages[: len(one.messages)] != one.messages for one, later in pairs)


def cleared(request: Request) -> int:
    return sum(text.startswith("[cleared") for text in results(request))


@pytest.mark.req("STR-8")
async def test_results_are_cleared_in_batches_that_pay_for_the_cache() -> None:
    requests = await loop_requests(60, CachePrices(recent_tokens=1_000))

    assert cleared(requests[-1]) >= 20
    assert 1 <= broken_prefixes(requests) <= cleared(requests[-1]) // 5


@pytest.mark.req("STR-8")
async def test_nothing_is_cleared_while_writing_the_cache_costs_more_than_it_saves() -> None:
    requests = await loop_requests(30, CachePrices(recent_tokens=1_000, write_price=100.0))

    assert broken_prefixes(requests) == cleared(requests[-1]) == 0


@pytest.mark.req("STR-8")
async def test_a_cold_cache_makes_clearing_free() -> None:
    cold = CachePrices(recent_tokens=1_000, write_price=100.0, cold_after=-1.0)
    requests = await loop_requests(30, cold)

    assert cleared(requests[-1]) >= 20


THOUGHT = "The wall must be seven cubits high."


async def second_request(**options: Any) -> list[dict[str, Any]]:
    """Return what an OpenAI server is sent after another provider's model has been thinking."""
    thinking: ScriptedReply = [
        ReasoningChunk(index=0, text=THOUGHT, signature="sig"),
        *text_reply("Seven."),
    ]
    redacted: ScriptedReply = [ReasoningChunk(index=0, redacted="c2VhbGVk"), *text_reply("Eight.")]
    first = ScriptedProvider([thinking, redacted], ModelFacts(name="m"), name="anthropic")
    async with (
        fake_openai(text_response("fine")) as server,
        Session(first, model="m", **options) as session,
    ):
        await session.run("How high?")
        await session.run("And now?")
        provider = OpenAIChat(server.url, api_key="key", models={"m": ModelFacts(name="m")})
        await session.set_model("m", provider=provider)
        await session.run("Sure?")
        await provider.aclose()
        messages: list[dict[str, Any]] = server.requests[-1]["messages"]
    return messages


def spoken(messages: Sequence[dict[str, Any]]) -> str:
    return "\n".join(str(message["content"]) for message in messages)


@pytest.mark.req("RSN-3")
async def test_reasoning_of_another_provider_is_dropped_by_default() -> None:
    sent = spoken(await second_request())

    assert "Seven." in sent
    assert "<thinking>" not in sent
    assert THOUGHT not in sent


@pytest.mark.req("RSN-3")
async def test_reasoning_is_sent_as_text_before_the_assistants_words_on_request() -> None:
    sent = spoken(await second_request(preserve_reasoning_as_text=True))

    thought = f"<thinking>{THOUGHT}</thinking>"
    assert 0 <= sent.index(thought) < sent.index("Seven.")
    assert sent.index("Seven.") < sent.index("<thinking>[redacted]</thinking>")
    assert sent.index("<thinking>[redacted]</thinking>") < sent.index("Eight.")
    assert "c2VhbGVk" not in sent
    assert "sig" not in sent
