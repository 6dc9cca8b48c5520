"""Three wire formats against one real server: llama.cpp with the embedded model."""

import importlib.util
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

import anyio
import pytest
from msgspec.structs import replace

from clew import AbortError, Session
from clew.context.render import render
from clew.core.entries import Compacted
from clew.core.events import Event, RunCompleted, TextDelta, Warned
from clew.core.messages import user
from clew.core.models import ModelFacts
from clew.providers.anthropic import Anthropic
from clew.providers.compatible import Compatible
from clew.providers.embedded import process
from clew.providers.embedded.model_file import model_path
from clew.providers.openai_responses import OpenAIResponses
from clew.providers.protocol import CountsTokens, Finished, Provider, Request
from tests.event_buses import bus_for
from tests.histories import problems

PATIENCE = 110
"""Seconds: a real model shares its cores with the other tests."""
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        importlib.util.find_spec("xllamacpp") is None or not model_path().is_file(),
        reason="needs the extra 'embedded' and the model: clew models get",
    ),
]

Make: TypeAlias = Callable[[process.ServerProcess, ModelFacts], Provider]
FACTS = ModelFacts(name="smollm2", window=1_024, max_output=24, calls_tools=False, summarises=False)
BELIEVED = replace(FACTS, window=1_500)
"""The server can take less than that."""


def chat(server: process.ServerProcess, facts: ModelFacts) -> Provider:
    return Compatible(
        "llama_cpp",
        base_url=f"{server.address}/v1",
        api_key=server.key,
        models={facts.name: facts},
    )


def responses(server: process.ServerProcess, facts: ModelFacts) -> Provider:
    return OpenAIResponses(server.key, base_url=f"{server.address}/v1", models={facts.name: facts})


def messages(server: process.ServerProcess, facts: ModelFacts) -> Provider:
    return Anthropic(server.key, base_url=server.address, models={facts.name: facts})


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def server(anyio_backend: str) -> AsyncIterator[process.ServerProcess]:
    launch = process.LaunchOptions(model=model_path(), port=0, window=1_024, command=process.SERVER)
    running = await process.start_server(launch, provider="llama.cpp")
    yield running
    await running.stop()


ways = pytest.mark.parametrize("make", [chat, responses, messages])


@ways
@pytest.mark.req("PRV-1", "PRV-2")
async def test_it_streams_counts_and_reads_its_cache(
    server: process.ServerProcess, make: Make
) -> None:
    provider, events = make(server, FACTS), list[Event]()
    session = Session(
        provider,
        model=FACTS.name,
        system_message="You are a friendly guide. Answer in one short sentence.",
        event_bus=bus_for(events.append),
    )
    async with session:
        with anyio.fail_after(PATIENCE):
            answer = await session.run("Name a colour.")
            await session.run("Name another one.")
    await provider.aclose()

    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    ended = [event.result.last_call for event in events if isinstance(event, RunCompleted)]
    assert len(deltas) > 3
    assert "".join(deltas).startswith(answer)
    assert ended[0] is not None
    assert ended[1] is not None
    assert ended[1].input_tokens > ended[0].input_tokens > 10
    assert ended[0].output_tokens > 0
    assert ended[1].cache_read_tokens > 10


@ways
@pytest.mark.req("PRV-3")
async def test_an_abort_keeps_the_words_and_frees_the_server(
    server: process.ServerProcess, make: Make
) -> None:
    provider = make(server, FACTS)
    session: Session

    def stop(event: Event) -> None:
        if isinstance(event, TextDelta):
            session.abort()

    session = Session(provider, model=FACTS.name, event_bus=bus_for(stop))
    with anyio.fail_after(PATIENCE):
        with pytest.raises(AbortError):
            await session.run("Tell me a long story about a labyrinth.")
        interrupted = session.get_history()[-1]
        again = Session(provider, model=FACTS.name)
        assert await again.run("Name a colour.")
    await provider.aclose()

    assert interrupted.interrupted
    assert interrupted.text


@pytest.mark.parametrize("make", [responses, messages])
@pytest.mark.req("PRV-2")
async def test_a_request_is_counted_as_the_model_reads_it(
    server: process.ServerProcess, make: Make
) -> None:
    provider = make(server, FACTS)
    assert isinstance(provider, CountsTokens)
    request = Request(
        model=FACTS.name, system="Be brief.", messages=(user("Hello there."),), max_output_tokens=4
    )
    with anyio.fail_after(PATIENCE):
        counted = await provider.count_tokens(request)
        finished = [chunk async for chunk in provider.stream(request)][-1]
    await provider.aclose()

    assert isinstance(finished, Finished)
    assert finished.usage is not None
    assert counted == finished.usage.input_tokens


@ways
@pytest.mark.req("PRV-4", "CMP-1")
async def test_an_overflow_of_the_real_window_is_compacted_and_sent_again(
    server: process.ServerProcess, make: Make
) -> None:
    provider, events = make(server, BELIEVED), list[Event]()
    session = Session(provider, model=FACTS.name, event_bus=bus_for(events.append))
    async with session:
        for number in range(6):
            await session.inject_message(user(f"Note {number}: " + "the thread is red. " * 35))
        with anyio.fail_after(PATIENCE):
            answer = await session.run("Name a colour.")
        compacted = [e.body for e in session.journal.entries if isinstance(e.body, Compacted)]
        sent = render(session.journal.view)
        state = session.get_context_state()
    await provider.aclose()

    assert answer
    assert [body.trigger for body in compacted] == ["overflow"]
    assert state.max_tokens == 1_024
    assert any(isinstance(event, Warned) and "1,024" in event.text for event in events)
    assert problems(sent) == []
