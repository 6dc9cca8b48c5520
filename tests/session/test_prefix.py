"""Two requests in a row begin with the same bytes, unless an entry says why not."""

import re
from collections.abc import Callable

import pytest

from clew import Session, SlidingWindow, tool
from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.entries import (
    Body,
    Cleared,
    Compacted,
    ReasoningDropped,
    ResultsCleared,
    Rewound,
    SetupChanged,
    Undone,
)
from clew.core.errors import SignatureRejected
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.providers.protocol import ReasoningChunk, Request
from clew.providers.scripted import (
    ScriptedProvider,
    ScriptedReply,
    ScriptedStep,
    call_reply,
    text_reply,
)
from clew.providers.wire.anthropic import encode as anthropic
from clew.providers.wire.chat import encode as chat
from clew.providers.wire.converse import encode as converse
from clew.providers.wire.gemini import encode as gemini
from clew.providers.wire.responses import encode as responses

pytestmark = pytest.mark.anyio

NAME = "family"
READER = ReasoningReader(NAME, Echoes.OWN_ISSUED)
REASONS = (Cleared, Compacted, ReasoningDropped, ResultsCleared, Rewound, SetupChanged, Undone)
MARKS = re.compile(
    rb',"cache_control":\{[^}]*\}|"cache_control":\{[^}]*\},|,?\{"cachePoint":\{[^}]*\}\}'
)


def _chat() -> Callable[[Request], bytes]:
    kept = chat.message_cache(READER)
    return lambda request: chat.encode(request, kept)


def _responses() -> Callable[[Request], bytes]:
    kept = responses.message_cache(READER)
    return lambda request: responses.encode(request, kept)


def _gemini() -> Callable[[Request], bytes]:
    kept = gemini.message_cache(READER)
    return lambda request: gemini.encode(request, kept)


def _anthropic() -> Callable[[Request], bytes]:
    kept = anthropic.message_cache(READER)
    return lambda request: MARKS.sub(b"", anthropic.encode(request, kept, cache=True))


def _converse() -> Callable[[Request], bytes]:
    kept = converse.message_cache(READER)
    return lambda request: MARKS.sub(b"", converse.encode(request, kept, cache=True))


@tool(risk=Risk.INSPECT)
def look(where: str) -> str:
    """Look somewhere."""
    return f"there is nothing in {where}" * 20


def thinking(reply: list[ScriptedStep]) -> list[ScriptedStep]:
    return [ReasoningChunk(index=0, text="hm", signature="c2ln"), *reply]


SCRIPT: list[ScriptedReply] = [
    thinking(call_reply(("look", {"where": "a"}), ("look", {"where": "b"}))),
    thinking(text_reply("Nothing there.")),
    thinking(text_reply("Still nothing.")),
    SignatureRejected("bad signature", provider=NAME),
    text_reply("Now without thinking."),
    thinking(call_reply(("look", {"where": "c"}))),
    text_reply("Done."),
    text_reply("Again."),
    text_reply("And again."),
]


async def played() -> list[tuple[Request, list[Body]]]:
    """Return the requests of a session, each with what was written since the one before."""
    provider = ScriptedProvider(SCRIPT, ModelFacts(name="claude-x", window=50_000), name=NAME)
    session = Session(
        provider,
        model="claude-x",
        system_message="Be brief.",
        tools=[look],
        strategy=SlidingWindow(max_turns=4),
    )
    seen = 0
    found: list[tuple[Request, list[Body]]] = []
    async with session:
        for number in range(6):
            await session.run(f"question {number}")
            bodies = [entry.body for entry in session.journal.entries[seen:]]
            seen = len(session.journal.entries)
            fresh = provider.requests[len(found) :]
            # What stands between the calls of one run is of that run.
            found += [(request, bodies) for request in fresh]
        await session.clear_history()
    return found


@pytest.mark.req("PRV-6")
@pytest.mark.parametrize("make", [_chat, _responses, _gemini, _anthropic, _converse])
async def test_requests_share_their_beginning_unless_an_entry_says_why_not(
    make: Callable[[], Callable[[Request], bytes]],
) -> None:
    encode = make()
    requests = await played()
    shared = broken = 0
    previous = encode(requests[0][0])
    for request, bodies in requests[1:]:
        body = encode(request)
        # The arrays of the last message may go on, and so may the list of messages.
        if body.startswith(previous.rstrip(b"]}")):
            shared += 1
        else:
            broken += 1
            assert any(isinstance(each, REASONS) for each in bodies)
        previous = body

    assert shared >= 5
    assert broken >= 1


@pytest.mark.req("PRV-6")
@pytest.mark.parametrize(
    ("encode", "mark"),
    [
        (
            lambda r: anthropic.encode(r, anthropic.message_cache(READER), cache=True),
            b"cache_control",
        ),
        (lambda r: converse.encode(r, converse.message_cache(READER), cache=True), b"cachePoint"),
    ],
)
async def test_the_beginning_is_marked_for_the_cache(
    encode: Callable[[Request], bytes], mark: bytes
) -> None:
    for request, _ in await played():
        assert 2 <= encode(request).count(mark) <= 4
