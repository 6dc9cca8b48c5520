"""What a request becomes on the wire of the Messages API."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningPolicy, ReasoningReader
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
from clew.providers.wire.anthropic import encode as wire
from clew.providers.wire.anthropic.turns import OPENING
from clew.testing.request_parsers.anthropic import parse_request
from tests.rows import each_row

READER = ReasoningReader("anthropic", Echoes.OWN_ISSUED)
MARK = {"cache_control": {"type": "ephemeral"}}
READ = ToolCall(call_id=CallId("c1"), name="Read", arguments='{"path" : "a\\n.py"}')
LIST = ToolCall(call_id=CallId("c2"), name="List")
THOUGHT = Reasoning(text="hm", signature="sig", provenance="anthropic")
ENABLED = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}


def ask(*messages: Message, **fields: Any) -> Request:
    return Request(model="m", messages=messages, **fields)


def encode(request: Request, **how: Any) -> bytes:
    return wire.encode(request, wire.message_cache(READER), **how)


def body(request: Request, **how: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(request, **how))
    return found


def sent(*messages: Message, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body(ask(*messages, **fields))["messages"]
    return found


def words(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def native(**block: Any) -> Native:
    return Native(provenance="anthropic", data=json.dumps(block))


SEARCH = native(type="server_tool_use", id="s1", name="web_search", input={"query": "q"})
FOUND = native(type="web_search_tool_result", tool_use_id="s1", content=[])


@pytest.mark.req("PRV-1")
def test_the_exact_body_of_a_request_with_everything_in_it() -> None:
    request = ask(
        user("look", Image(data=b"png"), Image(url="https://example.org/a.png")),
        assistant(THOUGHT, "I read.", READ, LIST),
        tool_result(READ, "gone", failed=True),
        tool_result(LIST, "a.py"),
        user("why?"),
        system="Be brief.",
        tools=(
            ToolSpec(name="Read", description="Reads.", schema={"type": "object"}, extra={"x": 1}),
        ),
        native_tools=({"type": "web_search_20250305", "name": "web_search"},),
        max_output_tokens=100,
        temperature=0.5,
        options={"top_k": 3},
    )

    assert encode(request).decode() == (
        '{"model":"m","max_tokens":100,"temperature":0.5,'
        '"tools":[{"name":"Read","description":"Reads.","input_schema":{"type":"object"},"x":1},'
        '{"type":"web_search_20250305","name":"web_search"}],'
        '"system":[{"type":"text","text":"Be brief."}],"top_k":3,"stream":true,'
        '"messages":[{"role":"user","content":[{"type":"text","text":"look"},'
        '{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}},'
        '{"type":"image","source":{"type":"url","url":"https://example.org/a.png"}}]},'
        '{"role":"assistant","content":['
        '{"type":"thinking","thinking":"hm","signature":"sig"},'
        '{"type":"text","text":"I read."},'
        '{"type":"tool_use","id":"c1","name":"Read","input":{"path" : "a\\n.py"}},'
        '{"type":"tool_use","id":"c2","name":"List","input":{}}]},'
        '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1",'
        '"content":[{"type":"text","text":"gone"}],"is_error":true},'
        '{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"a.py"}]},'
        '{"type":"text","text":"why?"}]}]}'
    )


def test_a_minimal_request_has_no_extra_fields() -> None:
    assert encode(ask(user("hi")), streaming=False) == (
        b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}'
    )
    assert encode(Request(model="", messages=()), streaming=False) == b'{"messages":[]}'


def test_tool_results_come_first_in_a_turn() -> None:
    (_, turn) = sent(assistant(READ), user("wait"), tool_result(READ, "text"))[-2:]

    assert [block["type"] for block in turn["content"]] == ["tool_result", "text"]


def test_blank_words_and_empty_answers_are_left_out() -> None:
    history = (user("a"), assistant(""), assistant(" \n", Text("")), user("b", Image(data=b"")))

    assert sent(*history) == [
        {
            "role": "user",
            "content": [
                words("a"),
                words("b"),
                words("[A picture (image/png) that cannot be shown here.]"),
            ],
        }
    ]


def test_a_conversation_that_begins_with_an_answer_gets_an_opening() -> None:
    assert sent(assistant(" "), assistant("hello"), user("hi")) == [
        {"role": "user", "content": [words(OPENING)]},
        {"role": "assistant", "content": [words("hello")]},
        {"role": "user", "content": [words("hi")]},
    ]


def test_only_a_last_answer_loses_the_blanks_at_its_end() -> None:
    mine = Message(role=Role.ASSISTANT, parts=(Text("so \n", '{"x":1}'),), provenance="anthropic")

    assert sent(user("a"), mine)[-1]["content"] == [{**words("so"), "x": 1}]
    assert sent(user("a"), mine, user("b"))[1]["content"] == [{**words("so \n"), "x": 1}]
    assert sent(user("a"), assistant("so ", READ))[-1]["content"][0] == words("so ")


def test_an_answer_never_ends_with_thinking() -> None:
    sealed = Reasoning(redacted="xyz", provenance="anthropic")
    history = sent(user("a"), assistant(THOUGHT), user("b"), assistant("c", sealed), user("d"))

    assert history == [
        {"role": "user", "content": [words("a"), words("b")]},
        {"role": "assistant", "content": [words("c")]},
        {"role": "user", "content": [words("d")]},
    ]


@pytest.mark.req("RSN-1")
def test_thinking_goes_back_byte_for_byte_and_only_where_it_came_from() -> None:
    sealed = Reasoning(redacted="x/+=", provenance="anthropic")
    silent = Reasoning(signature="s==", provenance="anthropic")
    foreign = Reasoning(text="no", signature="n", provenance="gemini")

    assert sent(user("a"), assistant(sealed, silent, foreign, "b"), user("c"))[1]["content"] == [
        {"type": "redacted_thinking", "data": "x/+="},
        {"type": "thinking", "thinking": "", "signature": "s=="},
        words("b"),
    ]


@pytest.mark.req("RSN-3")
def test_foreign_reasoning_is_sent_as_text_if_enabled() -> None:
    foreign = Reasoning(text="hm", signature="n", provenance="gemini")
    policy = ReasoningPolicy(as_text=True)

    history = sent(user("a"), assistant(foreign, "b"), user("c"), reasoning=policy)

    assert history[1]["content"] == [words("<thinking>hm</thinking>\n"), words("b")]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("", {}),
        (' {"a": 1.0}\n', {"a": 1.0}),
        ("[1]", {"arguments": "[1]"}),
        ('{"a": ', {"arguments": '{"a": '}),
        ("[" * 100_000, {"arguments": "[" * 100_000}),
    ],
)
def test_arguments_that_are_no_object_are_wrapped(arguments: str, wanted: object) -> None:
    call = ToolCall(call_id=CallId("c"), name="Read", arguments=arguments)

    assert sent(user("a"), assistant(call))[1]["content"][0]["input"] == wanted


def test_names_of_other_providers_are_made_fit_and_stay_paired() -> None:
    ids = ["functions.Read:0", "functions:Read.0", "call_1|fc_2", "", "x" * 200]
    calls = [ToolCall(call_id=CallId(each), name="a.b") for each in ids]
    (_, asked, answered) = sent(
        user("a"), assistant(*calls), *(tool_result(call, "r") for call in calls)
    )

    used = [block["id"] for block in asked["content"]]
    assert [block["tool_use_id"] for block in answered["content"]] == used
    assert len(set(used)) == len(ids)
    assert all(0 < len(each) <= 128 for each in used)
    assert "".join([*used, asked["content"][0]["name"]]).replace("_", "").isalnum()


def test_a_result_says_what_the_api_takes() -> None:
    picture = Image(data=b"x")
    results = (
        ToolResult(call_id=CallId("a"), name="", text=" "),
        ToolResult(call_id=CallId("b"), name="", text="", failed=True),
        ToolResult(call_id=CallId("c"), name="", text="", images=(picture,)),
        ToolResult(call_id=CallId("d"), name="", text="no", images=(picture,), failed=True),
    )
    (turn,) = sent(Message(role=Role.TOOL, parts=results))

    assert turn["content"] == [
        {"type": "tool_result", "tool_use_id": "a"},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [words("The tool failed and gave no reason.")],
            "is_error": True,
        },
        {
            "type": "tool_result",
            "tool_use_id": "c",
            "content": [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "eA=="},
                }
            ],
        },
        {
            "type": "tool_result",
            "tool_use_id": "d",
            "content": [
                words("no"),
                words("[A picture (image/png) that cannot be shown here.]"),
            ],
            "is_error": True,
        },
    ]


@each_row(
    ("file", "wanted"),
    [
        (
            File(media_type="application/pdf", data=b"%PDF", name="a.pdf"),
            {
                "type": "document",
                "source": {
                    "type": "base64",
                    "media_type": "application/pdf",
                    "data": "JVBERg==",
                },
                "title": "a.pdf",
            },
        ),
        (
            File(media_type="application/pdf", url="https://example.org/a.pdf"),
            {
                "type": "document",
                "source": {"type": "url", "url": "https://example.org/a.pdf"},
            },
        ),
        (
            File(media_type="text/markdown", data="# ä".encode()),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "# ä"},
            },
        ),
        (
            File(media_type="image/gif", data=b"G"),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/gif", "data": "Rw=="},
            },
        ),
        (
            File(media_type="audio/mp3", data=b"x", name="a.mp3"),
            words("[A file 'a.mp3' (audio/mp3) that cannot be shown here.]"),
        ),
        (
            File(media_type="text/csv", url="https://example.org/a.csv"),
            words("[A file (text/csv) at https://example.org/a.csv that cannot be shown here.]"),
        ),
        (
            Image(url="data:image/gif;base64,Rw=="),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/gif", "data": "Rw=="},
            },
        ),
        (
            Image(url="gs://bucket/a.png"),
            words("[A picture (image/png) at gs://bucket/a.png that cannot be shown here.]"),
        ),
        (
            Image(media_type="image/bmp", data=b"x"),
            words("[A picture (image/bmp) that cannot be shown here.]"),
        ),
    ],
)
def test_files_go_out_as_the_api_can_read_them(file: Part, wanted: object) -> None:
    assert sent(Message(role=Role.USER, parts=(file,)))[0]["content"] == [wanted]


def test_a_note_replaces_an_image_of_the_assistant() -> None:
    assert sent(user("a"), assistant(Image(data=b"x")))[1]["content"] == [
        words("[A picture (image/png) that cannot be shown here.]")
    ]


def test_parts_that_a_speaker_cannot_have_are_put_right_or_left_out() -> None:
    result = ToolResult(call_id=CallId("c1"), name="Read", text="r")
    odd = Message(role=Role.USER, parts=(Text("a"), READ, THOUGHT))

    assert sent(odd) == [{"role": "user", "content": [words("a")]}]
    assert [turn["role"] for turn in sent(assistant(READ), assistant(result, "b"))] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]


def test_private_fields_and_blocks_go_back_as_they_came() -> None:
    data = '{"id":"s1", "type":"server_tool_use",  "name":"web_search","input":{"q":1.50}}'
    parts = (
        Native(provenance="anthropic", data=data),
        FOUND,
        Text("x", '{"citations":[{"encrypted_index":"E=="}]}'),
    )
    mine = Message(role=Role.ASSISTANT, parts=parts, provenance="anthropic")

    made = encode(ask(user("a"), mine, user("b")))

    assert data.encode() + b"," in made
    assert b'{"type":"text","text":"x","citations":[{"encrypted_index":"E=="}]}' in made
    assert b"citations" not in encode(ask(replace(mine, provenance="gemini")))


def test_a_message_in_the_words_of_the_api_stays_one_of_its_own() -> None:
    said = native(role="system", content=[words("From now on, rhyme.")])
    aside = Message(role=Role.USER, parts=(said,), provenance="anthropic")

    assert [turn["role"] for turn in sent(user("a"), aside, aside, user("b"))] == [
        "user",
        "system",
        "system",
        "user",
    ]


def test_the_body_to_be_counted_holds_nothing_that_cannot_be() -> None:
    request = ask(
        user("hi"),
        system="s",
        tools=(ToolSpec(name="Read", description="", schema={}),),
        native_tools=({"type": "web_search_20250305"}, {"type": "memory_20250818"}),
        max_output_tokens=5,
        temperature=0.1,
        options={**ENABLED, "tool_choice": {"type": "auto"}, "metadata": {}},
    )
    counted = json.loads(wire.encode_count(request, wire.message_cache(READER)))

    assert counted == {
        "model": "m",
        "tools": [
            {"name": "Read", "description": "", "input_schema": {}},
            {"type": "memory_20250818"},
        ],
        "system": [words("s")],
        "thinking": ENABLED["thinking"],
        "tool_choice": {"type": "auto"},
        "messages": [{"role": "user", "content": [words("hi")]}],
    }
    alone = replace(request, tools=(), native_tools=({"type": "web_fetch_20250910"},))
    assert not {"tools", "tool_choice"} & {
        *json.loads(wire.encode_count(alone, wire.message_cache(READER)))
    }


def test_a_call_that_broke_off_is_left_out_once_the_user_has_spoken() -> None:
    cut = Message(role=Role.ASSISTANT, parts=(Text("I look."), SEARCH), provenance="anthropic")

    assert sent(user("a"), cut, user("b"))[1]["content"] == [words("I look.")]
    assert len(sent(user("a"), cut)[1]["content"]) == 2
    only = replace(cut, parts=(SEARCH,))
    assert [turn["role"] for turn in sent(user("a"), only, user("b"))] == ["user"]


def test_a_call_that_waits_for_our_own_results_stays() -> None:
    waits = Message(role=Role.ASSISTANT, parts=(SEARCH, READ), provenance="anthropic")
    found = Message(role=Role.ASSISTANT, parts=(FOUND, Text("so")), provenance="anthropic")
    result = tool_result(READ, "r")

    assert sent(user("a"), waits, result)[1]["content"][0]["id"] == "s1"
    whole = sent(user("a"), waits, result, user("and?"), found, user("b"))
    assert whole[1]["content"][0]["id"] == "s1"
    assert whole[3]["content"][0]["tool_use_id"] == "s1"
    assert len(sent(user("a"), waits, result, assistant("so"), user("b"))[1]["content"]) == 1


def test_an_answer_without_its_call_is_left_out() -> None:
    found = Message(role=Role.ASSISTANT, parts=(FOUND, Text("so")), provenance="anthropic")

    assert sent(user("a"), found, user("b"))[1]["content"] == [words("so")]


def test_a_paused_response_continues_in_one_turn() -> None:
    first = Message(role=Role.ASSISTANT, parts=(SEARCH,), provenance="anthropic")
    second = Message(role=Role.ASSISTANT, parts=(FOUND, Text("so")), provenance="anthropic")

    assert len(sent(user("a"), first, second, user("b"))[1]["content"]) == 3


texts = st.text(max_size=12)
blocks = st.sampled_from([SEARCH, FOUND, native(type="fallback", to={"model": "x"})])
extras = st.sampled_from(["", '{"x":1}', json.dumps(MARK)])
said: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts, extras),
    st.builds(Image, data=st.binary(max_size=3), extra=extras),
    st.builds(File, media_type=st.sampled_from(["text/plain", "a/b"]), data=st.binary(max_size=3)),
)
answered: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts.map(lambda text: f"{text}."), extras),
    st.builds(
        Reasoning, text=texts, signature=texts, provenance=st.sampled_from(["anthropic", "x"])
    ),
    blocks,
)
calls = st.builds(ToolCall, call_id=texts.map(CallId), name=texts, arguments=texts, extra=extras)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """A user's message, or an answer with the results of its calls."""
    provenance = draw(st.sampled_from(["", "anthropic"]))
    if draw(st.booleans()):
        parts = draw(st.lists(said, max_size=3))
        return [Message(role=Role.USER, parts=tuple(parts), provenance=provenance)]
    made = draw(st.lists(calls, max_size=2))
    parts = [*draw(st.lists(answered, max_size=3)), *made]
    answer = Message(role=Role.ASSISTANT, parts=tuple(parts), provenance=provenance)
    return [answer, *(tool_result(call, draw(texts), failed=draw(st.booleans())) for call in made)]


histories = st.lists(turns(), max_size=6).map(lambda found: [m for turn in found for m in turn])


def without_marks(found: bytes) -> bytes:
    return found.replace(b',"cache_control":{"type":"ephemeral"}', b"")


def is_settled(message: Message) -> bool:
    """Say whether nothing that follows can change how `message` is sent."""
    parts = message.parts
    open_end = bool(parts) and isinstance(parts[-1], Reasoning)
    return not open_end and not any(isinstance(part, Native) for part in parts)


@pytest.mark.req("PRV-6")
@given(histories, histories, st.integers(0, 12))
def test_appending_changes_no_byte_before_but_the_marks(
    before: list[Message], after: list[Message], settled: int
) -> None:
    before = [message for message in before if is_settled(message)]
    shorter = ask(*before, system="s", settled=settled)
    longer = ask(*before, *after, system="s", settled=settled)

    begun = without_marks(encode(shorter, cache=True)).removesuffix(b"]}").removesuffix(b"]}")

    assert without_marks(encode(longer, cache=True)).startswith(begun)


@given(histories, st.integers(0, 300))
def test_remembered_fragments_change_no_byte(history: list[Message], limit: int) -> None:
    kept = wire.message_cache(READER, limit=limit)

    for end in (len(history) // 2, len(history), len(history)):
        request = ask(*history[:end], system="s", settled=2)
        for cache in (True, False):
            assert wire.encode(request, kept, cache=cache) == encode(request, cache=cache)


@given(histories)
def test_any_conversation_gives_a_valid_body(history: list[Message]) -> None:
    found = body(ask(*history, system="s", settled=3, options=ENABLED), cache=True)

    roles = [turn["role"] for turn in found["messages"]]
    assert all(one != other for one, other in pairwise(roles))
    assert roles[:1] in ([], ["user"])
    marks = json.dumps(found).count('"cache_control"')
    own = sum("cache_control" in str(getattr(p, "extra", "")) for m in history for p in m.parts)
    assert marks <= max(4, own)
    for turn in found["messages"]:
        kinds = [block["type"] for block in turn["content"]]
        assert kinds
        assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result")
        assert kinds[-1] != "thinking"
        assert all(b["text"].strip() for b in turn["content"] if b["type"] == "text")


@given(histories)
def test_a_body_is_read_back_as_what_it_was(history: list[Message]) -> None:
    request = ask(*history, system="s", max_output_tokens=5, options={"top_p": 0.5})
    made = encode(request)

    again = parse_request(made, provenance="anthropic")

    assert json.loads(encode(again)) == json.loads(made)
    assert (again.system, again.max_output_tokens, again.options) == ("s", 5, {"top_p": 0.5})
