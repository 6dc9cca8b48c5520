"""DeepSeek: thinking that must come back."""

import json

import anyio
import pytest

from clew.core.ids import CallId
from clew.core.messages import (
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    assistant,
    tool_result,
    user,
)
from clew.core.usage import Usage
from clew.providers.deepseek import DeepSeek
from clew.providers.protocol import Chunk, Finished, ListsModels, Request
from clew.session.session import Session
from clew.testing.fake_apis.chat import DONE, FakeChatApi
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.server import ScriptedResponse, serve
from clew.tools.function import tool

pytestmark = pytest.mark.anyio

VOICE = FakeChatApi()
CALL = ToolCall(call_id=CallId("c1"), name="look", arguments="{}")


def plays(reply: ModelReply) -> ScriptedResponse:
    return ScriptedResponse(steps=VOICE.stream(reply))


OK = plays(ModelReply(words=("ok",)))


@tool
async def look() -> str:
    """Look."""
    return "a tree"


async def ask(provider: DeepSeek, request: Request) -> list[Chunk]:
    with anyio.fail_after(60):
        try:
            return [chunk async for chunk in provider.stream(request)]
        finally:
            await provider.aclose()


@pytest.mark.req("RSN-2")
async def test_once_a_tool_was_used_all_thinking_is_sent_with_every_request() -> None:
    script = (
        plays(ModelReply(thoughts=("I must look.",), calls=(CALL,))),
        plays(ModelReply(thoughts=("A tree, then.",), words=("It is a tree.",))),
        plays(ModelReply(thoughts=("Easy.",), words=("Green.",))),
    )
    async with serve(*script) as server:
        provider = DeepSeek("k", base_url=server.url)
        session = Session(provider, model="deepseek-v4-pro", tools=[look], recall=False)
        with anyio.fail_after(60):
            await session.run("What is there?")
            await session.run("What colour has it?")
        await provider.aclose()

    thoughts = [
        each["reasoning_content"]
        for each in server.requests[2]["messages"]
        if each["role"] == "assistant"
    ]
    assert thoughts == ["I must look.", "A tree, then."]


@pytest.mark.req("RSN-2")
async def test_without_tools_thinking_is_not_sent_again() -> None:
    thought = Reasoning(text="secret", provenance="deepseek")
    async with serve(OK) as server:
        messages = (user("a"), assistant(thought, "b"), user("c"))
        await ask(DeepSeek("k", base_url=server.url), Request(model="m", messages=messages))

    assert b"secret" not in server.bodies[0]


@pytest.mark.req("RSN-5")
async def test_answers_of_other_models_are_sent_with_empty_thinking() -> None:
    foreign = Reasoning(text="signed", provenance="anthropic", signature="s")
    history = (
        user("a"),
        assistant(foreign, "I look.", CALL),
        tool_result(CALL, "x"),
        assistant("b"),
        user("c"),
    )
    async with serve(OK) as server:
        await ask(DeepSeek("k", base_url=server.url), Request(model="m", messages=history))

    answers = [each for each in server.requests[0]["messages"] if each["role"] == "assistant"]
    assert [each["reasoning_content"] for each in answers] == ["", ""]
    assert b"signed" not in server.bodies[0]


async def test_several_texts_are_one_because_lists_are_not_taken() -> None:
    asked = Message(role=Role.USER, parts=(Text("one"), Text("two")))
    async with serve(OK) as server:
        await ask(DeepSeek("k", base_url=server.url), Request(model="m", messages=(asked,)))

    assert server.requests[0]["messages"] == [{"role": "user", "content": "one\n\ntwo"}]


@pytest.mark.req("PRV-2")
async def test_what_came_from_the_cache_is_counted() -> None:
    counts = {
        "prompt_tokens": 100,
        "completion_tokens": 9,
        "prompt_cache_hit_tokens": 64,
        "prompt_cache_miss_tokens": 36,
    }
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": counts}
    answer = ScriptedResponse(steps=[b"data: " + json.dumps(last).encode() + b"\n\n", DONE])
    async with serve(answer) as server:
        provider = DeepSeek("k", base_url=server.url)
        found = await ask(provider, Request(model="m", messages=(user("a"),)))

    end = found[-1]
    assert isinstance(end, Finished)
    assert end.usage == Usage(input_tokens=100, output_tokens=9, cache_read_tokens=64)


async def test_the_models_are_listed() -> None:
    body = b'{"object":"list","data":[{"id":"deepseek-v4-pro"},{"id":"deepseek-v4-flash"}]}'
    async with serve(ScriptedResponse(steps=[body], content_type="application/json")) as server:
        provider = DeepSeek("k", base_url=server.url)
        assert isinstance(provider, ListsModels)
        with anyio.fail_after(60):
            found = await provider.models()
        await provider.aclose()

    assert server.paths == ["/models"]
    assert [each.name for each in found] == ["deepseek-v4-pro", "deepseek-v4-flash"]
