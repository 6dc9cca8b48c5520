"""A session goes on when a signature is refused, and when the model changes under it."""

import pytest

from clew import Session, SlidingWindow, tool
from clew.context.reasoning import Echoes, ReasoningReader, adapt_message
from clew.core.entries import ReasoningDropped
from clew.core.errors import ContextOverflow, SignatureRejected, StreamBroken
from clew.core.events import Event, RunCompleted, ServerToolEnded, ServerToolStarted, Warned
from clew.core.ids import CallId
from clew.core.messages import Native, Reasoning, Text
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.providers.protocol import (
    CallChunk,
    Finished,
    PartChunk,
    ReasoningChunk,
    Request,
    ServerToolChunk,
    StopReason,
    TextChunk,
)
from clew.providers.scripted import (
    ScriptedProvider,
    ScriptedReply,
    ScriptedStep,
    call_reply,
    text_reply,
)
from tests.event_buses import bus_for

pytestmark = pytest.mark.anyio

FACTS = ModelFacts(name="m", window=10_000)
REFUSED = SignatureRejected("bad signature", provider="anthropic", status=400)
SEARCH = Native(provenance="anthropic", data='{"type":"server_tool_use"}', note="[searched: x]")


@tool(risk=Risk.INSPECT)
def look() -> str:
    """Look around."""
    return "nothing"


def thinking(text: str, reply: list[ScriptedStep]) -> list[ScriptedStep]:
    return [ReasoningChunk(index=0, text=text, signature=f"sig-{text}"), *reply]


def thoughts(request: Request) -> list[str]:
    return [
        part.text
        for message in request.messages
        for part in message.parts
        if isinstance(part, Reasoning)
    ]


def session(
    *replies: ScriptedReply, name: str = "anthropic"
) -> tuple[Session, ScriptedProvider, list[Event]]:
    provider, events = ScriptedProvider(replies, FACTS, name=name), list[Event]()
    return (
        Session(provider, model="m", tools=[look], event_bus=bus_for(events.append)),
        provider,
        events,
    )


@pytest.mark.req("RSN-5")
async def test_a_refused_signature_heals_itself_once() -> None:
    first = thinking("hm", [PartChunk(SEARCH), *text_reply("a")])
    chat, provider, events = session(first, REFUSED, text_reply("b"), text_reply("c"))
    async with chat:
        await chat.run("one")
        answer = await chat.run("two")
        await chat.run("three")

    assert answer == "b"
    assert [thoughts(request) for request in provider.requests] == [[], ["hm"], [], []]
    assert "[searched: x]\n\na" in [message.text for message in provider.requests[2].messages]
    assert any(isinstance(event, Warned) and "thinking" in event.text for event in events)
    dropped = [e.body for e in chat.journal.entries if isinstance(e.body, ReasoningDropped)]
    assert len(dropped) == 1


@pytest.mark.req("RSN-1", "RSN-5")
async def test_the_thinking_that_was_dropped_stays_in_the_journal() -> None:
    chat, _, _ = session(thinking("hm", text_reply("a")), REFUSED, text_reply("b"))
    async with chat:
        await chat.run("one")
        await chat.run("two")

    assert [e.id for e in chat.search("hm")]


@pytest.mark.req("RSN-5")
async def test_a_signature_refused_twice_is_an_error_and_the_session_lives() -> None:
    chat, _, _ = session(thinking("hm", text_reply("a")), REFUSED, REFUSED, text_reply("c"))
    async with chat:
        await chat.run("one")
        with pytest.raises(SignatureRejected):
            await chat.run("two")
        assert await chat.run("three") == "c"


@pytest.mark.req("RSN-5")
async def test_nothing_to_drop_means_no_second_call() -> None:
    chat, provider, _ = session(REFUSED)
    async with chat:
        with pytest.raises(SignatureRejected):
            await chat.run("one")

    assert len(provider.requests) == 1


@pytest.mark.req("RSN-5")
async def test_a_refused_signature_inside_a_tool_loop_is_healed_too() -> None:
    loop = thinking("hm", call_reply(("look", {})))
    chat, provider, _ = session(loop, REFUSED, text_reply("done"))
    async with chat:
        assert await chat.run("one") == "done"

    assert [len(message.calls) for message in provider.requests[2].messages] == [0, 1, 0]


async def test_a_call_may_need_both_remedies() -> None:
    overflow = ContextOverflow("too long", provider="anthropic")
    long = thinking("hm", text_reply("word " * 400))
    chat, provider, _ = session(
        *[long] * 6, overflow, text_reply("summary"), REFUSED, text_reply("done")
    )
    async with chat:
        for n in range(6):
            await chat.run(f"question {n}")
        assert await chat.run("last") == "done"

    assert thoughts(provider.requests[-1]) == []


@pytest.mark.req("RSN-5", "RSN-2")
async def test_switching_the_provider_keeps_the_session_and_no_foreign_signature() -> None:
    chat, _, _ = session(thinking("hm", call_reply(("look", {}))), text_reply("a"))
    other = ScriptedProvider([text_reply("b")], FACTS, name="openai")
    async with chat:
        await chat.run("one")
        await chat.set_model("m", provider=other)
        assert await chat.run("two") == "b"

    reader = ReasoningReader("openai", Echoes.OWN_ISSUED)
    request = other.requests[0]
    sent = [adapt_message(message, reader, request.reasoning) for message in request.messages]
    assert not any(isinstance(part, Reasoning) for message in sent for part in message.parts)
    assert len(sent) == 5


@pytest.mark.req("RSN-3", "RSN-4")
@pytest.mark.parametrize(("compress", "longest"), [(True, 1_200), (4_000, 4_000), (False, None)])
async def test_the_options_of_a_session_reach_the_request(
    *, compress: bool | int, longest: int | None
) -> None:
    provider = ScriptedProvider(["a"], FACTS)
    async with Session(
        provider,
        model="m",
        preserve_reasoning_as_text=True,
        compress_reasoning_text=compress,
        request_options={"top_p": 0.5},
    ) as chat:
        await chat.run("one")

    request = provider.requests[0]
    assert (request.reasoning.as_text, request.reasoning.longest_text) == (True, longest)
    assert (request.options, request.cache_key) == ({"top_p": 0.5}, chat.session_id)


@pytest.mark.req("RSN-2")
async def test_tool_use_is_remembered_after_the_turns_that_used_tools_were_compacted() -> None:
    long = "word " * 300
    replies = [
        call_reply(("look", {})),
        text_reply(long),
        *[text_reply(long)] * 5,
    ]
    provider = ScriptedProvider(replies, ModelFacts(name="m", window=3_000, summarises=False))
    async with Session(
        provider, model="m", tools=[look], strategy=SlidingWindow(max_turns=2)
    ) as chat:
        for n in range(6):
            await chat.run(f"question {n}")

    last = provider.requests[-1]
    assert not any(message.calls for message in last.messages)
    assert last.reasoning.tools_used
    assert not provider.requests[0].reasoning.tools_used


@pytest.mark.req("PRV-2")
async def test_a_provider_that_pauses_is_called_again_and_its_own_tools_are_shown() -> None:
    search: list[ScriptedStep] = [
        ServerToolChunk(call_id="s1", name="web_search", text='{"query":"x"}'),
        PartChunk(SEARCH),
        ServerToolChunk(call_id="s1", name="web_search", text="3 results", ended=True),
        Finished(reason=StopReason.PAUSED),
    ]
    chat, provider, events = session(search, [TextChunk("found"), Finished(reason=StopReason.DONE)])
    async with chat:
        assert await chat.run("one") == "found"

    assert provider.requests[1].messages[-1].parts == (SEARCH,)
    shown = [e for e in events if isinstance(e, ServerToolStarted | ServerToolEnded)]
    assert shown == [
        ServerToolStarted(call_id="s1", name="web_search", arguments='{"query":"x"}'),
        ServerToolEnded(call_id="s1", name="web_search", text="3 results"),
    ]


async def test_a_provider_that_only_pauses_is_given_up() -> None:
    chat, provider, _ = session(*[[Finished(reason=StopReason.PAUSED)]] * 30)
    async with chat:
        assert await chat.run("one") == ""

    assert len(provider.requests) == 21


@pytest.mark.req("RSN-1")
async def test_private_fields_are_stored_and_sent_again_byte_for_byte() -> None:
    extra = '{"citations": [ {"url":"x"} ]}'
    chat, provider, _ = session(
        [TextChunk("a", 0, extra), TextChunk("b", 1), Finished(reason=StopReason.DONE)],
        text_reply("c"),
    )
    async with chat:
        await chat.run("one")
        await chat.run("two")

    message = provider.requests[1].messages[1]
    assert message.parts == (Text("a", extra), Text("b"))
    assert message.provenance == "anthropic"


@pytest.mark.req("PRV-4")
async def test_a_smaller_window_is_enough_of_a_reason_to_ask_again() -> None:
    overflow = ContextOverflow("too long", provider="anthropic", limit=4_096)
    chat, provider, _ = session(overflow, text_reply("hi"))
    async with chat:
        assert await chat.run("hi") == "hi"

    assert [request.max_output_tokens for request in provider.requests] == [4_096, 1_024]


async def test_options_of_one_providers_api_do_not_reach_another() -> None:
    one = ScriptedProvider(["a"], FACTS, name="anthropic")
    two = ScriptedProvider(["b", "c"], FACTS, name="openai")
    async with Session(one, model="m", request_options={"thinking": {}}) as chat:
        await chat.run("one")
        await chat.set_model("m", provider=two)
        await chat.run("two")
        await chat.set_model("m", request_options={"effort": "low"})
        await chat.run("three")

    assert one.requests[0].options == {"thinking": {}}
    assert [request.options for request in two.requests] == [{}, {"effort": "low"}]


@pytest.mark.req("PRV-3")
async def test_of_interleaved_calls_the_finished_one_is_kept() -> None:
    steps: list[ScriptedStep] = [
        CallChunk(index=0, call_id=CallId("a"), name="look", arguments='{"n"'),
        CallChunk(index=1, call_id=CallId("b"), name="look", arguments="{}"),
        StreamBroken("gone", provider="anthropic"),
    ]
    chat, _, _ = session(steps)
    async with chat:
        with pytest.raises(StreamBroken):
            await chat.run("one")
        calls = [call.call_id for message in chat.get_history() for call in message.calls]

    assert calls == ["b"]


@pytest.mark.req("PRV-2")
async def test_why_an_answer_was_refused_is_told() -> None:
    refused: list[ScriptedStep] = [Finished(reason=StopReason.REFUSED, detail="blocked: SAFETY")]
    chat, _, events = session(refused)
    async with chat:
        await chat.run("one")

    assert [e.result.stop_detail for e in events if isinstance(e, RunCompleted)] == [
        "blocked: SAFETY"
    ]
