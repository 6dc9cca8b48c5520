"""A summary that is asked for after the conversation's own prefix, while the cache is warm."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clew import Session, tool
from clew.context.policy import ContextPolicy, Thresholds
from clew.core.entries import Charged, Compacted
from clew.core.errors import ContextOverflow
from clew.core.events import Warned
from clew.core.ids import CallId
from clew.core.messages import Reasoning, ToolCall
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.core.usage import Usage
from clew.providers.anthropic import Anthropic
from clew.providers.openai_chat import OpenAIChat
from clew.providers.openai_responses import OpenAIResponses
from clew.providers.prices import Price
from clew.providers.protocol import Provider, Request
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply, text_reply
from clew.testing.fake_apis.anthropic import FakeMessagesApi
from clew.testing.fake_apis.chat import FakeChatApi
from clew.testing.fake_apis.protocol import FakeApi, ModelReply
from clew.testing.fake_apis.responses import FakeResponsesApi
from clew.testing.request_parsers import anthropic as messages
from clew.testing.request_parsers import chat, responses
from clew.testing.server import FakeServer, ScriptedResponse, serve
from tests.histories import problems

pytestmark = pytest.mark.anyio

MARKS = re.compile(rb',"cache_control":\{[^}]*\}|"cache_control":\{[^}]*\},')
BY_HAND = ContextPolicy(thresholds=Thresholds(compact=False))
WARM = Usage(input_tokens=4_000, output_tokens=20, cache_read_tokens=3_000)
FULL = Usage(input_tokens=8_000, output_tokens=20, cache_read_tokens=3_000)
NOTES = "The user looked in six places and found nothing."
FACTS = ModelFacts(name="m", window=50_000)
PROSE = "The parser reads one line after the other and keeps what it found. " * 30


@tool(risk=Risk.INSPECT)
def look(where: str) -> str:
    """Look somewhere."""
    return f"there is nothing in {where}. " * 40


def _replies(*, in_loop: bool = False) -> Iterator[ModelReply]:
    for number in range(6):
        call = ToolCall(
            call_id=CallId(f"call_{number}"), name="look", arguments=f'{{"where":"{number}"}}'
        )
        full = in_loop and number == 5
        usage = FULL if full else WARM
        yield ModelReply(thoughts=("hm",), signature="c2ln", calls=(call,), usage=usage)
        if full:
            yield ModelReply(words=(NOTES,), usage=WARM)
        yield ModelReply(thoughts=("so",), signature="c2ln", words=(PROSE,), usage=WARM)
    yield ModelReply(words=(NOTES,), usage=WARM)


Served = tuple[FakeServer, Provider, Callable[[bytes], Request]]


@asynccontextmanager
async def _served(kind: str, *, in_loop: bool = False) -> AsyncIterator[Served]:
    apis: dict[str, FakeApi] = {
        "anthropic": FakeMessagesApi(),
        "chat": FakeChatApi("reasoning_content"),
        "responses": FakeResponsesApi(),
    }
    api = apis[kind]
    answers = [
        ScriptedResponse(steps=api.stream(reply), content_type=api.content_type)
        for reply in _replies(in_loop=in_loop)
    ]
    async with serve(*answers) as server:
        made: dict[str, tuple[Callable[..., Any], Callable[..., Request]]] = {
            "anthropic": (Anthropic, messages.parse_request),
            "chat": (OpenAIChat, chat.parse_request),
            "responses": (OpenAIResponses, responses.parse_request),
        }
        make, parse = made[kind]
        provider: Provider = make(api_key="k", base_url=f"{server.url}/v1")
        try:
            yield server, provider, lambda body: parse(body, provenance=provider.name)
        finally:
            await provider.aclose()


@pytest.mark.req("CMP-7", "PRV-6")
@pytest.mark.parametrize("kind", ["anthropic", "chat", "responses"])
async def test_the_request_for_a_summary_begins_with_the_bytes_of_the_last_request(
    kind: str,
) -> None:
    async with _served(kind) as (server, provider, parse):
        session = Session(
            provider, model="gpt-x", system_message="Be exact.", tools=[look], policy=BY_HAND,
            max_context_tokens=50_000,
        )  # fmt: skip
        async with session:
            for number in range(6):
                await session.run(f"Is it in place {number}?")
            done = await session.compact()

        assert done.summary.startswith(NOTES)
        last, asked = (_conversation(body) for body in server.bodies[-2:])
        assert asked.startswith(last)
        before, after = (parse(body) for body in server.bodies[-2:])
        assert after.system == before.system
        assert after.tools == before.tools
        assert problems(after.messages) == []
        assert "Call no tools" in after.messages[-1].text
        if kind == "anthropic":
            thoughts = [p for m in after.messages for p in m.parts if isinstance(p, Reasoning)]
            assert {thought.signature for thought in thoughts} == {"c2ln"}
            assert len(thoughts) == 12


@pytest.mark.req("CMP-1", "CMP-7", "PRV-6")
@pytest.mark.parametrize("kind", ["anthropic", "chat", "responses"])
async def test_in_a_tool_loop_the_instruction_follows_the_results_of_signed_calls(
    kind: str,
) -> None:
    policy = ContextPolicy(thresholds=Thresholds(compact=0.15), preserve_recent_turns=1)
    async with _served(kind, in_loop=True) as (server, provider, parse):
        session = Session(
            provider, model="gpt-x", tools=[look], policy=policy, max_context_tokens=50_000
        )
        async with session:
            for number in range(6):
                await session.run(f"Is it in place {number}?")
            done = [e.body for e in session.journal.entries if isinstance(e.body, Compacted)]

        assert len(done) == 1
        assert done[0].summary.startswith(NOTES)
        last, asked, after = server.bodies[-3:]
        assert _conversation(asked).startswith(_conversation(last))
        request = parse(asked)
        assert problems(request.messages) == []
        *_, results, instruction = request.messages
        assert results.results
        assert "Call no tools" in instruction.text
        assert problems(parse(after).messages) == []
        if kind == "anthropic":
            thoughts = [p for m in request.messages for p in m.parts if isinstance(p, Reasoning)]
            assert [thought.signature for thought in thoughts] == ["c2ln"] * 11


def _conversation(body: bytes) -> bytes:
    """Return the part of a body that a provider caches, without the end of its last array."""
    body = MARKS.sub(b"", body)
    body = re.sub(rb'"max_(completion_|output_)?tokens":\d+,?', b"", body)
    return body.rstrip(b"]}")


def _turns(count: int, usage: Usage | None = WARM) -> list[ScriptedReply]:
    made: list[ScriptedReply] = []
    for number in range(count):
        made.append(call_reply(("look", {"where": str(number)}), usage=usage))
        made.append(text_reply(PROSE, usage=usage))
    return made


async def _compact(
    *replies: ScriptedReply, facts: ModelFacts = FACTS, later: float = 0.0, **options: Any
) -> tuple[list[Request], Compacted, Session]:
    provider = ScriptedProvider(replies, facts)
    session = Session(provider, model="m", tools=[look], policy=BY_HAND, **options)
    async with session:
        for number in range(6):
            await session.run(f"Is it in place {number}?")
        seen = len(provider.requests)
        now = session.state.clock()
        session.state.clock = lambda: now + later
        done = await session.compact()
    return provider.requests[seen:], done, session


@pytest.mark.req("CMP-7")
async def test_with_a_warm_cache_the_instruction_follows_the_conversation() -> None:
    asked, done, session = await _compact(*_turns(6), text_reply("Notes.", usage=WARM))

    assert len(asked) == 1
    assert asked[0].tools
    assert len(asked[0].messages) == 6 * 4 + 1
    assert done.summary.startswith("Notes.")
    charges = [e.body for e in session.journal.entries if isinstance(e.body, Charged)]
    assert [(charge.why, charge.usage) for charge in charges] == [("a summary", WARM)]


@pytest.mark.req("CMP-7")
@pytest.mark.parametrize(
    ("usage", "later", "options"),
    [
        (WARM, 301.0, {}),
        (None, 0.0, {}),
        (Usage(input_tokens=4_000, output_tokens=20), 0.0, {}),
        (WARM, 0.0, {"summary_model": "another"}),
    ],
    ids=["cold", "not counted", "no cache", "another model"],
)
async def test_otherwise_the_conversation_is_sent_as_text(
    usage: Usage | None, later: float, options: dict[str, Any]
) -> None:
    class Two(ScriptedProvider):
        def facts(self, model: str) -> ModelFacts:
            return ModelFacts(name=model, window=50_000)

    provider = Two([*_turns(6, usage), "Notes."])
    session = Session(provider, model="m", tools=[look], policy=BY_HAND, **options)
    async with session:
        for number in range(6):
            await session.run(f"Is it in place {number}?")
        now = session.state.clock()
        session.state.clock = lambda: now + later
        await session.compact()

    assert len(provider.requests[-1].messages) == 1
    assert provider.requests[-1].tools == ()
    assert "Transcript:" in provider.requests[-1].messages[0].text


@pytest.mark.req("CMP-8")
async def test_an_answer_that_calls_a_tool_is_not_run_and_the_text_is_sent_instead() -> None:
    asked, done, session = await _compact(
        *_turns(6),
        call_reply(("look", {"where": "again"}), text="Let me see.", usage=WARM),
        text_reply("Notes.", usage=WARM),
    )

    assert [len(request.messages) for request in asked] == [25, 1]
    assert done.summary.startswith("Notes.")
    assert "again" not in done.summary
    charges = [e.body for e in session.journal.entries if isinstance(e.body, Charged)]
    assert len(charges) == 2
    assert done.usage == WARM + WARM


@pytest.mark.req("CMP-8")
async def test_a_request_that_turns_out_too_long_is_sent_as_text_in_the_same_attempt() -> None:
    too_long = ContextOverflow("too long", provider="scripted")
    provider = ScriptedProvider([*_turns(6), too_long, "Notes."], FACTS)
    warnings: list[Warned] = []
    async with Session(provider, model="m", tools=[look], policy=BY_HAND) as session:
        session.on("warning", warnings.append)
        for number in range(6):
            await session.run(f"Is it in place {number}?")
        done = await session.compact("keep the places")

    shared, text = provider.requests[-2:]
    assert "keep the places" in shared.messages[-1].text
    assert "keep the places" in text.messages[0].text
    assert done.summary.startswith("Notes.")
    assert warnings == []


async def test_the_prices_of_the_model_decide() -> None:
    dear = {"m": Price(input=1.0, output=1.0, cache_read=1.0, cache_write=1.0)}
    cheap = {"m": Price(input=1.0, output=1.0, cache_read=0.1, cache_write=1.25)}

    as_text, *_ = await _compact(*_turns(6), "Notes.", prices=dear)
    shared, *_ = await _compact(*_turns(6), "Notes.", prices=cheap)

    assert len(as_text[0].messages) == 1
    assert len(shared[0].messages) == 25
