import json
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningPolicy, ReasoningReader
from clew.core.errors import (
    ContextOverflow,
    ProviderBusy,
    ProviderDenied,
    ProviderError,
    ProviderRejected,
    SignatureRejected,
    StreamBroken,
)
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
from clew.core.usage import Usage
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    PartChunk,
    ReasoningChunk,
    Request,
    ServerToolChunk,
    StopReason,
    TextChunk,
)
from clew.providers.sse import EventParser
from clew.providers.wire.responses import encode as responses
from clew.providers.wire.responses.decode import responses_decoder
from clew.testing.fake_apis.protocol import ModelReply
from clew.testing.fake_apis.responses import FakeResponsesApi
from clew.testing.request_parsers.responses import parse_request
from tests.recordings import responses as wire
from tests.recordings.records import PRESENT, Record, key, records, round_trips
from tests.rows import each_row

Json = dict[str, Any]

READER = ReasoningReader("openai", Echoes.OWN_ISSUED)
READ = ToolCall(call_id=CallId("c1"), name="Read", arguments='{"path" : "a\\n.py"}')
SEALED = Reasoning(text="hm", provenance="openai", signature="gAAA==")


def encode(request: Request, **how: Any) -> bytes:
    return responses.encode(request, responses.message_cache(READER), **how)


def items(*messages: Message, **fields: Any) -> list[Json]:
    request = Request(model="m", messages=messages, **fields)
    found: list[Json] = json.loads(encode(request))["input"]
    return found


def event(kind: str, **fields: object) -> bytes:
    name = kind if kind == "error" else f"response.{kind}"
    return b"event: %b\ndata: %b\n\n" % (
        name.encode(),
        json.dumps({"type": name, **fields}).encode(),
    )


def completed(*output: Json, **fields: object) -> bytes:
    return event("completed", response={"status": "completed", "output": output, **fields})


def decode(*pieces: bytes) -> list[Chunk]:
    parser, decoder = EventParser(), responses_decoder("openai")
    found = [chunk for data in pieces for each in parser.feed(data) for chunk in decoder.feed(each)]
    found += [chunk for each in parser.close() for chunk in decoder.feed(each)]
    return [*found, decoder.close()]


def whole(**response: object) -> list[Chunk]:
    decoder = responses_decoder("openai")
    found = decoder.whole(json.dumps({"status": "completed", **response}).encode())
    return [*found, decoder.close()]


def assembled(chunks: list[Chunk]) -> Message:
    assembly = MessageBuilder(provenance="openai")
    for chunk in chunks:
        assembly.add(chunk)
    return assembly.message()


def text_item(text: str, **fields: object) -> Json:
    piece = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "role": "assistant", "content": [piece], **fields}


# --- What is sent ------------------------------------------------------------------------


@pytest.mark.req("PRV-1")
def test_the_exact_body_of_a_request_with_everything_in_it() -> None:
    request = Request(
        model="m",
        system="Be brief.",
        tools=(ToolSpec(name="Read", description="Reads.", schema={"type": "object"}),),
        native_tools=({"type": "web_search"},),
        max_output_tokens=100,
        temperature=0.5,
        cache_key="session-1",
        options={"reasoning": {"effort": "low"}, "include": ["web_search_call.action.sources"]},
        messages=(
            user("look", Image(data=b"png"), Image(url="https://example.org/a.png")),
            assistant(SEALED, "I read.", READ),
            tool_result(READ, "gone", failed=True),
            assistant("no"),
            user("why?"),
        ),
    )

    assert encode(request).decode() == (
        '{"model":"m","stream":true,"store":false,'
        '"include":["reasoning.encrypted_content","web_search_call.action.sources"],'
        '"max_output_tokens":100,"temperature":0.5,"prompt_cache_key":"session-1",'
        '"tools":[{"type":"function","name":"Read","description":"Reads.",'
        '"parameters":{"type":"object"},"strict":false},{"type":"web_search"}],'
        '"instructions":"Be brief.","reasoning":{"effort":"low"},'
        '"input":[{"role":"user","content":[{"type":"input_text","text":"look"},'
        '{"type":"input_image","image_url":"data:image/png;base64,cG5n"},'
        '{"type":"input_image","image_url":"https://example.org/a.png"}]},'
        '{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],'
        '"encrypted_content":"gAAA=="},'
        '{"type":"message","role":"assistant",'
        '"content":[{"type":"output_text","text":"I read.","annotations":[]}]},'
        '{"type":"function_call","call_id":"c1","name":"Read",'
        '"arguments":"{\\"path\\" : \\"a\\\\n.py\\"}"},'
        '{"type":"function_call_output","call_id":"c1","output":"Error: gone"},'
        '{"type":"message","role":"assistant",'
        '"content":[{"type":"output_text","text":"no","annotations":[]}]},'
        '{"role":"user","content":"why?"}]}'
    )


def test_a_minimal_request_has_no_extra_fields() -> None:
    body = encode(Request(model="m", messages=(user("hi"),)), streaming=False)

    assert body == (
        b'{"model":"m","store":false,"include":["reasoning.encrypted_content"],'
        b'"input":[{"role":"user","content":"hi"}]}'
    )


def test_options_may_have_the_server_store_the_answer() -> None:
    body = json.loads(encode(Request(model="m", messages=(), options={"store": True})))

    assert (body["store"], body["include"]) == (True, ["reasoning.encrypted_content"])


def test_a_tool_may_be_strict_or_take_free_text() -> None:
    strict = ToolSpec(name="a", description="", schema={}, extra={"strict": True})
    free = ToolSpec(name="b", description="B.", schema={}, extra={"type": "custom", "format": {}})
    body = json.loads(encode(Request(model="m", messages=(), tools=(strict, free))))

    assert body["tools"] == [
        {"type": "function", "name": "a", "parameters": {}, "strict": True},
        {"type": "custom", "name": "b", "description": "B.", "format": {}},
    ]


def test_thinking_that_nothing_follows_is_left_out() -> None:
    assert items(assistant(SEALED)) == []
    assert [each["type"] for each in items(assistant("a", SEALED), user("b"))[:1]] == ["message"]
    assert len(items(assistant(SEALED, SEALED, READ))) == 3


@pytest.mark.req("RSN-2")
def test_thinking_without_a_seal_or_of_others_is_left_out() -> None:
    unsealed, foreign = replace(SEALED, signature=""), replace(SEALED, provenance="anthropic")

    assert [each["type"] for each in items(assistant(unsealed, foreign, "a"))] == ["message"]


def test_what_was_sealed_by_an_older_import_is_sent_as_well() -> None:
    old = Reasoning(provenance="openai", redacted="gAAA")

    assert items(assistant(old, "a"))[0] == {
        "type": "reasoning",
        "summary": [],
        "encrypted_content": "gAAA",
    }


@pytest.mark.req("RSN-3")
def test_foreign_reasoning_as_text_stays_separate() -> None:
    foreign = replace(SEALED, provenance="anthropic")
    found = items(assistant(foreign, "a"), reasoning=ReasoningPolicy(as_text=True))

    assert [each["content"][0]["text"] for each in found] == ["<thinking>hm</thinking>\n", "a"]


def test_the_private_fields_of_another_family_are_not_sent() -> None:
    said = Text("a", extra='{"cache_control":{"type":"ephemeral"}}')
    searched = Native(provenance="anthropic", data="{}", note="[web_search: cats]")
    message = replace(assistant(said, searched), provenance="anthropic")

    assert [each["content"] for each in items(message)] == [
        [{"type": "output_text", "text": "a", "annotations": []}],
        [{"type": "output_text", "text": "[web_search: cats]", "annotations": []}],
    ]


def test_results_keep_their_pictures() -> None:
    result = ToolResult(
        call_id=CallId("c1"), name="See", text="two", images=(Image(data=b"a"), Image(url="u"))
    )
    bare = replace(result, text="")

    outputs = [each["output"] for each in items(Message(role=Role.TOOL, parts=(result, bare)))]

    pictures = [
        {"type": "input_image", "image_url": "data:image/png;base64,YQ=="},
        {"type": "input_image", "image_url": "u"},
    ]
    assert outputs == [[{"type": "input_text", "text": "two"}, *pictures], pictures]


def test_documents_are_sent_as_data_or_url() -> None:
    held = File(media_type="application/pdf", data=b"%PDF", name="a.pdf")
    parts = (held, replace(held, name=""), File(media_type="text/plain", url="https://a.org/b"))

    assert items(Message(role=Role.USER, parts=parts))[0]["content"] == [
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,JVBERg==",
        },
        {
            "type": "input_file",
            "filename": "file.pdf",
            "file_data": "data:application/pdf;base64,JVBERg==",
        },
        {"type": "input_file", "file_url": "https://a.org/b"},
    ]


def test_a_note_replaces_an_image_of_another_model() -> None:
    made = assistant(Image(data=b"a"), File(media_type="audio/wav", data=b"b"))

    assert [each["content"][0]["text"] for each in items(made)] == [
        "[A picture (image/png) that cannot be shown here.]",
        "[A file (audio/wav) that cannot be shown here.]",
    ]


def test_an_answer_without_words_is_not_sent_but_a_user_may_say_nothing() -> None:
    assert items(assistant(Text("")), user("")) == [{"role": "user", "content": ""}]


def test_names_of_calls_that_are_too_long_are_shortened_alike_for_call_and_result() -> None:
    call = ToolCall(call_id=CallId("x" * 65), name="Read")
    asked, answered = items(assistant(call), tool_result(call, "ok"))

    assert len(asked["call_id"]) <= 64
    assert asked["call_id"] == answered["call_id"]


CUSTOM = ToolCall(
    call_id=CallId("k1"),
    name="run",
    arguments='{"input":"print(\\"ä\\")"}',
    extra='{"id":"ctc_1","type":"custom_tool_call"}',
)


def test_a_call_with_free_text_and_its_result_are_items_of_their_own_kind() -> None:
    called = replace(assistant(CUSTOM, READ), provenance="openai")
    answers = Message(
        role=Role.TOOL,
        parts=(*tool_result(CUSTOM, "ä").parts, *tool_result(READ, "ok").parts),
    )

    assert items(called, answers) == [
        {
            "type": "custom_tool_call",
            "call_id": "k1",
            "name": "run",
            "input": 'print("ä")',
            "id": "ctc_1",
        },
        {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": READ.arguments},
        {"type": "custom_tool_call_output", "call_id": "k1", "output": "ä"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    ]


def test_a_call_with_free_text_becomes_a_plain_one_where_its_family_is_forgotten() -> None:
    found = items(assistant(replace(CUSTOM, extra="")), tool_result(CUSTOM, "ä"))

    assert [each["type"] for each in found] == ["function_call", "function_call_output"]


def test_free_text_input_is_sent_unchanged() -> None:
    broken = replace(assistant(replace(CUSTOM, arguments="print(")), provenance="openai")

    assert items(broken)[0]["input"] == "print("


texts = st.text(max_size=20)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts),
    st.builds(Image, data=st.binary(max_size=5)),
    st.builds(File, media_type=st.just("text/plain"), data=st.binary(max_size=5)),
    st.builds(Reasoning, text=texts, provenance=st.just("openai"), signature=texts),
    st.builds(Native, provenance=st.just("openai"), data=st.just('{"type":"compaction"}')),
    st.builds(
        ToolCall,
        call_id=texts.map(CallId),
        name=texts,
        arguments=texts,
        extra=st.sampled_from(["", '{"type":"custom_tool_call"}']),
    ),
    st.builds(ToolResult, call_id=texts.map(CallId), name=texts, text=texts, failed=st.booleans()),
)
messages = st.builds(
    Message,
    role=st.sampled_from(Role),
    parts=st.lists(parts, max_size=4).map(tuple),
    provenance=st.sampled_from(["", "openai"]),
)


@pytest.mark.req("PRV-6")
@given(st.lists(messages, min_size=1, max_size=8))
def test_appending_a_message_changes_no_byte_before_it(history: list[Message]) -> None:
    longer = Request(model="m", system="s", messages=tuple(history))
    shorter = replace(longer, messages=longer.messages[:-1])
    answered = {result.call_id for message in shorter.messages for result in message.results}
    if answered & {call.call_id for call in history[-1].calls}:
        return  # No call is answered before it is made.

    assert encode(longer).startswith(encode(shorter).removesuffix(b"]}"))


@given(st.lists(messages, max_size=8), st.integers(0, 200))
def test_remembered_fragments_change_no_byte(history: list[Message], limit: int) -> None:
    request = Request(model="m", system="s", messages=tuple(history))
    kept = responses.message_cache(READER, limit=limit)

    for _ in range(2):
        assert responses.encode(request, kept) == encode(request)


# --- What comes back ---------------------------------------------------------------------

USAGE = {
    "input_tokens": 50,
    "output_tokens": 7,
    "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 5},
}


@pytest.mark.req("PRV-2")
def test_thoughts_words_and_calls_become_chunks() -> None:
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [
            {"type": "summary_text", "text": "one"},
            {"type": "summary_text", "text": "two"},
        ],
        "encrypted_content": "gAAA",
    }
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "Read"}
    found = decode(
        event("created", response={"status": "in_progress"}),
        event("output_item.added", output_index=0, item={"type": "reasoning", "id": "rs_1"}),
        event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="one"),
        event("reasoning_summary_text.done", output_index=0, summary_index=0, text="one"),
        event("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="two"),
        event("output_item.done", output_index=0, item=thought),
        event("output_item.added", output_index=1, item=text_item("", id="msg_1", content=[])),
        event("output_text.delta", output_index=1, content_index=0, delta="Hel"),
        event("output_text.delta", output_index=1, content_index=0, delta="lo"),
        event("output_text.done", output_index=1, content_index=0, text="Hello"),
        event("output_item.done", output_index=1, item=text_item("Hello", id="msg_1")),
        event("output_item.added", output_index=2, item={**call, "arguments": ""}),
        event("function_call_arguments.delta", output_index=2, delta='{"p"'),
        event("function_call_arguments.delta", output_index=2, delta=" :1}"),
        event("function_call_arguments.done", output_index=2, arguments='{"p" :1}'),
        event("output_item.done", output_index=2, item={**call, "arguments": '{"p" :1}'}),
        event("some.novelty", delta=[1]),
        completed(thought, text_item("Hello", id="msg_1"), call, usage=USAGE),
    )

    assert found == [
        ReasoningChunk(index=0, text="one"),
        ReasoningChunk(index=0, text="\n\ntwo"),
        ReasoningChunk(
            index=0, signature="gAAA", extra='{"id":"rs_1","summary":[3,3],"content":[]}'
        ),
        TextChunk("Hel"),
        TextChunk("lo"),
        TextChunk("", extra='{"item":{"id":"msg_1"}}'),
        CallChunk(index=0, call_id=CallId("c1"), name="Read"),
        CallChunk(index=0, arguments='{"p"'),
        CallChunk(index=0, arguments=" :1}"),
        CallChunk(index=0, extra='{"id":"fc_1"}', complete=True),
        Finished(
            reason=StopReason.TOOL_CALLS,
            usage=Usage(
                input_tokens=50, output_tokens=7, cache_read_tokens=40, cache_write_tokens=5
            ),
        ),
    ]


def sent_back(chunks: list[Chunk]) -> list[Json]:
    return items(assembled(chunks), user("go on"))[:-1]


ITEMS: dict[str, Json] = {
    "thinking in pieces": {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": text} for text in ("a\n\nb", "", "ö")],
        "content": [{"type": "reasoning_text", "text": text} for text in ("x", "y\n\n")],
        "encrypted_content": "g",
        "status": "completed",
    },
    "thinking without words": {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": ""}],
        "encrypted_content": "g",
    },
    "thinking of another make": {
        "type": "reasoning",
        "summary": [{"type": "other", "text": "a", "more": 1}],
        "content": [{"type": "reasoning_text", "text": "b"}],
        "encrypted_content": "g",
    },
    "an answer in pieces": {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "phase": "commentary",
        "content": [
            {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation"}]},
            {"type": "output_text", "text": "b", "annotations": [], "logprobs": [{"token": "b"}]},
        ],
    },
    "a refusal": {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "content": [{"type": "refusal", "refusal": "I will not."}],
    },
    "a call": {
        "type": "function_call",
        "call_id": "c1",
        "name": "a",
        "arguments": "{}",
        "id": "fc_1",
        "namespace": "n",
        "status": "completed",
    },
    "a call with free text": {
        "type": "custom_tool_call",
        "call_id": "c1",
        "name": "a",
        "input": 'say "ä"\n',
        "id": "ctc_1",
    },
    "a search": {"type": "web_search_call", "id": "ws_1", "action": {"query": "cats"}},
    "a picture": {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "output_format": "webp",
        "result": "aGk=",
    },
    "a picture that is none": {"type": "image_generation_call", "id": "ig_1", "result": "not 64"},
    "a compaction": {"type": "compaction", "id": "cmp_1", "encrypted_content": "g"},
    "what a user said": {"type": "message", "role": "user", "content": []},
    "an answer of another make": {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_smell", "smell": "rose"}],
    },
}
LAST = text_item("end", id="msg_9")


@pytest.mark.req("RSN-1")
@each_row("item", ITEMS.values())
def test_every_kind_of_item_is_sent_back_as_it_came(item: Json) -> None:
    added = {**item, "content": [], "status": "in_progress"}
    ways = {
        "whole": whole(output=[item, LAST]),
        "only its end": decode(
            event("output_item.done", output_index=0, item=item),
            event("output_item.done", output_index=1, item=LAST),
            completed(),
        ),
        "only at the end": decode(completed(item, LAST)),
        "announced": decode(
            event("output_item.added", output_index=0, item=added),
            event("output_item.done", output_index=0, item=item),
            completed(item, LAST),
        ),
    }

    for way, chunks in ways.items():
        sent = sent_back(chunks)
        bare = [{name: value for name, value in each.items() if value != []} for each in sent]
        wanted = wire.normal({"input": [item, LAST]})["input"]
        assert wire.normal({"input": bare})["input"] == [
            {name: value for name, value in each.items() if value != []} for each in wanted
        ], way


def test_the_bytes_of_a_block_without_a_common_form_are_kept() -> None:
    raw = b'{"type" : "web_search_call",  "id":"ws_1", "n": 1.50}'
    body = b'{"status":"completed","output":[' + raw + b"," + json.dumps(LAST).encode() + b"]}"
    decoder = responses_decoder("openai")

    message = assembled([*decoder.whole(body), decoder.close()])

    assert raw in encode(Request(model="m", messages=(message,)))


def test_an_answer_of_several_pieces_streams_as_one_item() -> None:
    item = ITEMS["an answer in pieces"]
    found = decode(
        event("output_item.added", output_index=0, item={**item, "content": []}),
        event("output_text.delta", output_index=0, content_index=0, delta="a"),
        event("output_text.delta", output_index=0, content_index=1, delta="b"),
        event("output_item.done", output_index=0, item=item),
        completed(item),
    )

    assert [part.text for part in assembled(found).parts if isinstance(part, Text)] == ["a", "b"]
    [sent] = sent_back(found)
    assert (sent["id"], [piece["text"] for piece in sent["content"]]) == ("msg_1", ["a", "b"])


def test_free_text_streams_as_the_json_of_its_field() -> None:
    item = ITEMS["a call with free text"]
    found = decode(
        event("output_item.added", output_index=0, item={**item, "input": ""}),
        event("custom_tool_call_input.delta", output_index=0, delta='say "'),
        event("custom_tool_call_input.delta", output_index=0, delta='ä"\n'),
        event("custom_tool_call_input.done", output_index=0, input=item["input"]),
        event("output_item.done", output_index=0, item=item),
        completed(item),
    )

    [call] = assembled(found).calls
    assert (call.name, call.decode_arguments()) == ("a", {"input": 'say "ä"\n'})
    assert isinstance(found[-1], Finished)
    assert found[-1].reason is StopReason.TOOL_CALLS


def test_a_search_of_the_server_is_shown_and_kept() -> None:
    begun = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}
    ended = {**begun, "status": "completed", "action": {"type": "search", "query": "cats"}}
    found = decode(
        event("output_item.added", output_index=0, item=begun),
        event("web_search_call.searching", output_index=0, item_id="ws_1"),
        event("output_item.done", output_index=0, item=ended),
        completed(ended),
    )

    kept = Native(provenance="openai", data=json.dumps(ended), note="[web_search: cats]")
    assert found == [
        ServerToolChunk(call_id="ws_1", name="web_search"),
        ServerToolChunk(call_id="ws_1", name="web_search", text="cats", ended=True),
        PartChunk(kept),
        Finished(reason=StopReason.DONE),
    ]


MCP = {"type": "mcp_call", "id": "m", "server_label": "wiki", "name": "ask", "arguments": "{}"}


@each_row(
    ("item", "name", "answer", "note"),
    [
        ({**MCP, "output": "42"}, "wiki.ask", "42", "[wiki.ask: {} → 42]"),
        ({**MCP, "error": {"code": 1}}, "wiki.ask", '{"code":1}', '[wiki.ask: {} → {"code":1}]'),
        (
            {"type": "mcp_list_tools", "server_label": "wiki", "tools": [{"name": "ask"}]},
            "wiki.list_tools",
            "ask",
            "",
        ),
        (
            {"type": "code_interpreter_call", "code": "1\n+1", "outputs": [{"logs": "2"}]},
            "code_interpreter",
            "2",
            "[code_interpreter: 1 +1 → 2]",
        ),
        (
            {"type": "file_search_call", "queries": ["a", "b"], "results": [{"filename": "c"}]},
            "file_search",
            "c",
            "[file_search: a, b → c]",
        ),
        (
            {
                "type": "shell_call",
                "action": {"commands": ["ls", "pwd"]},
                "environment": {"type": "container_auto"},
            },
            "shell",
            "ls\npwd",
            "[shell: ls pwd]",
        ),
        (
            {"type": "custom_tool_call", "name": "x_keyword_search", "input": "cats"},
            "x_keyword_search",
            "cats",
            "[x_keyword_search: cats]",
        ),
        ({"type": "novel_call", "action": "odd", "outputs": "odd"}, "novel", "", "[novel]"),
    ],
)
def test_server_tools_are_described_as_text(item: Json, name: str, answer: str, note: str) -> None:
    start, end, part, finished = whole(output=[item])

    assert isinstance(start, ServerToolChunk)
    assert isinstance(end, ServerToolChunk)
    assert (start.name, end.text, end.ended) == (name, answer, True)
    assert end.failed == ("error" in item)
    assert isinstance(part, PartChunk)
    assert isinstance(part.part, Native)
    assert part.part.note == note
    assert finished == Finished(reason=StopReason.DONE)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "apply_patch_call", "call_id": "c", "operation": {}},
        {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
        {"type": "shell_call", "call_id": "c", "environment": {"type": "local"}},
        {"type": "mcp_approval_request", "id": "a"},
    ],
)
def test_what_the_client_should_run_is_kept_and_not_shown_as_run(item: Json) -> None:
    [part, _] = whole(output=[item])

    assert part == PartChunk(Native(provenance="openai", data=json.dumps(item)))


def test_a_picture_that_was_made_is_a_picture() -> None:
    chunks = whole(output=[ITEMS["a picture"]])

    [picture] = assembled(chunks).parts
    assert isinstance(picture, Image)
    assert (picture.media_type, picture.data) == ("image/webp", b"hi")
    assert [type(chunk) for chunk in chunks[:2]] == [ServerToolChunk, ServerToolChunk]


# --- Servers that leave something out, or say it otherwise -------------------------------


def test_words_that_came_only_at_the_end_of_their_piece_are_not_lost_or_doubled() -> None:
    place = {"output_index": 0, "content_index": 0}
    found = decode(
        event("output_text.done", **place, text="Hello"),
        event("output_item.done", output_index=0, item=text_item("Hello")),
        completed(text_item("Hello")),
    )

    assert found[:-1] == [TextChunk("Hello")]


def test_what_is_missing_of_a_text_is_added_at_its_end() -> None:
    found = decode(
        event("output_text.delta", output_index=0, content_index=0, delta="Hel"),
        event("function_call_arguments.delta", output_index=1, delta="{"),
        completed(
            text_item("Hello"),
            {"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"},
        ),
    )

    message = assembled(found)
    assert [part.text for part in message.parts if isinstance(part, Text)] == ["Hel", "lo"]
    assert message.calls == (ToolCall(call_id=CallId("c1"), name="a", arguments="{}"),)


def test_pieces_that_are_counted_wrongly_are_found_by_their_order() -> None:
    found = decode(
        event("output_item.added", output_index=1, item=text_item("", content=[])),
        event("output_text.delta", output_index=1, content_index=1, delta="Hello"),
        event("output_item.done", output_index=1, item=text_item("Hello", id="msg_1")),
        completed(text_item("Hello", id="msg_1")),
    )

    assert assembled(found).parts == (Text("Hello", '{"item":{"id":"msg_1"}}'),)


def test_items_with_the_same_number_are_separated() -> None:
    found = decode(
        event("output_item.added", output_index=0, item={"type": "reasoning"}),
        event("reasoning_text.delta", output_index=0, content_index=0, delta="hm"),
        event("output_item.done", output_index=0, item=ITEMS["thinking without words"]),
        event("output_item.added", output_index=0, item=text_item("", content=[])),
        event("output_text.delta", output_index=0, content_index=0, delta="a"),
        event("output_item.done", output_index=0, item=text_item("a")),
        completed(ITEMS["thinking without words"], text_item("a")),
    )

    thought, said = assembled(found).parts
    assert isinstance(thought, Reasoning)
    assert (thought.text, thought.signature, said) == ("hm", "g", Text("a"))


@pytest.mark.parametrize("place", [{"item_id": "msg_1"}, {}])
def test_items_without_a_number_are_found_by_their_id_or_alone(place: Json) -> None:
    found = decode(
        event("output_text.delta", **place, delta="Hel"),
        completed(text_item("Hello", id="msg_1"), text_item("!", id="msg_2")),
    )

    assert assembled(found).text == "Hello!"


def test_a_call_without_a_number_is_one_call() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "a"}
    found = decode(
        event("output_item.added", item={**call, "arguments": ""}),
        event("function_call_arguments.delta", item_id="fc_1", delta="{}"),
        event("output_item.done", item={**call, "arguments": "{}"}),
        completed({**call, "arguments": "{}"}),
    )

    assert [(each.call_id, each.arguments) for each in assembled(found).calls] == [("c1", "{}")]


def test_thinking_that_ends_after_the_words_keeps_its_place() -> None:
    thought = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
        "encrypted_content": "g",
    }
    found = decode(
        event("reasoning_text.delta", output_index=0, content_index=0, delta="hm"),
        event("output_text.delta", output_index=1, content_index=0, delta="4"),
        event("output_item.done", output_index=1, item=text_item("4", id="m")),
        event("output_item.done", output_index=0, item=thought),
        completed(thought, text_item("4", id="m")),
    )

    assert [each["type"] for each in sent_back(found)] == ["reasoning", "message"]


def test_thoughts_that_differ_from_their_end_do_not_spoil_what_is_sent_back() -> None:
    item = ITEMS["thinking in pieces"]
    found = decode(
        event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="other"),
        event("output_item.done", output_index=0, item=item),
        event("output_item.done", output_index=1, item=LAST),
        completed(item, LAST),
    )

    sent = sent_back(found)[0]
    assert (sent["summary"], sent["content"]) == (item["summary"], item["content"])


def test_late_fields_of_a_text_that_is_over_make_no_second_text() -> None:
    found = decode(
        event("output_text.delta", output_index=0, content_index=0, delta="a"),
        event("output_text.delta", output_index=1, content_index=0, delta="b"),
        event("output_item.done", output_index=0, item=text_item("a", id="msg_1")),
        event("output_item.done", output_index=1, item=text_item("b", id="msg_2")),
        completed(text_item("a"), text_item("b")),
    )

    assert [part.text for part in assembled(found).parts if isinstance(part, Text)] == ["a", "b"]


def test_the_end_of_a_thought_may_come_after_the_next_began() -> None:
    place = {"output_index": 0}
    found = decode(
        event("reasoning_summary_text.delta", **place, summary_index=0, delta="a"),
        event("reasoning_summary_text.delta", **place, summary_index=1, delta="b"),
        event("reasoning_summary_text.done", **place, summary_index=0, text="a"),
        event("reasoning_summary_text.done", **place, summary_index=1, text="b"),
        event("reasoning_summary_text.done", **place, summary_index=2, text="c"),
        completed(),
    )

    [thought] = assembled(found).parts
    assert isinstance(thought, Reasoning)
    assert thought.text == "a\n\nb\n\nc"


def test_an_empty_answer_keeps_its_fields_and_no_words() -> None:
    found = decode(
        event("output_text.done", output_index=0, content_index=0, text=""),
        event("output_item.done", output_index=0, item=text_item("", id="msg_1")),
        completed(text_item("", id="msg_1")),
    )

    assert found[:-1] == [TextChunk("", extra='{"item":{"id":"msg_1"}}')]


def test_the_steps_of_a_search_are_no_calls_to_be_run() -> None:
    item = {"type": "custom_tool_call", "id": "x_1", "name": "x_keyword_search", "input": "cats"}
    found = decode(
        event("output_item.added", output_index=0, item={**item, "input": ""}),
        event("custom_tool_call_input.delta", output_index=0, delta="cats"),
        event("output_item.done", output_index=0, item=item),
        completed(item),
    )

    assert [type(chunk) for chunk in found] == [
        ServerToolChunk,
        ServerToolChunk,
        PartChunk,
        Finished,
    ]
    assert found[-1] == Finished(reason=StopReason.DONE)


def test_thinking_that_says_and_seals_nothing_is_no_part() -> None:
    assert whole(output=[{"type": "reasoning", "id": "rs_1", "summary": []}]) == [
        Finished(reason=StopReason.DONE)
    ]


def test_the_name_of_an_event_may_stand_outside_of_it() -> None:
    def named(kind: str, **fields: object) -> bytes:
        return f"event: response.{kind}\ndata: {json.dumps(fields)}\n\n".encode()

    found = decode(
        named("output_text.delta", output_index=0, delta="a"),
        named("output_text.done", output_index=0, text="ab"),
        completed(text_item("ab")),
    )

    assert found[:-1] == [TextChunk("a"), TextChunk("b")]


def test_the_end_marker_alone_ends_an_answer() -> None:
    found = decode(event("output_text.delta", output_index=0, delta="a"), b"data: [DONE]\n\n")

    assert found == [TextChunk("a"), Finished(reason=StopReason.DONE)]


# --- How it ends -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("max_output_tokens", StopReason.LENGTH),
        ("content_filter", StopReason.REFUSED),
        (None, StopReason.LENGTH),
    ],
)
def test_an_answer_may_be_cut(why: str | None, reason: StopReason) -> None:
    response = {"status": "incomplete", "incomplete_details": why and {"reason": why}}
    found = decode(event("incomplete", response={**response, "output": []}))

    assert found == [Finished(reason=reason, detail=why or "")]


def test_a_refusal_is_text_and_a_reason() -> None:
    place = {"output_index": 0, "content_index": 0}
    streamed = decode(
        event("refusal.delta", **place, delta="I will "),
        event("refusal.delta", **place, delta="not."),
        event("refusal.done", **place, refusal="I will not."),
        event("output_item.done", output_index=0, item=ITEMS["a refusal"]),
        completed(ITEMS["a refusal"]),
    )

    for found in (streamed, whole(output=[ITEMS["a refusal"]])):
        assert assembled(found).text == "I will not."
        assert found[-1] == Finished(reason=StopReason.REFUSED, detail="I will not.")


@pytest.mark.req("PRV-7")
@pytest.mark.parametrize(
    ("said", "cost"),
    [({"cost": 0.25}, 0.25), ({"cost_in_usd_ticks": 37_756_000}, 0.0037756), ({}, None)],
)
def test_a_server_may_tell_what_it_cost(said: Json, cost: float | None) -> None:
    end = decode(completed(usage={"input_tokens": 1, "output_tokens": 2, **said}))[-1]

    assert isinstance(end, Finished)
    assert end.cost == cost
    assert end.usage == Usage(input_tokens=1, output_tokens=2)


def test_an_answer_that_just_stops_is_broken() -> None:
    with pytest.raises(StreamBroken, match="before the response was complete"):
        decode(event("output_text.delta", output_index=0, delta="a"))


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"choices": []}'])
def test_an_invalid_response_is_a_broken_stream(body: bytes) -> None:
    with pytest.raises(StreamBroken, match="base URL"):
        responses_decoder("openai").whole(body)


def test_an_invalid_event_is_a_broken_stream() -> None:
    with pytest.raises(StreamBroken, match="base URL"):
        decode(b"data: <html>\n\n")


def test_an_answer_that_is_made_in_the_background_is_refused() -> None:
    with pytest.raises(ProviderRejected, match="background"):
        whole(status="queued", output=[])


@pytest.mark.req("PRV-4")
@each_row(
    ("error", "kind"),
    [
        ({"code": "context_length_exceeded", "message": "x"}, ContextOverflow),
        ({"code": "rate_limit_exceeded", "message": "x"}, ProviderBusy),
        ({"code": "server_error", "message": "x"}, ProviderBusy),
        ({"code": "server_is_overloaded", "message": "x"}, ProviderBusy),
        ({"code": 503, "message": "x"}, ProviderBusy),
        ({"code": "insufficient_quota", "message": "x"}, ProviderDenied),
        ({"code": "invalid_encrypted_content", "message": "x"}, SignatureRejected),
        ({"code": "invalid_prompt", "message": "x"}, ProviderRejected),
        (None, ProviderRejected),
    ],
)
def test_a_failure_is_raised_however_it_is_told(error: Json | None, kind: type[Exception]) -> None:
    failed: Json = {"status": "failed", "error": error, "output": []}
    streams = [event("failed", response=failed)]
    if error:
        bare = b"data: " + json.dumps({"error": error}).encode() + b"\n\n"
        streams += [event("error", error=error), event("error", **error), bare]

    for stream in streams:
        with pytest.raises(kind) as caught:
            decode(stream)
        assert type(caught.value) is kind
    with pytest.raises(kind):
        whole(**failed)


replies = st.builds(
    ModelReply,
    thoughts=st.lists(texts.filter(bool), max_size=3).map(tuple),
    signature=st.sampled_from(["", "gAAA"]),
    words=st.lists(texts.filter(bool), max_size=4).map(tuple),
    calls=st.lists(
        st.builds(ToolCall, call_id=st.uuids().map(str).map(CallId), name=st.just("a")), max_size=2
    ).map(tuple),
)


@pytest.mark.req("PRV-2")
@given(replies, st.lists(st.integers(0, 10_000), max_size=30))
def test_a_stream_reads_the_same_however_it_is_cut(reply: ModelReply, cuts: list[int]) -> None:
    raw = b"".join(FakeResponsesApi().stream(reply))
    places = sorted({0, len(raw), *(cut % len(raw) for cut in cuts)})
    decoder = responses_decoder("openai")
    at_once = [*decoder.whole(FakeResponsesApi().whole(reply)), decoder.close()]

    found = decode(*(raw[a:b] for a, b in pairwise(places)))

    assert found == decode(raw)
    assert assembled(found) == assembled(at_once)


# --- Recorded bodies ---------------------------------------------------------------------


def test_a_recorded_request_is_read_into_typed_parts() -> None:
    body = {
        "model": "m",
        "instructions": "Be brief.",
        "max_output_tokens": 9,
        "temperature": 0.5,
        "prompt_cache_key": "k",
        "store": False,
        "tools": [
            {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True},
            {"type": "custom", "name": "g", "description": "G."},
            {"type": "web_search"},
        ],
        "input": [
            {"role": "developer", "content": "Mind the gap."},
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "see"},
                    {
                        "type": "input_image",
                        "image_url": "data:image/gif;base64,aGk=",
                        "detail": "low",
                    },
                    {"type": "input_file", "file_id": "file_1"},
                ],
            },
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g"},
            {"role": "assistant", "content": "ok"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "done"},
            {"type": "mcp_approval_response", "approve": True, "approval_request_id": "a"},
        ],
    }
    request = parse_request(json.dumps(body).encode(), provenance="openai")

    assert (request.system, request.max_output_tokens, request.temperature) == ("Be brief.", 9, 0.5)
    assert (request.cache_key, request.options) == ("k", {"store": False})
    assert request.native_tools == ({"type": "web_search"},)
    assert [(tool.name, tool.extra) for tool in request.tools] == [
        ("f", {"strict": True}),
        ("g", {"type": "custom"}),
    ]
    told, seen, answer, result, approval = request.messages
    assert told == Message(
        role=Role.USER,
        parts=(Text("Mind the gap.", '{"item":{"role":"developer"}}'),),
        provenance="openai",
    )
    assert seen.parts == (
        Text("see"),
        Image(media_type="image/gif", data=b"hi", extra='{"detail":"low"}'),
        Native(provenance="openai", data='{"type":"input_file","file_id":"file_1"}'),
    )
    assert answer.parts == (
        Reasoning(provenance="openai", signature="g", extra='{"id":"rs_1"}'),
        Text("ok"),
        ToolCall(call_id=CallId("c"), name="f"),
    )
    assert result == tool_result(answer.calls[0], "done")
    assert isinstance(approval.parts[0], Native)
    again = json.loads(encode(request, streaming=False, defaults={}))
    assert wire.normal(again) == wire.normal(body)


def test_a_recorded_result_of_odd_make_is_kept_beside_its_text() -> None:
    output = [
        {"type": "input_image", "image_url": "u", "detail": "low"},
        {"type": "input_text", "text": "a"},
    ]
    body = {
        "model": "m",
        "input": [{"type": "custom_tool_call_output", "call_id": "c", "output": output}],
    }
    request = parse_request(json.dumps(body).encode(), provenance="openai")

    [result] = request.messages[0].results
    assert (result.text, result.images) == ("a", (Image(url="u"),))
    assert json.loads(encode(request, streaming=False, defaults={})) == body


@pytest.mark.parametrize("held", ["aGk", "aGl=", "a b="])
def test_a_recorded_picture_or_file_in_odd_spelling_keeps_it(held: str) -> None:
    url = f"data:image/png;base64,{held}"
    content = [
        {"type": "input_image", "image_url": url},
        {"type": "input_file", "filename": "a", "file_data": url},
        {"type": "input_file", "file_url": "https://a.org/b.pdf"},
    ]
    odd = {"role": "developer", "content": [{"type": "input_file", "file_id": "f"}]}
    body = {"model": "m", "input": [{"role": "user", "content": content}, odd]}
    request = parse_request(json.dumps(body).encode(), provenance="openai")

    assert json.loads(encode(request, streaming=False, defaults={})) == body


@pytest.mark.parametrize("body", [b"no", b"[]", b'{"input": 1}'])
def test_a_body_that_is_no_request_is_told_as_such(body: bytes) -> None:
    with pytest.raises(ValueError, match="not a request"):
        parse_request(body, provenance="openai")


def recorded() -> list[Record]:
    return [record for record in records() if record["api"] in wire.APIS]


def read(record: Record) -> list[Chunk]:
    body = record["response_text"].encode()
    if record["stream"]:
        return decode(body)
    decoder = responses_decoder("openai")
    return [*decoder.whole(body), decoder.close()]


@pytest.mark.skipif(not PRESENT, reason="the recordings are not here")
@pytest.mark.req("PRV-1", "RSN-1")
def test_every_recorded_request_is_written_again_as_it_was() -> None:
    found = recorded()
    sealed = [record for record in found if key(record) in round_trips()]

    for record in found:
        body = record["request"]
        again = wire.encode_again(body, streaming=bool(body.get("stream")))
        assert wire.normal(again) == wire.normal(body)
    assert all('"encrypted_content"' in json.dumps(record["request"]) for record in sealed)
    sys.stdout.write(f"{len(found)} requests, {len(sealed)} of them with sealed thinking\n")
    assert (len(found), len(sealed)) == (684, 81)


@pytest.mark.skipif(not PRESENT, reason="the recordings are not here")
@pytest.mark.req("PRV-2")
def test_every_recorded_answer_is_read() -> None:
    answers = [record for record in recorded() if record["status"] == 200]
    failed: list[str] = []
    for record in answers:
        try:
            read(record)
        except ProviderError as error:
            failed.append(str(error))

    sys.stdout.write(f"{len(answers) - len(failed)}/{len(answers)} answers\n")
    assert len(answers) == 672
    assert len(failed) == 5
    assert all("background" in each for each in failed)


@pytest.mark.skipif(not PRESENT, reason="the recordings are not here")
@pytest.mark.req("RSN-1")
def test_what_a_recorded_stream_sealed_is_sent_back() -> None:
    sealed = 0
    for record in recorded():
        if not record["stream"]:
            continue
        sent = encode(Request(model="m", messages=(assembled(read(record)),))).decode()
        for line in record["response_text"].splitlines():
            if '"response.output_item.done"' in line:
                item = json.loads(line.removeprefix("data:"))["item"]
                if token := item.get("encrypted_content"):
                    sealed += 1
                    assert token in sent

    assert sealed == 40
