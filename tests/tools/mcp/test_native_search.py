"""Deferred tools in the own way of a provider: the model calls a tool that it found directly."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew import Gate, Provider, Session
from clew.core.ids import CallId
from clew.core.messages import ToolCall
from clew.permissions.rules import parse_rule
from clew.providers.anthropic import Anthropic
from clew.providers.openai_responses import OpenAIResponses
from clew.providers.tool_search import has_search_items, has_tool_references
from clew.testing.fake_apis.anthropic import FakeMessagesApi
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.fake_apis.responses import FakeResponsesApi
from clew.testing.server import FakeServer, ScriptedResponse, serve
from tests.rows import each_row
from tests.tools.mcp.test_on_demand import Pool, make_source

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-8")]

FOUND = "mcp__git__push"
SEARCH = {"query": "push"}


def call(name: str, arguments: dict[str, Any]) -> ModelReply:
    made = ToolCall(call_id=CallId(f"of_{name}"), name=name, arguments=json.dumps(arguments))
    return ModelReply(calls=(made,))


def script(api: FakeMessagesApi | FakeResponsesApi, *replies: ModelReply) -> list[ScriptedResponse]:
    return [ScriptedResponse(steps=api.stream(reply)) for reply in replies]


async def converse(provider: Provider, model: str) -> list[str]:
    """Run a prompt with deferred tools; returns the outputs of its calls."""
    pool = Pool()
    pool.offer("git", "push", "log")
    source = make_source(pool, threshold=0)
    gate = Gate(cwd=Path.cwd(), allow=(parse_rule("mcp__git"),))
    async with Session(provider, model=model, tool_source=source, gate=gate) as session:
        await session.run("push it")
        return [one.text for message in session.get_history() for one in message.results]


def check_prefix(server: FakeServer, conversation: str) -> None:
    """Check that each request begins like the one before it."""
    heads = [
        {key: value for key, value in body.items() if key not in (conversation, "max_tokens")}
        for body in server.requests
    ]
    assert all(head == heads[0] for head in heads)


async def test_anthropic_loads_the_tools_that_a_search_refers_to() -> None:
    replies = call("ToolSearch", SEARCH), call(FOUND, {"path": "x"}), ModelReply(words=("done",))
    async with serve(*script(FakeMessagesApi(), *replies)) as server:
        provider = Anthropic("sk", base_url=server.url, cache=False, tool_search=True)
        said = await converse(provider, "claude-sonnet-4-5")
        await provider.aclose()

    tools = server.requests[0]["tools"]
    declared = {tool["name"]: tool.get("defer_loading", False) for tool in tools}
    assert declared.items() >= {FOUND: True, "mcp__git__log": True, "ToolSearch": False}.items()
    (result,) = server.requests[1]["messages"][-1]["content"]
    assert result["content"] == [{"type": "tool_reference", "tool_name": FOUND}]
    assert said[1] == "called push"
    check_prefix(server, "messages")


async def test_openai_gets_the_tools_of_a_search_as_its_output() -> None:
    item = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "c1",
        "execution": "client",
        "status": "completed",
        "arguments": SEARCH,
    }
    done = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        done,
    ]
    steps = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]
    replies = call(FOUND, {"path": "x"}), ModelReply(words=("done",))
    async with serve(
        ScriptedResponse(steps=steps), *script(FakeResponsesApi(), *replies)
    ) as server:
        provider = OpenAIResponses("sk", base_url=server.url, tool_search=True)
        said = await converse(provider, "gpt-5.4")
        await provider.aclose()

    declared = {tool["type"]: tool for tool in server.requests[0]["tools"]}
    assert declared["tool_search"]["execution"] == "client"
    assert "mcp__git__push" not in json.dumps(server.requests[0]["tools"])
    sent, output = server.requests[1]["input"][-2:]
    assert sent == item
    assert (output["type"], output["call_id"]) == ("tool_search_output", "c1")
    assert [(one["name"], one["defer_loading"]) for one in output["tools"]] == [(FOUND, True)]
    assert said[1] == "called push"
    check_prefix(server, "input")


async def test_a_search_becomes_a_plain_call_where_there_is_no_tool_search() -> None:
    item = {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": SEARCH}
    done = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
    steps = [f"event: {done['type']}\ndata: {json.dumps(done)}\n\n".encode()]
    replies = script(FakeResponsesApi(), ModelReply(words=("done",)))
    async with serve(ScriptedResponse(steps=steps), *replies) as server:
        provider = OpenAIResponses("sk", base_url=server.url, tool_search=False)
        await converse(provider, "gpt-5.2")
        await provider.aclose()

    sent, output = server.requests[1]["input"][-2:]
    assert (sent["type"], sent["name"], sent["call_id"]) == ("function_call", "ToolSearch", "c1")
    assert json.loads(sent["arguments"]) == SEARCH
    assert output["type"] == "function_call_output"
    assert f'"name":"{FOUND}"' in output["output"]


async def test_a_tool_that_came_later_is_described_as_text_where_it_cannot_be_loaded() -> None:
    hello, done = ModelReply(words=("hi",)), ModelReply(words=("done",))
    replies = script(FakeMessagesApi(), hello, call("ToolSearch", {"query": "send"}), done)
    async with serve(*replies) as server:
        provider = Anthropic("sk", base_url=server.url, cache=False, tool_search=True)
        pool = Pool()
        pool.offer("git", "push")
        source = make_source(pool, threshold=0)
        async with Session(provider, model="claude-opus-4-5", tool_source=source) as session:
            await session.run("hello")
            pool.offer("mail", "send")
            await session.run("send it")
        await provider.aclose()

    result = server.requests[2]["messages"][-1]["content"][0]
    assert '"name":"mcp__mail__send"' in result["content"][0]["text"]
    check_prefix(server, "messages")


@each_row(
    ("model", "expected"),
    [
        ("claude-sonnet-4-5-20250929", True),
        ("claude-opus-4-20250514", True),
        ("claude-opus-5-5", True),
        ("claude-4-5-sonnet", True),
        ("claude-3-7-sonnet-latest", False),
        ("claude-haiku-4-5", False),
        ("other", False),
    ],
)
def test_claude_models_from_4_on_load_tools(model: str, *, expected: bool) -> None:
    assert has_tool_references(model, "https://api.anthropic.com/v1") is expected
    assert not has_tool_references(model, "https://anthropic.com.example.org/v1")


@each_row(
    ("model", "expected"),
    [
        ("gpt-5.4", True),
        ("gpt-5.6-sol", True),
        ("gpt-6", True),
        ("gpt-5.4-nano", False),
        ("gpt-5.2", False),
        ("gpt-5", False),
        ("o3", False),
    ],
)
def test_gpt_models_from_5_4_on_load_tools(model: str, *, expected: bool) -> None:
    assert has_search_items(model, "https://api.openai.com/v1") is expected
    assert not has_search_items(model, "http://localhost:8000/v1")
