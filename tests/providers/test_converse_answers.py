import json
from base64 import b64encode
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.ids import CallId
from clew.core.messages import Image, Message, Native, Reasoning, Text, ToolCall, user
from clew.core.usage import Usage
from clew.providers.eventstream import EventStream
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
from clew.providers.wire.converse import encode as converse
from clew.providers.wire.converse.decode import converse_decoder
from clew.testing.fake_apis.converse import event
from tests.rows import each_row

READER = ReasoningReader("bedrock", Echoes.OWN_ISSUED)


def encode(*messages: Message) -> bytes:
    return converse.encode(Request(model="m", messages=messages), converse.message_cache(READER))


def text(words: str) -> dict[str, str]:
    return {"text": words}


def start(index: int, **fields: object) -> bytes:
    return event("contentBlockStart", contentBlockIndex=index, start=fields)


def delta(index: int, **fields: object) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta=fields)


def stop(index: int) -> bytes:
    return event("contentBlockStop", contentBlockIndex=index)


def ended(reason: str = "end_turn", **fields: object) -> list[bytes]:
    usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
    return [
        event("messageStop", stopReason=reason),
        event("metadata", **{"usage": usage, "metrics": {"latencyMs": 1}, **fields}),
    ]


USED = Usage(input_tokens=10, output_tokens=5)


def decode(*chunks: bytes) -> list[Chunk]:
    framing, decoder = EventStream("bedrock"), converse_decoder("bedrock")
    found = [
        piece for data in chunks for event in framing.feed(data) for piece in decoder.feed(event)
    ]
    found += [piece for event in framing.close() for piece in decoder.feed(event)]
    return [*found, decoder.close()]


def decode_whole(*content: object, reason: str = "end_turn", **fields: object) -> list[Chunk]:
    decoder = converse_decoder("bedrock")
    answer = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": reason,
        "usage": {"inputTokens": 10, "outputTokens": 5},
        **fields,
    }
    return [*decoder.whole(json.dumps(answer).encode()), decoder.close()]


def assembled(chunks: list[Chunk]) -> Message:
    assembly = MessageBuilder(provenance="bedrock")
    for chunk in chunks:
        assembly.add(chunk)
    return assembly.message()


@pytest.mark.req("PRV-2", "RSN-1")
def test_text_thoughts_and_calls_become_chunks() -> None:
    found = decode(
        event("messageStart", role="assistant"),
        delta(0, reasoningContent={"text": "hm"}),
        delta(0, reasoningContent={"signature": "seal"}),
        stop(0),
        delta(1, reasoningContent={"redactedContent": "cmVk"}),
        stop(1),
        delta(2, text="Hel"),
        delta(2, text=""),
        delta(2, text="lo"),
        stop(2),
        start(3, toolUse={"toolUseId": "a", "name": "Read"}),
        delta(3, toolUse={"input": '{"p" :'}),
        delta(3, toolUse={"input": " 1}"}),
        stop(3),
        start(4, toolUse={"toolUseId": "b", "name": "List", "type": "tool_use"}),
        stop(4),
        *ended("tool_use"),
    )

    assert found == [
        ReasoningChunk(index=0, text="hm"),
        ReasoningChunk(index=0, signature="seal"),
        ReasoningChunk(index=1, redacted="cmVk"),
        TextChunk("Hel", 2),
        TextChunk("lo", 2),
        CallChunk(index=3, call_id=CallId("a"), name="Read"),
        CallChunk(index=3, arguments='{"p" :'),
        CallChunk(index=3, arguments=" 1}"),
        CallChunk(index=3, complete=True),
        CallChunk(index=4, call_id=CallId("b"), name="List"),
        CallChunk(index=4, complete=True),
        Finished(reason=StopReason.TOOL_CALLS, usage=USED),
    ]


@pytest.mark.req("PRV-2")
def test_an_answer_in_one_piece_reads_like_the_same_answer_streamed() -> None:
    raw = b"""{"output": {"message": {"content": [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "seal"}}},
        {"reasoningContent": {"redactedContent": "cmVk"}},
        {"text": "Hello"},
        {"toolUse": {"input": {"p" : 1.0}, "name": "Read", "toolUseId": "a", "type": "tool_use"}}
    ]}}, "stopReason": "tool_use", "usage": {"inputTokens": 10, "outputTokens": 5}}"""
    decoder = converse_decoder("bedrock")

    message = assembled([*decoder.whole(raw), finished := decoder.close()])

    assert message.parts == (
        Reasoning(text="hm", signature="seal", provenance="bedrock"),
        Reasoning(redacted="cmVk", provenance="bedrock"),
        Text("Hello"),
        ToolCall(call_id=CallId("a"), name="Read", arguments='{"p" : 1.0}'),
    )
    assert finished == Finished(reason=StopReason.TOOL_CALLS, usage=USED)


def test_the_prompt_is_counted_with_what_the_cache_held() -> None:
    usage = {
        "inputTokens": 3,
        "outputTokens": 121,
        "cacheReadInputTokens": 1712,
        "cacheWriteInputTokens": 236,
        "totalTokens": 2072,
    }
    counted = Usage(
        input_tokens=1951, output_tokens=121, cache_read_tokens=1712, cache_write_tokens=236
    )

    assert decode(*ended(usage=usage)) == [Finished(reason=StopReason.DONE, usage=counted)]
    assert decode_whole(text("a"), usage=usage)[-1] == Finished(
        reason=StopReason.DONE, usage=counted
    )
    assert counted.context_tokens == usage["totalTokens"]


@pytest.mark.req("PRV-2")
def test_cache_writes_for_an_hour_are_counted_apart() -> None:
    details = [{"inputTokens": 200, "ttl": "1h"}, {"inputTokens": 36, "ttl": "5m"}]
    usage = {"inputTokens": 3, "cacheWriteInputTokens": 236, "cacheDetails": details}
    counted = Usage(input_tokens=239, cache_write_tokens=236, cache_write_1h_tokens=200)

    assert decode(*ended(usage=usage)) == [Finished(reason=StopReason.DONE, usage=counted)]


def test_usage_before_the_end_is_reported_at_once() -> None:
    end, usage = ended()

    assert decode(usage, end) == [UsageChunk(USED), Finished(reason=StopReason.DONE, usage=USED)]


def test_an_answer_is_done_when_its_usage_is_known() -> None:
    framing, decoder = EventStream("bedrock"), converse_decoder("bedrock")
    seen = []
    for data in ended():
        for each in framing.feed(data):
            decoder.feed(each)
            seen.append(decoder.done)

    assert seen == [False, True]


def test_a_stream_without_usage_still_ends_in_good_order() -> None:
    assert decode(delta(0, text="a"), event("messageStop", stopReason="end_turn")) == [
        TextChunk("a"),
        Finished(reason=StopReason.DONE),
    ]


@each_row(
    ("said", "reason", "detail"),
    [
        ("end_turn", StopReason.DONE, ""),
        ("stop_sequence", StopReason.DONE, ""),
        ("max_tokens", StopReason.LENGTH, ""),
        ("model_context_window_exceeded", StopReason.LENGTH, "model_context_window_exceeded"),
        ("guardrail_intervened", StopReason.REFUSED, "guardrail_intervened: Blocked."),
        ("content_filtered", StopReason.REFUSED, "content_filtered: Blocked."),
        ("malformed_tool_use", StopReason.DONE, "malformed_tool_use: Blocked."),
        ("something_new", StopReason.DONE, "something_new: Blocked."),
    ],
)
def test_every_reason_to_stop_has_its_meaning(said: str, reason: StopReason, detail: str) -> None:
    trace = {"guardrail": {"actionReason": "Blocked."}} if "Blocked" in detail else {}

    for found in (decode(*ended(said, trace=trace)), decode_whole(reason=said, trace=trace)):
        assert found == [Finished(reason=reason, usage=USED, detail=detail)]


def test_a_model_that_calls_tools_and_says_it_is_done_has_called_tools() -> None:
    call = start(0, toolUse={"toolUseId": "a", "name": "Read"})

    found = decode(call, *ended("end_turn"))

    assert found[1] == CallChunk(index=0, complete=True)
    assert found[-1] == Finished(reason=StopReason.TOOL_CALLS, usage=USED)


@pytest.mark.req("PRV-5")
def test_a_tool_that_the_provider_ran_is_shown_and_kept_byte_for_byte() -> None:
    streamed = decode(
        start(0, toolUse={"name": "nova_code", "toolUseId": "t1", "type": "server_tool_use"}),
        delta(0, toolUse={"input": '{"snippet": '}),
        delta(0, toolUse={"input": '"1+1"}'}),
        stop(0),
        start(1, toolResult={"status": "success", "toolUseId": "t1", "type": "nova_code_result"}),
        delta(1, toolResult=[{"json": {"stdOut": "2", "ratio": 1.0}}]),
        stop(1),
        *ended(),
    )

    call = (
        '{"toolUse":{"toolUseId":"t1","name":"nova_code","input":{"snippet": "1+1"},'
        '"type":"server_tool_use"}}'
    )
    answer = (
        '{"toolResult":{"toolUseId":"t1","content":[{"json":{"stdOut":"2","ratio":1.0}}],'
        '"status":"success","type":"nova_code_result"}}'
    )
    assert streamed == [
        ServerToolChunk(call_id="t1", name="nova_code", text='{"snippet": "1+1"}'),
        PartChunk(Native(provenance="bedrock", data=call, note='[nova_code: {"snippet": "1+1"}]')),
        ServerToolChunk(
            call_id="t1", name="nova_code", text='{"stdOut":"2","ratio":1.0}', ended=True
        ),
        PartChunk(
            Native(
                provenance="bedrock",
                data=answer,
                note='[nova_code answered: {"stdOut":"2","ratio":1.0}]',
            )
        ),
        Finished(reason=StopReason.DONE, usage=USED),
    ]
    raw = f'{{"output":{{"message":{{"content":[{call},{answer}]}}}},"stopReason":"end_turn"}}'
    decoder = converse_decoder("bedrock")
    assert decoder.whole(raw.encode()) == streamed[:-1]
    assert f"{call},{answer}".encode() in encode(assembled(streamed))


def test_a_tool_of_the_provider_that_failed_says_so() -> None:
    found = decode_whole(
        {"toolResult": {"toolUseId": "t", "status": "error", "content": [text("no"), 5]}}
    )

    assert found[0] == ServerToolChunk(call_id="t", name="", text="no", ended=True, failed=True)


def test_citations_stay_with_their_text_and_go_back_with_it() -> None:
    citation = {"title": "facts", "location": {"documentChar": {"documentIndex": 0}}}
    streamed = decode(
        delta(0, citation=citation),
        delta(0, text="Ruby is "),
        delta(0, text="old."),
        stop(0),
        delta(1, citation=citation),
        stop(1),
        *ended(),
    )
    block = {"content": [text("Ruby is old.")], "citations": [citation]}

    message = assembled(streamed)
    whole = assembled(
        decode_whole({"citationsContent": block}, {"citationsContent": {"citations": [citation]}})
    )

    assert message.text == whole.text == "Ruby is old."
    for answer in (message, whole):
        found = json.loads(encode(user("?"), answer))["messages"]
        assert found[1]["content"] == [{"citationsContent": block}]


def test_images_and_unknown_blocks_are_kept_whole() -> None:
    halves = [b64encode(half).decode() for half in (b"abc", b"def")]
    picture = Image(media_type="image/png", data=b"abcdef")
    strange = {"hologram": {"depth": 3}}

    streamed = decode(
        start(0, image={"format": "png"}),
        *(delta(0, image={"source": {"bytes": half}}) for half in halves),
        stop(0),
        start(1, hologram={"depth": 3}),
        delta(1, hologram={"more": 1}),
        stop(1),
        event("somethingNew", a=1),
        *ended(),
    )
    whole = decode_whole(
        {"image": {"format": "png", "source": {"bytes": b64encode(b"abcdef").decode()}}}, strange
    )

    assert streamed[:-1] == [PartChunk(picture)]
    assert whole[:-1] == [
        PartChunk(picture),
        PartChunk(Native(provenance="bedrock", data=json.dumps(strange))),
    ]


STREAM = b"".join(
    [
        delta(0, reasoningContent={"text": "hm"}),
        stop(0),
        delta(1, text="ä€🙂"),
        stop(1),
        start(2, toolUse={"toolUseId": "a", "name": "Read"}),
        delta(2, toolUse={"input": '{"p":1}'}),
        stop(2),
        *ended("tool_use"),
    ]
)


@pytest.mark.req("PRV-2")
@given(st.lists(st.integers(0, len(STREAM)), max_size=40).map(sorted))
def test_a_stream_reads_the_same_however_it_is_cut(places: list[int]) -> None:
    edges = [0, *places, len(STREAM)]

    assert decode(*(STREAM[a:b] for a, b in pairwise(edges))) == decode(STREAM)
