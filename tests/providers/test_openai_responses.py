import json
from typing import Any

import anyio
import pytest

from clew.core.errors import (
    ContextOverflow,
    ProviderDenied,
    ProviderError,
    ProviderRejected,
    SignatureRejected,
    StreamBroken,
)
from clew.core.ids import CallId
from clew.core.messages import Message, Reasoning, ToolCall, tool_result, user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.message_builder import MessageBuilder
from clew.providers.openai_responses import OpenAIResponses
from clew.providers.protocol import (
    Chunk,
    CountsTokens,
    Finished,
    ListsModels,
    Request,
    SearchesWeb,
    StopReason,
    TextChunk,
)
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.fake_apis.responses import FakeResponsesApi
from clew.testing.server import ScriptedResponse, serve

pytestmark = pytest.mark.anyio

VOICE = FakeResponsesApi()
HELLO = Request(model="gpt-5", messages=(user("hi"),))
UNSEALED = ScriptedResponse(
    steps=[VOICE.error(400, "Encrypted content is not supported with this model.")], status=400
)


def says(*words: str, **more: Any) -> ScriptedResponse:
    return ScriptedResponse(steps=VOICE.stream(ModelReply(words=words, **more)))


def tells(answer: object) -> ScriptedResponse:
    return ScriptedResponse(steps=[json.dumps(answer).encode()], content_type="application/json")


def fails(status: int, **error: object) -> ScriptedResponse:
    return ScriptedResponse(steps=[json.dumps({"error": error}).encode()], status=status)


async def ask(provider: OpenAIResponses, request: Request = HELLO) -> list[Chunk]:
    with anyio.fail_after(60):
        return [chunk async for chunk in provider.stream(request)]


def assembled(chunks: list[Chunk]) -> Message:
    assembly = MessageBuilder(provenance="openai")
    for chunk in chunks:
        assembly.add(chunk)
    return assembly.message()


@pytest.mark.req("PRV-1", "PRV-2")
async def test_an_answer_streams_in_and_the_server_keeps_nothing() -> None:
    usage = Usage(input_tokens=9, output_tokens=2, cache_read_tokens=4)
    async with serve(says("Hel", "lo", usage=usage)) as server:
        provider = OpenAIResponses("sk-1", base_url=f"{server.url}/v1")
        found = await ask(provider)
        await provider.aclose()

    assert found[:2] == [TextChunk("Hel"), TextChunk("lo")]
    assert found[-1] == Finished(reason=StopReason.DONE, usage=usage)
    assert (server.methods, server.paths) == (["POST"], ["/v1/responses"])
    assert server.headers[0]["Authorization"] == "Bearer sk-1"
    assert server.requests[0] == {
        "model": "gpt-5",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.req("RSN-1")
async def test_a_turn_with_a_tool_sends_the_thinking_back_as_it_came() -> None:
    call = ToolCall(call_id=CallId("c1"), name="Read", arguments='{"path" :"ä"}')
    first = says(thoughts=("Let me", " see."), signature="gAAA==", calls=(call,))
    async with serve(first, says("done")) as server:
        provider = OpenAIResponses(base_url=server.url)
        answer = assembled(await ask(provider))
        request = Request(
            model="gpt-5", messages=(user("hi"), answer, tool_result(answer.calls[0], "ok"))
        )
        await ask(provider, request)
        await provider.aclose()

    thought = answer.parts[0]
    assert isinstance(thought, Reasoning)
    assert (thought.text, thought.signature) == ("Let me see.", "gAAA==")
    assert server.requests[1]["input"] == [
        {"role": "user", "content": "hi"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Let me see."}],
            "encrypted_content": "gAAA==",
            "id": "rs_scripted",
        },
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "Read",
            "arguments": '{"path" :"ä"}',
            "id": "fc_scripted_0",
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ]


async def test_an_answer_may_be_asked_for_in_one_piece() -> None:
    answer = ScriptedResponse(
        steps=[VOICE.whole(ModelReply(words=("Hello",)))], content_type="application/json"
    )
    async with serve(answer) as server:
        provider = OpenAIResponses(base_url=server.url, streaming=False)
        found = await ask(provider)
        await provider.aclose()

    assert assembled(found).text == "Hello"
    assert "stream" not in server.requests[0]


async def test_a_model_that_does_not_think_is_asked_again_without_a_seal_and_remembered() -> None:
    async with serve(UNSEALED, says("a"), says("b"), says("c")) as server:
        provider = OpenAIResponses(base_url=server.url)
        plain = Request(model="gpt-4.1", messages=(user("hi"),))
        texts = [assembled(await ask(provider, plain)).text for _ in range(2)]
        await ask(provider, HELLO)
        await provider.aclose()

    assert texts == ["a", "b"]
    assert ["include" in body for body in server.requests] == [True, False, False, True]
    assert all(body["store"] is False for body in server.requests)


@pytest.mark.req("PRV-4")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (fails(400, message="x", code="context_length_exceeded"), ContextOverflow),
        (fails(400, message="x", code="invalid_encrypted_content"), SignatureRejected),
        (fails(400, message="no such thing"), ProviderRejected),
        (fails(401, message="x", code="invalid_api_key"), ProviderDenied),
        (ScriptedResponse(steps=VOICE.stream(ModelReply(words=("a",)))[:-1]), StreamBroken),
    ],
)
async def test_errors_map_to_exceptions_and_are_not_retried(
    answer: ScriptedResponse, kind: type[ProviderError]
) -> None:
    async with serve(answer) as server:
        provider = OpenAIResponses(base_url=server.url)
        with pytest.raises(kind) as caught:
            await ask(provider)
        await provider.aclose()

    assert type(caught.value) is kind
    assert len(server.bodies) == 1


@pytest.mark.req("PRV-5")
@pytest.mark.parametrize(
    ("setting", "tools"),
    [
        (False, None),
        (True, [{"type": "web_search"}]),
        ({}, [{"type": "web_search"}]),
        (
            {"search_context_size": "low"},
            [{"type": "web_search", "search_context_size": "low"}],
        ),
    ],
)
async def test_the_web_is_searched_where_it_is_switched_on(setting: Any, tools: Any) -> None:
    async with serve(says("a")) as server:
        provider = OpenAIResponses(base_url=server.url, web_search=setting)
        await ask(provider)
        await ask(provider, Request(model="m", messages=(), native_tools=tuple(tools or ())))
        await provider.aclose()

    assert [body.get("tools") for body in server.requests] == [tools, tools]
    assert isinstance(provider, SearchesWeb)
    assert provider.web_tools == ({"web_search"} if tools else frozenset())


async def test_options_hold_for_every_request() -> None:
    async with serve(says("a")) as server:
        provider = OpenAIResponses(base_url=server.url, options={"reasoning": {"effort": "low"}})
        await ask(provider)
        await provider.aclose()

    assert server.requests[0]["reasoning"] == {"effort": "low"}


async def test_tokens_are_counted_by_the_server_without_what_it_does_not_take() -> None:
    async with serve(tells({"object": "response.input_tokens", "input_tokens": 42})) as server:
        provider = OpenAIResponses(base_url=f"{server.url}/v1", web_search=True)
        request = Request(
            model="gpt-5",
            system="s",
            messages=(user("hi"),),
            max_output_tokens=5,
            temperature=1.0,
            cache_key="k",
            options={"reasoning": {"effort": "low"}, "metadata": {"a": "b"}},
        )
        count = await provider.count_tokens(request)
        await provider.aclose()

    assert isinstance(provider, CountsTokens)
    assert (count, server.paths) == (42, ["/v1/responses/input_tokens"])
    assert server.requests[0] == {
        "model": "gpt-5",
        "tools": [{"type": "web_search"}],
        "instructions": "s",
        "reasoning": {"effort": "low"},
        "input": [{"role": "user", "content": "hi"}],
    }


async def test_the_models_of_the_server_come_with_what_is_known_of_them() -> None:
    mine = ModelFacts(name="mine", window=9)
    data = [{"id": "gpt-5", "object": "model"}, {"id": "mine"}]
    async with serve(tells({"object": "list", "data": data})) as server:
        provider = OpenAIResponses(base_url=server.url, models={"mine": mine})
        found = await provider.models()
        await provider.aclose()

    assert isinstance(provider, ListsModels)
    assert (server.methods, server.paths) == (["GET"], ["/models"])
    assert found == [provider.facts("gpt-5"), mine]


async def test_an_unexpected_response_is_an_error() -> None:
    async with serve(tells({"choices": []})) as server:
        provider = OpenAIResponses(base_url=server.url)
        with pytest.raises(ProviderError, match="base URL"):
            await provider.models()
        await provider.aclose()
