"""How a request to the Messages API thinks, and where it may be cached."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.ids import CallId
from clew.core.messages import (
    Message,
    Native,
    Reasoning,
    Role,
    Text,
    ToolCall,
    assistant,
    tool_result,
    user,
)
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.anthropic import encode as wire

READER = ReasoningReader("anthropic", Echoes.OWN_ISSUED)
MARK: dict[str, object] = {"cache_control": {"type": "ephemeral"}}
READ = ToolCall(call_id=CallId("c1"), name="Read", arguments='{"path" : "a\\n.py"}')
LIST = ToolCall(call_id=CallId("c2"), name="List")
THOUGHT = Reasoning(text="hm", signature="sig", provenance="anthropic")
ENABLED = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
SEARCH = Native(
    provenance="anthropic",
    data='{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}',
)


def ask(*messages: Message, **fields: Any) -> Request:
    return Request(model="m", messages=messages, **fields)


def encode(request: Request, **how: Any) -> bytes:
    return wire.encode(request, wire.message_cache(READER), **how)


def body(request: Request, **how: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(request, **how))
    return found


def thinks(*messages: Message) -> bool:
    return "thinking" in body(ask(*messages, options=ENABLED, max_output_tokens=9_000))


@pytest.mark.req("RSN-5")
def test_a_tool_loop_of_another_provider_continues_without_thinking() -> None:
    begun = (user("a"), assistant(READ), tool_result(READ, "r"))

    assert not thinks(*begun)
    assert not thinks(*begun, user("hurry"))
    assert not thinks(*begun, user("hurry"), assistant(LIST), tool_result(LIST, "r"))
    assert thinks(*begun, assistant("done"), user("next"))


@pytest.mark.req("RSN-5")
def test_a_loop_that_begins_with_thinking_keeps_it() -> None:
    sealed = Reasoning(redacted="x", provenance="anthropic")
    later = (assistant(LIST), tool_result(LIST, "r"))

    assert thinks(user("a"))
    for thought in (THOUGHT, sealed):
        begun = (user("a"), assistant(thought, READ), tool_result(READ, "r"))
        assert thinks(*begun)
        assert thinks(*begun, *later)


@pytest.mark.req("RSN-5")
def test_without_thinking_none_is_sent_in_the_loop() -> None:
    history = (
        user("a"),
        assistant(THOUGHT, "b"),
        user("c"),
        assistant(READ),
        tool_result(READ, "r"),
        assistant(THOUGHT, LIST),
        tool_result(LIST, "r"),
    )
    turns = body(ask(*history, options=ENABLED))["messages"]

    assert [block["type"] for turn in turns for block in turn["content"]] == [
        *("text", "thinking", "text", "text"),
        *("tool_use", "tool_result", "tool_use", "tool_result"),
    ]


def test_switched_off_thinking_is_not_sent_in_the_loop_either() -> None:
    off = {"thinking": {"type": "disabled"}}
    begun = (user("a"), assistant(THOUGHT, READ), tool_result(READ, "r"))

    found = body(ask(*begun, options=off))
    later = body(ask(*begun, assistant("b"), user("c"), options=off))

    assert found["thinking"] == {"type": "disabled"}
    assert [block["type"] for block in found["messages"][1]["content"]] == ["tool_use"]
    assert [block["type"] for block in later["messages"][1]["content"]] == ["thinking", "tool_use"]


def test_a_model_that_decides_for_itself_is_left_alone() -> None:
    adaptive = {"thinking": {"type": "adaptive"}}
    history = (user("a"), assistant(READ), tool_result(READ, "r"))

    assert body(ask(*history, options=adaptive))["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize("kind", ["enabled", "adaptive", "disabled"])
def test_the_default_temperature_is_sent_with_thinking(kind: str) -> None:
    found = body(ask(user("a"), temperature=1.0, options={"thinking": {"type": kind}}))

    assert found["temperature"] == 1.0


@pytest.mark.parametrize("kind", ["enabled", "adaptive", "disabled"])
def test_a_temperature_is_not_sent_with_thinking(kind: str) -> None:
    found = body(ask(user("a"), temperature=0.5, options={"thinking": {"type": kind}}))

    assert ("temperature" in found) is (kind == "disabled")


@pytest.mark.parametrize(
    ("limit", "budget", "ceiling", "wanted"),
    [
        (4_000, 2_000, None, (4_000, 2_000)),
        (4_000, 16_000, None, (20_000, 16_000)),
        (4_000, 16_000, 64_000, (20_000, 16_000)),
        (4_000, 31_999, 32_000, (32_000, 28_000)),
        (64_000, 64_000, 64_000, (64_000, 32_000)),
        (100, 1_024, None, (2_048, 1_024)),
    ],
)
def test_the_answer_has_room_beside_its_thinking(
    limit: int, budget: int, ceiling: int | None, wanted: tuple[int, int]
) -> None:
    options = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    found = body(
        ask(user("a"), max_output_tokens=limit, options=options), ceiling=ceiling, cache=True
    )

    assert (found["max_tokens"], found["thinking"]["budget_tokens"]) == wanted


def marked(found: dict[str, Any]) -> list[str]:
    """Return what bears a mark, by its words or ids."""
    blocks = [*found.get("system", ()), *(b for m in found["messages"] for b in m["content"])]
    return [
        block.get("text") or block.get("tool_use_id") or block["id"]
        for block in blocks
        if "cache_control" in block
    ]


@pytest.mark.req("PRV-6")
def test_marks_stand_on_the_system_prompt_what_is_settled_and_the_end() -> None:
    history = (user("a"), assistant("b"), user("c"), assistant("d"), user("e"))

    assert marked(body(ask(*history, system="s", settled=2), cache=True)) == ["s", "b", "e"]
    assert marked(body(ask(*history, settled=99), cache=True)) == ["e"]
    assert marked(body(ask(*history, system="s"), cache=True)) == ["s", "e"]
    assert marked(body(ask(*history, system="s", settled=2))) == []


def test_a_mark_is_spliced_in_at_the_end_of_its_block() -> None:
    made = encode(ask(user("a"), assistant(READ), tool_result(READ, "r")), cache=True, ttl="1h")

    assert made.endswith(b'}],"cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}')
    assert made.count(b"cache_control") == 1
    short = encode(ask(user("a")), cache=True, ttl="5m")
    assert short.endswith(b'"a","cache_control":{"type":"ephemeral"}}]}]}')


def test_neither_thinking_nor_blocks_of_the_provider_are_marked() -> None:
    paused = Message(
        role=Role.ASSISTANT, parts=(THOUGHT, Text("x"), THOUGHT, SEARCH), provenance="anthropic"
    )

    assert marked(body(ask(user("a"), paused), cache=True)) == ["x"]
    bare = replace(paused, parts=(THOUGHT, SEARCH))
    assert marked(body(ask(user("a"), bare, settled=2), cache=True)) == ["a"]
    assert marked(body(ask(replace(bare, role=Role.USER)), cache=True)) == []


def test_there_are_never_more_marks_than_the_api_takes() -> None:
    own = [
        Message(role=Role.USER, parts=(Text(name, json.dumps(MARK)),), provenance="anthropic")
        for name in "abc"
    ]
    tool = ToolSpec(name="t", description="", schema={}, extra=MARK)

    three = ask(*own, assistant("d"), user("e"), system="s", settled=4)
    assert marked(body(three, cache=True)) == ["a", "b", "c", "e"]
    assert marked(body(replace(three, tools=(tool,)), cache=True)) == ["a", "b", "c"]
    two = ask(*own[:2], assistant("d"), user("e"), system="s", settled=3)
    assert marked(body(two, cache=True)) == ["a", "b", "d", "e"]
    one = ask(own[0], assistant("d"), system="s")
    assert marked(body(one, cache=True)) == ["s", "a", "d"]
    assert marked(body(ask(own[0], system="s"), cache=True)) == ["s", "a"]


def test_who_leaves_the_marks_to_the_api_gets_none() -> None:
    found = body(ask(user("a"), system="s", options=MARK), cache=True)

    assert marked(found) == []
    assert found["cache_control"] == MARK["cache_control"]


@pytest.mark.req("PRV-6")
def test_after_many_results_the_end_of_the_last_request_is_marked_too() -> None:
    calls = [ToolCall(call_id=CallId(f"c{n}"), name="Read") for n in range(10)]
    results = [tool_result(call, "r") for call in calls]
    history = (user("a"), assistant("b"), user("c"), assistant(*calls), *results)

    found = body(ask(*history, system="s", settled=2), cache=True)
    fewer = body(ask(*history[:3], assistant(*calls[:9]), *results[:9], system="s"), cache=True)

    assert marked(found) == ["s", "b", "c", "c9"]
    assert marked(fewer) == ["s", "c8"]
