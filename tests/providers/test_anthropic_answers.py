"""What the answers of the Messages API become."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningReader
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
    Message,
    Native,
    Reasoning,
    Text,
    user,
)
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
    UsageChunk,
)
from clew.providers.sse import EventParser
from clew.providers.wire.anthropic import encode as wire
from clew.providers.wire.anthropic.decode import messages_decoder
from tests.rows import each_row

SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
DONE = Finished(reason=StopReason.DONE)


def event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def start(block: dict[str, Any], index: int = 0) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def grow(index: int = 0, **delta: object) -> bytes:
    return event("content_block_delta", index=index, delta=delta)


def stop(index: int = 0) -> bytes:
    return event("content_block_stop", index=index)


def end(reason: str = "end_turn", usage: object = None, **details: object) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None, **details}
    return event("message_delta", delta=delta, usage=usage) + event("message_stop")


def decode(*pieces: bytes) -> list[Chunk]:
    parser, decoder = EventParser(), messages_decoder("anthropic")
    found = [c for piece in pieces for one in parser.feed(piece) for c in decoder.feed(one)]
    found += [c for one in parser.close() for c in decoder.feed(one)]
    return [*found, decoder.close()]


def whole(content: list[Any], reason: str = "end_turn", **fields: object) -> list[Chunk]:
    decoder = messages_decoder("anthropic")
    answer = {"type": "message", "content": content, "stop_reason": reason, **fields}
    found = decoder.whole(json.dumps(answer).encode())
    assert decoder.done
    return [*found, decoder.close()]


def assembled(chunks: Sequence[Chunk]) -> Message:
    assembly = MessageBuilder(provenance="anthropic")
    for chunk in chunks:
        assembly.add(chunk)
    return assembly.message()


@pytest.mark.req("PRV-2")
def test_cache_writes_for_an_hour_are_counted_apart() -> None:
    counts = {"input_tokens": 3, "cache_creation_input_tokens": 70}
    lifetimes = {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 50}
    found = decode(
        event("message_start", message={"usage": {**counts, "cache_creation": lifetimes}}),
        end(usage={**counts, "output_tokens": 9}),
    )[-1]

    assert isinstance(found, Finished)
    assert found.usage == Usage(
        input_tokens=73, output_tokens=9, cache_write_tokens=70, cache_write_1h_tokens=50
    )


@pytest.mark.req("PRV-2", "RSN-1")
def test_thoughts_words_and_usage_become_chunks() -> None:
    counts = {
        "input_tokens": 3,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 7,
        "output_tokens": 1,
    }
    first = Usage(input_tokens=50, output_tokens=1, cache_read_tokens=40, cache_write_tokens=7)
    last = replace(first, output_tokens=9)

    assert decode(
        event("message_start", message={"usage": counts, "content": []}),
        start({"type": "thinking", "thinking": "", "signature": ""}),
        event("ping"),
        grow(type="thinking_delta", thinking="h"),
        grow(type="thinking_delta", thinking="m"),
        grow(type="signature_delta", signature="si"),
        grow(type="signature_delta", signature="g"),
        stop(),
        start({"type": "redacted_thinking", "data": "xyz"}, 1),
        stop(1),
        start({"type": "text", "text": ""}, 2),
        grow(2, type="text_delta", text="Hel"),
        grow(2, type="text_delta", text="lo"),
        stop(2),
        end(usage={"output_tokens": 9}),
    ) == [
        UsageChunk(first),
        ReasoningChunk(index=0, text="h"),
        ReasoningChunk(index=0, text="m"),
        ReasoningChunk(index=0, signature="si"),
        ReasoningChunk(index=0, signature="g"),
        ReasoningChunk(index=1, redacted="xyz"),
        TextChunk("Hel", 2),
        TextChunk("lo", 2),
        UsageChunk(last),
        Finished(reason=StopReason.DONE, usage=last),
    ]


def test_usage_is_reported_again_at_the_end() -> None:
    begun = event("message_start", message={"usage": {"input_tokens": 60, "output_tokens": 1}})

    compacted = decode(begun, end(usage={"input_tokens": 6, "output_tokens": 2}))
    silent = decode(begun, end(usage={"input_tokens": 0, "output_tokens": 2}))

    assert compacted[-1] == Finished(
        reason=StopReason.DONE, usage=Usage(input_tokens=6, output_tokens=2)
    )
    assert silent[-1] == Finished(
        reason=StopReason.DONE, usage=Usage(input_tokens=60, output_tokens=2)
    )


@pytest.mark.req("PRV-2")
def test_a_call_keeps_its_bytes_and_says_when_it_is_over() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "Read", "input": {}}

    assert decode(
        start({**call, "caller": {"type": "direct"}}),
        grow(type="input_json_delta", partial_json=""),
        grow(type="input_json_delta", partial_json='{"p": '),
        grow(type="input_json_delta", partial_json="1.0}"),
        stop(),
        start({**call, "id": "c2"}, 1),
        stop(1),
        end("tool_use"),
    ) == [
        CallChunk(
            index=0,
            call_id=CallId("c1"),
            name="Read",
            extra='{"caller":{"type": "direct"}}',
        ),
        CallChunk(index=0, arguments='{"p": '),
        CallChunk(index=0, arguments="1.0}"),
        CallChunk(index=0, complete=True),
        CallChunk(index=1, call_id=CallId("c2"), name="Read"),
        CallChunk(index=1, arguments="{}", complete=True),
        Finished(reason=StopReason.TOOL_CALLS),
    ]


def test_where_words_were_found_is_kept_beside_them() -> None:
    found = decode(
        start({"type": "text", "text": "", "citations": []}),
        grow(type="text_delta", text="so"),
        grow(type="citations_delta", citation={"encrypted_index": "E/+="}),
        grow(type="citations_delta", citation={"n": 2}),
        stop(),
        start({"type": "text", "text": "", "citations": None}, 1),
        grow(1, type="text_delta", text="x"),
        stop(1),
        end(),
    )

    extra = '{"citations":[{"encrypted_index": "E/+="},{"n": 2}]}'
    assert assembled(found).parts == (Text("so", extra), Text("x"))


@pytest.mark.req("PRV-5")
def test_tools_of_the_provider_are_shown_and_kept_as_they_came() -> None:
    result = {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [
            {
                "type": "web_search_result",
                "title": "T",
                "url": "u",
                "encrypted_content": "E==",
            }
        ],
    }
    found = decode(
        start({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
        grow(type="input_json_delta", partial_json='{"query":'),
        grow(type="input_json_delta", partial_json=' "clew"}'),
        stop(),
        start(result, 1),
        stop(1),
        end(),
    )

    asked = '{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query": "clew"}}'
    assert found == [
        ServerToolChunk(call_id="s1", name="web_search", text="clew"),
        PartChunk(Native(provenance="anthropic", data=asked, note="[web_search: clew]")),
        ServerToolChunk(call_id="s1", name="web_search", text="T u", ended=True),
        PartChunk(
            Native(
                provenance="anthropic",
                data=json.dumps(result),
                note="[web_search answered: T u]",
            )
        ),
        DONE,
    ]


@pytest.mark.parametrize(
    ("block", "text", "failed"),
    [
        (
            {
                "type": "web_fetch_tool_result",
                "content": {"type": "web_fetch_tool_error", "error_code": "url_not_allowed"},
            },
            "url_not_allowed",
            True,
        ),
        (
            {
                "type": "web_fetch_tool_result",
                "content": {
                    "type": "web_fetch_result",
                    "url": "u",
                    "content": {"type": "document", "title": "T", "source": {"data": "long"}},
                },
            },
            "u\nT",
            False,
        ),
        (
            {
                "type": "bash_code_execution_tool_result",
                "content": {"stdout": "4", "stderr": "!", "return_code": 0, "content": []},
            },
            "4\n!",
            False,
        ),
        (
            {
                "type": "mcp_tool_result",
                "is_error": True,
                "content": [{"type": "text", "text": "no"}],
            },
            "no",
            True,
        ),
        (
            {
                "type": "tool_search_tool_result",
                "content": {"tool_references": [{"tool_name": "a"}, {"tool_name": "b"}]},
            },
            "a\nb",
            False,
        ),
    ],
)
def test_what_a_tool_answered_can_be_read(block: dict[str, Any], text: str, failed: object) -> None:
    (shown, kept, _) = whole([{**block, "tool_use_id": "s1"}])

    name = block["type"].removesuffix("_tool_result")
    assert shown == ServerToolChunk(
        call_id="s1", name=name, text=text, ended=True, failed=bool(failed)
    )
    assert isinstance(kept, PartChunk)
    assert isinstance(kept.part, Native)
    assert kept.part.note == f"[{name} answered: {' '.join(text.split())}]"


def test_a_block_that_grows_in_unknown_ways_is_kept_whole() -> None:
    found = decode(
        start({"type": "compaction", "content": None, "x": 1}),
        grow(type="compaction_delta", content="a", encrypted_content="E"),
        grow(type="compaction_delta", content="b", x=2, text={"not": "a text"}),
        stop(),
        end("compaction"),
    )

    (part,) = assembled(found).parts
    assert isinstance(part, Native)
    assert json.loads(part.data) == {
        "type": "compaction",
        "content": "ab",
        "encrypted_content": "E",
        "x": 2,
        "text": {"not": "a text"},
    }
    assert part.note == "[Summary of what was said before: ab]"
    assert found[-1] == Finished(reason=StopReason.PAUSED)


def test_a_call_of_the_provider_that_cannot_be_read_is_kept_without_its_arguments() -> None:
    found = decode(
        start({**SEARCH, "input": {}}),
        grow(type="input_json_delta", partial_json='{"query": "cu'),
        stop(),
        end(),
    )

    (part,) = assembled(found).parts
    assert isinstance(part, Native)
    assert json.loads(part.data) == {**SEARCH, "input": {}}


def test_what_is_unknown_is_passed_over() -> None:
    found = decode(
        event("novelty", index=None, delta="x", usage="y", message=3),
        b": comment\n\n",
        start({"type": "text", "text": "a", "mood": "good"}),
        grow(type="mood_delta", text=5),
        grow(7, type="text_delta", text="lost"),
        stop(7),
        stop(),
        start({"type": "fallback", "to": {}}, 1),
        stop(1),
        end("novel_reason", details={"x": 1}),
    )

    fallback = Native(provenance="anthropic", data='{"type": "fallback", "to": {}}')
    assert found == [
        TextChunk("a"),
        TextChunk("", 0, '{"mood":"good"}'),
        PartChunk(fallback),
        DONE,
    ]


@each_row(
    ("said", "reason"),
    [
        ("end_turn", StopReason.DONE),
        ("stop_sequence", StopReason.DONE),
        ("tool_use", StopReason.TOOL_CALLS),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("refusal", StopReason.REFUSED),
        ("pause_turn", StopReason.PAUSED),
    ],
)
def test_every_reason_to_stop_is_known(said: str, reason: StopReason) -> None:
    for last in (decode(end(said))[-1], whole([], said)[-1]):
        assert isinstance(last, Finished)
        assert last.reason is reason


def test_a_refusal_says_why() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}

    assert decode(end("refusal", stop_details=details)) == [
        Finished(reason=StopReason.REFUSED, detail="Not this.")
    ]
    assert whole([], "refusal", stop_details={**details, "explanation": None}) == [
        Finished(reason=StopReason.REFUSED, detail="cyber")
    ]


def test_an_answer_that_just_stops_is_broken() -> None:
    begun = event("message_start", message={}) + start({"type": "text", "text": "a"})

    for cut in (begun, begun + event("message_delta", delta={}), begun + b"data: [DONE]\n\n"):
        with pytest.raises(StreamBroken, match="before the response was complete"):
            decode(cut)
    assert decode(begun, event("message_delta", delta={"stop_reason": "end_turn"}))[-1] == DONE
    assert decode(begun, event("message_stop"), b"data: more\n\n")[-1] == DONE


@pytest.mark.parametrize(
    "data", ["<html>", "[]", '{"type":"content_block_start","content_block":3}']
)
def test_an_invalid_event_is_a_broken_stream(data: str) -> None:
    with pytest.raises(StreamBroken, match="base URL"):
        decode(f"data: {data}\n\n".encode())


@pytest.mark.parametrize("data", [b"<html>", b"[]", b'{"type":"message_batch"}', b"{}"])
def test_an_invalid_response_is_a_broken_stream(data: bytes) -> None:
    with pytest.raises(StreamBroken, match="base URL"):
        messages_decoder("anthropic").whole(data)


@pytest.mark.req("PRV-4")
@each_row(
    ("kind", "text", "wanted"),
    [
        ("overloaded_error", "Overloaded", ProviderBusy),
        ("rate_limit_error", "slow down", ProviderBusy),
        ("api_error", "Internal server error", ProviderBusy),
        ("authentication_error", "invalid x-api-key", ProviderDenied),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ContextOverflow),
        ("request_too_large", "Request exceeds the maximum size", ContextOverflow),
        (
            "invalid_request_error",
            "messages.1.content.0: Invalid `signature` in `thinking` block",
            SignatureRejected,
        ),
        ("invalid_request_error", "max_tokens: must be positive", ProviderRejected),
        ("novel_error", "?", ProviderRejected),
    ],
)
def test_an_error_among_the_events_is_raised(
    kind: str, text: str, wanted: type[ProviderError]
) -> None:
    error = {"type": kind, "message": text}

    with pytest.raises(wanted) as caught:
        decode(event("error", error=error))
    assert type(caught.value) is wanted
    with pytest.raises(wanted):
        messages_decoder("anthropic").whole(json.dumps({"type": "error", "error": error}).encode())


def test_an_answer_in_one_piece_reads_like_a_stream() -> None:
    content: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "so", "citations": [{"n": 1}]},
        {"type": "tool_use", "id": "c1", "name": "Read", "input": {"p": 1}},
        {"type": "tool_use", "id": "c2", "name": "List", "input": {}},
        SEARCH,
    ]
    streamed = decode(
        start({"type": "thinking", "thinking": "", "signature": ""}),
        grow(type="thinking_delta", thinking="hm"),
        grow(type="signature_delta", signature="sig"),
        stop(),
        start({"type": "text", "text": ""}, 1),
        grow(1, type="text_delta", text="so"),
        grow(1, type="citations_delta", citation={"n": 1}),
        stop(1),
        start({**content[2], "input": {}}, 2),
        grow(2, type="input_json_delta", partial_json='{"p": 1}'),
        stop(2),
        start(content[3], 3),
        stop(3),
        start(content[4], 4),
        stop(4),
        end("tool_use"),
    )

    message = assembled(whole(content, "tool_use"))

    assert message == assembled(streamed)
    assert message.parts[0] == Reasoning(text="hm", provenance="anthropic", signature="sig")
    request = Request(model="m", messages=(user("a"), message))
    kept = wire.message_cache(ReasoningReader("anthropic", Echoes.OWN_ISSUED))
    assert json.loads(wire.encode(request, kept))["messages"][1]["content"] == content


@given(st.data())
def test_an_answer_reads_the_same_however_it_is_cut(data: st.DataObject) -> None:
    raw = b"".join(
        (
            event("message_start", message={"usage": {"input_tokens": 3, "output_tokens": 1}}),
            start({"type": "text", "text": "ä"}),
            grow(type="text_delta", text="€"),
            stop(),
            start({"type": "tool_use", "id": "c1", "name": "Read", "input": {}}, 1),
            grow(1, type="input_json_delta", partial_json='{"a": "ü"}'),
            stop(1),
            end("tool_use", usage={"output_tokens": 5}),
        )
    )
    places = data.draw(st.lists(st.integers(0, len(raw)), max_size=8).map(sorted))

    cut = [raw[a:b] for a, b in pairwise([0, *places, len(raw)])]

    assert decode(*cut) == decode(raw)
