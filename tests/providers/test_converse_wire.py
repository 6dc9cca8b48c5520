import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.ids import CallId
from clew.core.messages import (
    File,
    Image,
    Message,
    Native,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_result,
    user,
)
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.converse import encode as converse
from clew.providers.wire.converse.model_traits import ModelTraits, ResultSeparation, find_traits
from tests.rows import each_row

CLAUDE = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
READER = ReasoningReader("bedrock", Echoes.OWN_ISSUED)
READ = ToolCall(call_id=CallId("c1"), name="Read", arguments='{"path" : "a\\n.py"}')
SPEC = ToolSpec(name="Read", description="Reads.", schema={"type": "object"})
SEALED = Reasoning(text="hm", provenance="bedrock", signature="seal")
THINKING = {"additionalModelRequestFields": {"thinking": {"type": "enabled"}, "top_k": 5}}
MARK = {"cachePoint": {"type": "default"}}


def encode(request: Request, *, cache: bool | None = None) -> bytes:
    return converse.encode(request, converse.message_cache(READER), cache=cache)


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    cache = fields.pop("cache", None)
    request = Request(model=fields.pop("model", "m"), messages=messages, **fields)
    found: dict[str, Any] = json.loads(encode(request, cache=cache))
    return found


def sent(*messages: Message, **fields: Any) -> list[tuple[str, list[Any]]]:
    return [(each["role"], each["content"]) for each in body(*messages, **fields)["messages"]]


def text(words: str) -> dict[str, str]:
    return {"text": words}


LOOP = (user("go"), assistant(READ), tool_result(READ, "ok"))
SEALED_LOOP = (user("go"), assistant(SEALED, READ), tool_result(READ, "ok"))
BOTH, ONE = {"thinking", "top_k"}, {"top_k"}
UNSEALED = Reasoning(text="hm", provenance="other", signature="s")


@pytest.mark.parametrize(
    ("messages", "asked"),
    [
        pytest.param((user("go"),), BOTH, id="no work yet"),
        pytest.param(SEALED_LOOP, BOTH, id="began with thinking"),
        pytest.param((*SEALED_LOOP, assistant(READ), tool_result(READ, "")), BOTH, id="goes on"),
        pytest.param(LOOP, ONE, id="began without"),
        pytest.param((*LOOP, user("and?")), ONE, id="words beside the results"),
        pytest.param((*LOOP, assistant(SEALED, READ), tool_result(READ, "")), ONE, id="too late"),
        pytest.param((user("go"), assistant(UNSEALED, READ), LOOP[2]), ONE, id="of another"),
        pytest.param((*LOOP, assistant("done"), user("next")), BOTH, id="an older turn"),
    ],
)
def test_thinking_is_asked_for_only_where_the_work_began_with_it(
    messages: tuple[Message, ...], asked: set[str]
) -> None:
    found = body(*messages, options=THINKING)["additionalModelRequestFields"]

    assert found.keys() == asked


def test_thinking_that_makes_no_demands_is_left_alone() -> None:
    adaptive = {"additionalModelRequestFields": {"thinking": {"type": "adaptive"}}}
    only = {"additionalModelRequestFields": {"thinking": {"type": "enabled"}}}

    assert body(*LOOP, options=adaptive)["additionalModelRequestFields"]
    assert "additionalModelRequestFields" not in body(*LOOP, options=only)


@pytest.mark.req("PRV-6")
def test_marks_stand_behind_the_system_the_settled_messages_and_the_last() -> None:
    history = (user("a"), assistant("b"), user("c"), assistant("d"), user("e"))

    found = body(*history, model=CLAUDE, system="s", settled=4)

    assert found["system"] == [text("s"), MARK]
    marked = [MARK in message["content"] for message in found["messages"]]
    assert marked == [False, False, True, False, True]
    assert b"cachePoint" not in encode(Request(model=CLAUDE, messages=history), cache=False)
    assert b"cachePoint" not in encode(Request(model="meta.llama3", messages=history))
    assert b"cachePoint" in encode(Request(model="meta.llama3", messages=history), cache=True)


def test_no_mark_stands_behind_a_document_nor_beside_marks_that_were_brought() -> None:
    paper = File(media_type="text/plain", data=b"a")
    shown = (user("a"), assistant("b"), Message(role=Role.USER, parts=(Text("c"), paper)))
    brought = Native(provenance="bedrock", data=json.dumps(MARK))
    own = Message(role=Role.USER, parts=(Text("a"), brought, Text("b")))

    found = sent(*shown, cache=True)

    assert [MARK in blocks for _, blocks in found] == [True, False, False]
    assert sent(own, cache=True) == [("user", [text("a"), MARK, text("b")])]


@each_row(
    ("model", "known"),
    [
        (CLAUDE, ModelTraits(caches=True, signs=True, apart=ResultSeparation.DOCUMENTS)),
        (
            "anthropic.claude-3-haiku-20240307-v1:0",
            ModelTraits(signs=True, apart=ResultSeparation.DOCUMENTS),
        ),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-4-8",
            ModelTraits(caches=True, signs=True, apart=ResultSeparation.DOCUMENTS),
        ),
        ("us.amazon.nova-pro-v1:0", ModelTraits(caches=True)),
        ("amazon.titan-text-lite-v1", ModelTraits()),
        (
            "us.meta.llama4-maverick-17b-instruct-v1:0",
            ModelTraits(apart=ResultSeparation.EVERYTHING),
        ),
        ("deepseek.v3.2", ModelTraits()),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/x1", ModelTraits(signs=True)),
    ],
)
def test_habits_go_by_the_maker_of_a_model(model: str, known: ModelTraits) -> None:
    assert find_traits(model) == known


def test_results_stand_alone_where_a_model_wants_it() -> None:
    paper = Message(
        role=Role.USER, parts=(Text("see"), File(media_type="text/plain", data=b"a", name="p"))
    )
    asked, shown = (*LOOP, user("and?")), (*LOOP, paper)

    def roles(model: str, messages: tuple[Message, ...]) -> list[str]:
        return [role for role, _ in sent(*messages, model=model)]

    merged, split = ["user", "assistant", "user"], ["user", "assistant"] * 2 + ["user"]
    assert roles(CLAUDE, asked) == merged
    assert roles(CLAUDE, shown) == split
    assert roles("amazon.nova-pro-v1:0", shown) == merged
    assert roles("meta.llama3-3-70b-instruct-v1:0", asked) == split


texts = st.text(max_size=20)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts),
    st.builds(Image, data=st.binary(max_size=5)),
    st.builds(File, media_type=st.sampled_from(["text/plain", "video/mp4"]), data=st.binary()),
    st.builds(Reasoning, text=texts, signature=texts, provenance=st.just("bedrock")),
    st.builds(ToolCall, call_id=texts.map(CallId), name=texts, arguments=texts),
    st.builds(ToolResult, call_id=texts.map(CallId), name=texts, text=texts, failed=st.booleans()),
)
messages = st.builds(
    Message, role=st.sampled_from(Role), parts=st.lists(parts, max_size=4).map(tuple)
)
models = st.sampled_from([CLAUDE, "amazon.nova-pro-v1:0", "meta.llama3", "m"])


@pytest.mark.req("PRV-6")
@given(st.lists(messages, min_size=1, max_size=8), st.integers(0, 9), models)
def test_appending_a_message_changes_no_byte_before_it_but_the_marks(
    history: list[Message], settled: int, model: str
) -> None:
    longer = Request(
        model=model, system="s", tools=(SPEC,), messages=tuple(history), settled=settled
    )
    shorter = replace(longer, messages=longer.messages[:-1])

    def unmarked(request: Request) -> bytes:
        return encode(request).replace(b"," + converse.MARK, b"")

    assert json.loads(encode(longer))["messages"] is not None
    assert encode(longer) == encode(longer)
    assert unmarked(longer).startswith(unmarked(shorter).removesuffix(b"]}").removesuffix(b"]}"))


@given(st.lists(messages, max_size=8), st.integers(0, 200), models)
def test_remembered_fragments_change_no_byte(
    history: list[Message], limit: int, model: str
) -> None:
    request = Request(model=model, system="s", messages=tuple(history))
    kept = converse.message_cache(READER, limit=limit)

    for _ in range(2):
        assert converse.encode(request, kept) == encode(request)


@given(st.lists(messages, max_size=8), models)
def test_roles_take_turns_and_the_user_is_first(history: list[Message], model: str) -> None:
    found = [role for role, _ in sent(*history, model=model)]

    assert found == (["user", "assistant"] * len(found))[: len(found)]
