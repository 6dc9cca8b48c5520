import gzip
import json
import random
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningPolicy, ReasoningReader
from clew.core.errors import (
    ContextOverflow,
    ProviderBusy,
    ProviderError,
    ProviderRejected,
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
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    ReasoningChunk,
    Request,
    StopReason,
    TextChunk,
)
from clew.providers.sse import EventParser
from clew.providers.wire.chat import encode as chat
from clew.providers.wire.chat.decode import chat_decoder
from clew.providers.wire.chat.dialect import Dialect, DocumentField, ReasoningField

DATA = Path(__file__).parents[3] / "shared" / "data" / "wire_records.jsonl.gz"
READ = ToolCall(call_id=CallId("c1"), name="Read", arguments='{"path" : "a\\n.py"}')


READER = ReasoningReader("host")
SEALING = ReasoningReader("host", Echoes.OWN_ISSUED)
GRATEFUL = ReasoningReader("host", Echoes.TOOL_USE_ONLY)
USED = ReasoningPolicy(tools_used=True)


def encode(
    request: Request, dialect: Dialect = chat.PLAIN, reader: ReasoningReader = READER
) -> bytes:
    return chat.encode(request, chat.message_cache(reader, dialect), dialect=dialect)


def sent(
    *messages: Message, dialect: Dialect = chat.PLAIN, reader: ReasoningReader = READER
) -> list[dict[str, Any]]:
    request = Request(model="m", messages=messages, reasoning=USED)
    found: list[dict[str, Any]] = json.loads(encode(request, dialect, reader))["messages"]
    return found


def own(role: Role, *parts: Part) -> Message:
    return Message(role=role, parts=parts, provenance="host")


def decode(*chunks: bytes) -> list[Chunk]:
    parser, decoder = EventParser(), chat_decoder("host")
    found = [
        piece for data in chunks for event in parser.feed(data) for piece in decoder.feed(event)
    ]
    found += [piece for event in parser.close() for piece in decoder.feed(event)]
    return [*found, decoder.close()]


def event(**payload: object) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def delta(finish_reason: str | None = None, **fields: object) -> bytes:
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": finish_reason}])


def call_delta(index: int | None, arguments: str, **fields: object) -> dict[str, object]:
    function = {"name": fields.pop("name", None), "arguments": arguments}
    return {"index": index, "function": function, **fields}


DONE = b"data: [DONE]\n\n"


@pytest.mark.req("PRV-1")
def test_the_exact_body_of_a_request_with_everything_in_it() -> None:
    request = Request(
        model="m",
        system="Be brief.",
        tools=(ToolSpec(name="Read", description="Reads.", schema={"type": "object"}),),
        max_output_tokens=100,
        temperature=0.5,
        messages=(
            user("look", Image(data=b"png"), Image(url="https://example.org/a.png")),
            assistant(Reasoning(text="hm", signature="s"), "I read.", READ),
            tool_result(READ, "gone", failed=True),
            assistant(READ),
            tool_result(READ, "Error: gone", failed=True),
            assistant(Reasoning(text="only a thought")),
            assistant("no"),
            user("why?"),
        ),
    )

    assert encode(request).decode() == (
        '{"model":"m","stream":true,"stream_options":{"include_usage":true},'
        '"max_tokens":100,"temperature":0.5,'
        '"tools":[{"type":"function","function":'
        '{"name":"Read","description":"Reads.","parameters":{"type":"object"}}}],'
        '"messages":[{"role":"system","content":"Be brief."},'
        '{"role":"user","content":[{"type":"text","text":"look"},'
        '{"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}},'
        '{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}]},'
        '{"role":"assistant","content":"I read.","tool_calls":[{"id":"c1","type":"function",'
        '"function":{"name":"Read","arguments":"{\\"path\\" : \\"a\\\\n.py\\"}"}}]},'
        '{"role":"tool","tool_call_id":"c1","content":"Error: gone"},'
        '{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",'
        '"function":{"name":"Read","arguments":"{\\"path\\" : \\"a\\\\n.py\\"}"}}]},'
        '{"role":"tool","tool_call_id":"c1","content":"Error: gone"},'
        '{"role":"assistant","content":"no"},'
        '{"role":"user","content":"why?"}]}'
    )


def test_a_minimal_request_has_no_extra_fields() -> None:
    body = encode(Request(model="m", messages=(user("hi"),)))

    assert body == (
        b'{"model":"m","stream":true,"stream_options":{"include_usage":true},'
        b'"messages":[{"role":"user","content":"hi"}]}'
    )


def test_the_limit_goes_by_the_name_the_server_knows() -> None:
    request = Request(model="m", messages=(), max_output_tokens=5, cache_key="k")
    dialect = Dialect(limit_field="max_completion_tokens", key_field="prompt_cache_key")

    assert json.loads(encode(request, dialect)) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 5,
        "prompt_cache_key": "k",
        "messages": [],
    }
    assert b"stream_options" not in encode(request, Dialect(stream_usage=False))
    assert b"prompt_cache_key" not in encode(request)


def test_results_in_one_message_become_one_tool_message_each() -> None:
    results = tuple(
        ToolResult(call_id=CallId(name), name="Read", text=name, images=images)
        for name, images in (("a", ()), ("b", (Image(data=b"x"),)))
    )
    found = sent(Message(role=Role.TOOL, parts=results))

    assert [(each["role"], each["tool_call_id"]) for each in found] == [
        ("tool", "a"),
        ("tool", "b"),
    ]
    assert found[1]["content"] == "b\n[A picture (image/png) that cannot be shown here.]"

    shown = sent(Message(role=Role.TOOL, parts=results), dialect=Dialect(result_images=True))
    assert shown[1]["content"] == [
        {"type": "text", "text": "b"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
    ]


def test_files_go_as_their_kind_asks_for() -> None:
    files = (
        File(media_type="audio/mpeg", data=b"mp3"),
        File(media_type="video/mp4", url="https://example.org/a.mp4"),
        File(media_type="application/pdf", data=b"pdf", name="a.pdf"),
    )
    sound = {"type": "input_audio", "input_audio": {"data": "bXAz", "format": "mp3"}}
    film = {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}}
    address = "data:application/pdf;base64,cGRm"

    asked = Message(role=Role.USER, parts=files)

    assert sent(asked)[0]["content"] == [
        sound,
        film,
        {"type": "file", "file": {"filename": "a.pdf", "file_data": address}},
    ]
    assert sent(asked, dialect=Dialect(documents=DocumentField.ADDRESS))[0]["content"] == [
        sound,
        film,
        {"type": "document_url", "document_url": address, "document_name": "a.pdf"},
    ]


def test_several_texts_stay_apart() -> None:
    asked = Message(role=Role.USER, parts=(Text("one"), Text("two")))

    assert sent(asked)[0]["content"] == [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
    ]
    assert sent(asked, dialect=Dialect(text_lists=False))[0]["content"] == "one\n\ntwo"


@pytest.mark.req("PRV-1")
def test_separate_texts_of_the_assistant_stay_separate() -> None:
    call = ToolCall(call_id=CallId("c1"), name="f")
    message = assistant("Let me look", call, "I found it.", "Anything else?")

    assert sent(message)[0]["content"] == "Let me look\n\nI found it.\n\nAnything else?"


def test_a_note_replaces_an_image_of_the_assistant() -> None:
    drawn = assistant("Here: ", Image(media_type="image/webp", data=b"x"))

    assert sent(drawn) == [
        {
            "role": "assistant",
            "content": "Here: [A picture (image/webp) that cannot be shown here.]",
        }
    ]


def test_pieces_of_an_answer_that_only_its_host_knows_go_back() -> None:
    answer = own(
        Role.ASSISTANT,
        Text("see"),
        Native(provenance="host", data='{"type":"reference","ids":[1]}'),
    )

    assert sent(answer)[0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "reference", "ids": [1]},
    ]


@pytest.mark.req("RSN-1")
def test_private_fields_go_back_where_they_stood() -> None:
    call = replace(READ, extra='{"extra_content":{"google":{"thought_signature":"s=="}}}')
    asked = own(
        Role.USER,
        Text("hi", extra='{"cache_control":{"type":"ephemeral"},"message":{"name":"ann"}}'),
        Image(url="u", extra='{"image_url":{"detail":"low"}}'),
        Native(provenance="host", data='{"type":"odd",  "x":1}'),
    )
    native = Native(provenance="host", data='{"role":"developer","content":"Now in French."}')

    found = sent(asked, own(Role.USER, native), own(Role.ASSISTANT, call))

    assert found == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
                {"type": "odd", "x": 1},
            ],
            "name": "ann",
        },
        {"role": "developer", "content": "Now in French."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "Read", "arguments": READ.arguments},
                    "extra_content": {"google": {"thought_signature": "s=="}},
                }
            ],
        },
    ]
    assert b'{"type":"odd",  "x":1}' in encode(Request(model="m", messages=(asked,)))


def test_a_tools_private_fields_go_where_the_api_has_them() -> None:
    spec = ToolSpec(
        name="Read",
        description="Reads.",
        schema={"type": "object"},
        extra={"strict": True, "cache_control": {"type": "ephemeral"}},
    )
    search = {"type": "openrouter:web_search"}
    request = Request(model="m", messages=(), tools=(spec,), native_tools=(search,))

    assert json.loads(encode(request))["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "Read",
                "description": "Reads.",
                "parameters": {"type": "object"},
                "strict": True,
            },
            "cache_control": {"type": "ephemeral"},
        },
        search,
    ]


@pytest.mark.req("RSN-1", "RSN-2")
@pytest.mark.parametrize(
    ("reasoning", "fields"),
    [
        (ReasoningField.CONTENT, {"content": "yes", "reasoning_content": "hm"}),
        (ReasoningField.REASONING, {"content": "yes", "reasoning": "hm"}),
        (
            ReasoningField.PARTS,
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "yes"},
                ]
            },
        ),
    ],
)
def test_thinking_goes_back_where_the_server_wants_it(
    reasoning: ReasoningField, fields: dict[str, object]
) -> None:
    answer = assistant(Reasoning(text="hm", provenance="host"), "yes")
    dialect = Dialect(reasoning=reasoning)

    assert sent(answer, dialect=dialect, reader=GRATEFUL) == [{"role": "assistant", **fields}]
    assert sent(answer, dialect=dialect) == [{"role": "assistant", "content": "yes"}]


@pytest.mark.req("RSN-1")
def test_sealed_thinking_goes_back_byte_for_byte() -> None:
    seal = '[{"type":"reasoning.encrypted", "data":"gAA=="}]'
    thought = Reasoning(text="hm", provenance="host", signature=seal)
    request = Request(model="m", messages=(assistant(thought, READ),))

    assert f'"reasoning_details":{seal}'.encode() in encode(request, reader=SEALING)
    assert b"gAA==" not in encode(request)


def test_every_answer_has_the_field_where_the_server_insists() -> None:
    dialect = Dialect(reasoning=ReasoningField.CONTENT, always_reasoning=True)

    found = sent(assistant(READ), assistant("yes"), dialect=dialect, reader=GRATEFUL)

    assert [each["reasoning_content"] for each in found] == ["", ""]


MARK = {"type": "ephemeral"}


@pytest.mark.req("PRV-6")
def test_cache_marks_are_set_where_the_model_needs_them() -> None:
    dialect = Dialect(cache_control_models=("anthropic/",), result_images=True)
    request = Request(
        model="anthropic/claude",
        system="s",
        messages=(user("a"), assistant(READ), tool_result(READ, "b"), user("c"), assistant(READ)),
        settled=2,
    )

    found = json.loads(encode(request, dialect))["messages"]

    def text(words: str) -> list[dict[str, object]]:
        return [{"type": "text", "text": words, "cache_control": MARK}]

    # Neither the settled part nor the whole ends with words, so the words before are marked.
    assert [each["content"] for each in found] == [text("s"), text("a"), None, "b", text("c"), None]
    plain = encode(replace(request, model="google/gemini"), dialect)
    assert b"cache_control" not in plain
    assert plain == encode(replace(request, model="google/gemini"))


@pytest.mark.req("PRV-6")
def test_a_cache_mark_is_not_remembered() -> None:
    dialect = Dialect(cache_control_models=("a/",))
    kept = chat.message_cache(READER, dialect)
    first = Request(model="a/b", messages=(user("a"),))
    chat.encode(first, kept, dialect=dialect)

    longer = replace(first, messages=(*first.messages, user("b")))
    found = json.loads(chat.encode(longer, kept, dialect=dialect))["messages"]

    assert [each["content"] for each in found] == [
        "a",
        [{"type": "text", "text": "b", "cache_control": MARK}],
    ]


texts = st.text(max_size=20)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts),
    st.builds(Image, data=st.binary(max_size=5)),
    st.builds(Reasoning, text=texts),
    st.builds(ToolCall, call_id=texts.map(CallId), name=texts, arguments=texts),
    st.builds(ToolResult, call_id=texts.map(CallId), name=texts, text=texts, failed=st.booleans()),
)
messages = st.builds(
    Message, role=st.sampled_from(Role), parts=st.lists(parts, max_size=4).map(tuple)
)


@pytest.mark.req("PRV-6")
@given(st.lists(messages, min_size=1, max_size=8))
def test_appending_a_message_changes_no_byte_before_it(history: list[Message]) -> None:
    longer = Request(model="m", system="s", messages=tuple(history))
    shorter = replace(longer, messages=longer.messages[:-1])

    assert encode(longer) == encode(longer)
    assert encode(longer).startswith(encode(shorter).removesuffix(b"]}"))


@given(st.lists(messages, max_size=8), st.integers(0, 200))
def test_remembered_fragments_change_no_byte(history: list[Message], limit: int) -> None:
    request = Request(model="m", system="s", messages=tuple(history))
    kept = chat.message_cache(READER, limit=limit)

    for _ in range(2):
        assert chat.encode(request, kept) == encode(request)


@pytest.mark.req("PRV-2")
def test_text_thoughts_and_usage_become_chunks() -> None:
    found = decode(
        delta(role="assistant", content=""),
        delta(reasoning_content="hm"),
        delta(reasoning="so"),
        delta(content="Hel"),
        delta(content="lo"),
        delta("stop"),
        event(
            choices=[],
            usage={
                "prompt_tokens": 50,
                "completion_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 40},
            },
        ),
        DONE,
    )

    assert found == [
        ReasoningChunk(index=0, text="hm"),
        ReasoningChunk(index=0, text="so"),
        TextChunk("Hel"),
        TextChunk("lo"),
        Finished(
            reason=StopReason.DONE,
            usage=Usage(input_tokens=50, output_tokens=7, cache_read_tokens=40),
        ),
    ]


def test_usage_may_come_in_the_chunk_that_ends_the_answer() -> None:
    last = event(
        choices=[{"index": 0, "delta": {}, "finish_reason": "length"}],
        usage={"prompt_tokens": 3, "completion_tokens": 4, "prompt_cache_hit_tokens": 2},
    )

    assert decode(last) == [
        Finished(
            reason=StopReason.LENGTH,
            usage=Usage(input_tokens=3, output_tokens=4, cache_read_tokens=2),
        )
    ]


@pytest.mark.req("PRV-2")
def test_the_pieces_of_a_call_keep_their_bytes_and_place() -> None:
    found = decode(
        delta(tool_calls=[call_delta(0, "", id="a", name="Read")]),
        delta(tool_calls=[call_delta(0, '{"p": ')]),
        delta(tool_calls=[call_delta(1, "{}", id="b", name="List")]),
        delta(tool_calls=[call_delta(0, "1}")]),
        delta("tool_calls"),
        DONE,
    )

    assert found == [
        CallChunk(index=0, call_id=CallId("a"), name="Read"),
        CallChunk(index=0, arguments='{"p": '),
        CallChunk(index=1, call_id=CallId("b"), name="List", arguments="{}"),
        CallChunk(index=0, arguments="1}"),
        CallChunk(index=0, complete=True),
        CallChunk(index=1, complete=True),
        Finished(reason=StopReason.TOOL_CALLS),
    ]


@pytest.mark.parametrize("index", [0, None])
def test_calls_with_the_same_index_are_separated_by_id(index: int | None) -> None:
    found = decode(
        delta(tool_calls=[call_delta(index, "{", id="a", name="Read")]),
        delta(tool_calls=[call_delta(index, "}")]),
        delta(tool_calls=[call_delta(index, "{}", id="b", name="List")]),
        delta("stop"),
        DONE,
    )

    assert found == [
        CallChunk(index=0, call_id=CallId("a"), name="Read", arguments="{"),
        CallChunk(index=0, arguments="}"),
        CallChunk(index=1, call_id=CallId("b"), name="List", arguments="{}"),
        CallChunk(index=0, complete=True),
        CallChunk(index=1, complete=True),
        Finished(reason=StopReason.TOOL_CALLS),
    ]


def test_an_id_or_name_that_is_repeated_goes_out_once() -> None:
    again = delta(tool_calls=[call_delta(0, "x", id="a", name="Read")])

    assert decode(again, again, DONE)[:2] == [
        CallChunk(index=0, call_id=CallId("a"), name="Read", arguments="x"),
        CallChunk(index=0, arguments="x"),
    ]


def test_a_refusal_is_text_and_a_reason() -> None:
    assert decode(delta(refusal="I will not."), delta("stop"), DONE) == [
        TextChunk("I will not."),
        Finished(reason=StopReason.REFUSED, detail="I will not."),
    ]
    assert decode(delta("content_filter")) == [Finished(reason=StopReason.REFUSED)]


def test_content_parts_are_separated_from_reasoning() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}

    found = decode(delta("stop", content=[thinking, {"type": "text", "text": "yes"}]))

    assert found[:2] == [ReasoningChunk(index=0, text="hm"), TextChunk("yes")]


def test_the_end_marker_alone_ends_an_answer() -> None:
    assert decode(delta(content="a"), DONE) == [TextChunk("a"), Finished(reason=StopReason.DONE)]


def test_an_answer_that_just_stops_is_broken() -> None:
    with pytest.raises(StreamBroken, match="before the response was complete"):
        decode(delta(content="a"))


def test_an_invalid_chunk_is_a_broken_stream() -> None:
    with pytest.raises(StreamBroken, match="base URL"):
        decode(b"data: <html>\n\n")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "no", "status_code": 400}, ProviderRejected),
        ({"message": "later", "code": 503}, ProviderBusy),
        ({"message": "later", "type": "overloaded_error"}, ProviderBusy),
        ({"message": "x", "code": "context_length_exceeded"}, ContextOverflow),
        ("plain words", ProviderRejected),
    ],
)
def test_an_error_among_the_events_is_raised(error: object, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        decode(event(error=error))


def outcome(*chunks: bytes) -> tuple[list[Chunk], str]:
    try:
        return decode(*chunks), ""
    except ProviderError as error:
        return [], f"{type(error).__name__}: {error}"


def recorded() -> list[bytes]:
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [
        record["response_text"].encode()
        for record in records
        if record["api"] == "openai.chat" and record["stream"] and record["status"] == 200
    ]


@pytest.mark.skipif(not DATA.exists(), reason="the recordings are not here")
@pytest.mark.req("PRV-2")
@pytest.mark.slow("reads large recordings")
def test_every_recorded_stream_reads_the_same_however_it_is_cut() -> None:
    streams = recorded()
    dice = random.Random(7)
    passed = failed = 0
    for raw in streams:
        whole = outcome(raw)
        places = sorted({0, len(raw), *dice.choices(range(len(raw)), k=50)})
        assert outcome(*(raw[a:b] for a, b in pairwise(places))) == whole
        passed += not whole[1]
        failed += bool(whole[1])

    sys.stdout.write(f"{passed + failed}/{len(streams)} streams, {failed} of them errors\n")
    assert len(streams) == 291
    assert failed == 2
