"""What hosts add to the answers of Chat Completions, each in its own way."""

import json

import pytest

from clew.core.errors import (
    ProviderBusy,
    ProviderError,
    ProviderRejected,
    StreamBroken,
)
from clew.core.ids import CallId
from clew.core.messages import Image, Reasoning, Text, ToolCall
from clew.core.usage import Usage
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    PartChunk,
    ReasoningChunk,
    ServerToolChunk,
    StopReason,
    TextChunk,
    UsageChunk,
)
from clew.providers.sse import ServerEvent
from clew.providers.wire.chat.decode import chat_decoder
from tests.recordings import chat
from tests.recordings.checks import parse
from tests.recordings.records import PRESENT, answer_bytes, records
from tests.rows import each_row


def streamed(*payloads: object, done: bool = True) -> list[Chunk]:
    decoder = chat_decoder("host")
    found: list[Chunk] = []
    for payload in payloads:
        found += decoder.feed(ServerEvent(json.dumps(payload)))
    if done:
        found += decoder.feed(ServerEvent("[DONE]"))
    return [*found, decoder.close()]


def whole(*choices: object, **fields: object) -> list[Chunk]:
    decoder = chat_decoder("host")
    found = decoder.whole(json.dumps({"choices": choices, **fields}).encode())
    return [*found, decoder.close()]


def delta(finish: str | None = None, **fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def said(finish: str = "stop", **fields: object) -> dict[str, object]:
    return {"index": 0, "message": {"role": "assistant", **fields}, "finish_reason": finish}


def assembled(chunks: list[Chunk]) -> MessageBuilder:
    assembly = MessageBuilder(provenance="host")
    for chunk in chunks:
        assembly.add(chunk)
    return assembly


def end(chunks: list[Chunk]) -> Finished:
    last = chunks[-1]
    assert isinstance(last, Finished)
    return last


def detail(**fields: object) -> dict[str, object]:
    return {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, **fields}


@pytest.mark.req("RSN-1")
def test_sealed_thinking_is_one_list_however_it_is_streamed() -> None:
    secret = {"type": "reasoning.encrypted", "data": "gAA==", "id": "rs_1", "index": 0}
    found = streamed(
        delta(reasoning="Let ", reasoning_details=[detail(text="Let ")]),
        delta(reasoning="me", reasoning_details=[detail(text="me")]),
        delta(reasoning_details=[detail(signature="EqQB==")]),
        delta(reasoning_details=[detail(text="Again", index=1)]),
        delta(content="ok"),
        delta(reasoning_details=[secret, {**secret, "data": "hBB=="}]),
        delta("stop"),
        delta("stop"),
    )

    (thought, text) = assembled(found).message().parts
    assert text == Text("ok")
    assert isinstance(thought, Reasoning)
    assert thought.text == "Let meAgain"
    assert json.loads(thought.signature) == [
        detail(text="Let me", signature="EqQB=="),
        detail(text="Again", index=1),
        secret,
        {**secret, "data": "hBB=="},
    ]


@pytest.mark.req("RSN-1")
def test_sealed_thinking_of_a_whole_answer_is_kept_as_it_is() -> None:
    details = [{"type": "reasoning.summary", "summary": "hm", "id": None}, {"type": "other"}]

    (thought,) = assembled(whole(said(reasoning_details=details))).message().parts

    assert isinstance(thought, Reasoning)
    assert (thought.text, json.loads(thought.signature)) == ("hm", details)


def test_thinking_that_was_broken_off_has_no_seal() -> None:
    decoder = chat_decoder("host")

    found = decoder.feed(ServerEvent(json.dumps(delta(reasoning_details=[detail(text="a")]))))

    assert found == [ReasoningChunk(index=0, text="a")]


def test_geminis_signatures_stay_with_the_call_and_with_the_message() -> None:
    google = {"google": {"thought_signature": "s=="}}
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": google}

    message = assembled(whole(said(tool_calls=[call], extra_content=google))).message()

    assert message.parts == (
        ToolCall(
            call_id=CallId("c"),
            name="f",
            extra='{"extra_content":{"google":{"thought_signature":"s=="}}}',
        ),
        Text("", '{"message":{"extra_content":{"google":{"thought_signature":"s=="}}}}'),
    )
    assert message.provenance == "host"


@pytest.mark.req("PRV-1")
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"type": "text", "text": "Yes."}, "Yes."),
        ({"text": "Yes."}, "Yes."),
        ({"answer": 42, "text": "b"}, '{"answer":42,"text":"b"}'),
        ({}, ""),
    ],
)
def test_content_may_be_an_object(content: dict[str, object], text: str) -> None:
    assert assembled(whole(said(content=content))).message().text == text
    assert assembled(streamed(delta(content=content), delta("stop"))).message().text == text


USAGE_WITH_CACHE_APART = [
    # The cache read is counted beside the prompt, as the total shows.
    ({"prompt_tokens": 96, "completion_tokens": 72, "total_tokens": 7_272,
      "prompt_tokens_details": {"cached_tokens": 7_104}}, (7_200, 72, 7_104, 0)),
    ({"prompt_tokens": 8_000, "completion_tokens": 72, "total_tokens": 15_176,
      "prompt_tokens_details": {"cached_tokens": 7_104}}, (15_104, 72, 7_104, 0)),
    # Cache reads and writes are; or the writes alone.
    ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 315,
      "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 100}},
     (310, 5, 200, 100)),
    ({"prompt_tokens": 900, "completion_tokens": 5, "total_tokens": 1_005,
      "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 100}},
     (1_000, 5, 200, 100)),
    # The total leaves the cache out, or is missing.
    ({"prompt_tokens": 96, "completion_tokens": 72, "total_tokens": 168,
      "prompt_tokens_details": {"cached_tokens": 7_104}}, (7_200, 72, 7_104, 0)),
    ({"prompt_tokens": 96, "completion_tokens": 72, "cached_tokens": 7_104}, (7_200, 72, 7_104, 0)),
    ({"prompt_tokens": 96, "completion_tokens": 72, "cache_read_input_tokens": 7_104},
     (7_200, 72, 7_104, 0)),
    # Reasoning beside both.
    ({"prompt_tokens": 96, "completion_tokens": 72, "total_tokens": 7_300,
      "prompt_tokens_details": {"cached_tokens": 7_104},
      "completion_tokens_details": {"reasoning_tokens": 28}}, (7_200, 100, 7_104, 0)),
]  # fmt: skip
USAGE_WITH_CACHE_WITHIN = [
    ({"prompt_tokens": 7_200, "completion_tokens": 72, "total_tokens": 7_272,
      "prompt_tokens_details": {"cached_tokens": 7_104}}, (7_200, 72, 7_104, 0)),
    # xAI counts reasoning only in the total, even where it equals the cache.
    ({"prompt_tokens": 500, "completion_tokens": 10, "total_tokens": 810,
      "prompt_tokens_details": {"cached_tokens": 300},
      "completion_tokens_details": {"reasoning_tokens": 300}}, (500, 310, 300, 0)),
    ({"prompt_tokens": 500, "completion_tokens": 10, "total_tokens": 700,
      "prompt_tokens_details": {"cached_tokens": 300}}, (500, 200, 300, 0)),
]  # fmt: skip


@pytest.mark.req("PRV-2")
@each_row(("counted", "tokens"), [*USAGE_WITH_CACHE_APART, *USAGE_WITH_CACHE_WITHIN])
def test_cached_tokens_are_input_wherever_a_host_counts_them(
    counted: dict[str, object], tokens: tuple[int, int, int, int]
) -> None:
    usage = end(whole(said(content="ok"), usage=counted)).usage

    assert usage is not None
    assert tokens == (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )


def test_of_several_answers_the_first_counts() -> None:
    second = {**said(content="no"), "index": 1}

    assert whole(said(content="yes"), second)[0] == TextChunk("yes")
    assert streamed({"choices": [{"index": 1, "delta": {"content": "no"}}]})[:-1] == []


def test_an_answer_that_repeats_itself_is_read_once() -> None:
    message = {"role": "assistant", "content": "Hello"}
    both = {"index": 0, "message": message, "delta": {"content": ""}, "finish_reason": "stop"}
    first = {"index": 0, "message": {"content": "Hel"}, "delta": {"content": "Hel"}}
    last = {**both, "delta": {"content": "lo"}}

    assert whole(both)[0] == TextChunk("Hello")
    assert streamed({"choices": [first]}, {"choices": [last]})[:2] == [
        TextChunk("Hel"),
        TextChunk("lo"),
    ]


def test_a_function_call_of_old_is_a_call() -> None:
    found = whole(said(function_call={"name": "f", "arguments": '{"a":1}'}))

    assert assembled(found).message().calls[0].arguments == '{"a":1}'
    assert whole(said(content="x", function_call={"name": "", "arguments": ""}))[:-1] == [
        TextChunk("x")
    ]


def test_pictures_that_the_model_drew_are_parts() -> None:
    urls = ("data:image/webp;base64,eA==", "https://example.org/a.png", "data:x;base64,a")
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]

    assert whole(said(content="", images=images))[:-1] == [
        PartChunk(Image(media_type="image/webp", data=b"x")),
        PartChunk(Image(url="https://example.org/a.png")),
        PartChunk(Image(url="data:x;base64,a")),
    ]


def test_an_audio_transcript_is_text() -> None:
    assert whole(said(audio={"id": "a", "data": "eA==", "transcript": "Hi."}))[0] == TextChunk(
        "Hi."
    )


@pytest.mark.req("PRV-5")
def test_tools_that_the_host_ran_are_reported() -> None:
    begun = {"index": 0, "type": "search", "arguments": '{"query":"x"}'}

    found = streamed(
        delta(executed_tools=[begun]),
        delta(executed_tools=[{**begun, "output": "found"}]),
        delta("stop", content="ok"),
    )

    search = ServerToolChunk(call_id="executed-0", name="web_search", text='{"query":"x"}')
    assert found[:2] == [
        search,
        ServerToolChunk(call_id="executed-0", name="web_search", text="found", ended=True),
    ]
    assert whole(said(content="ok", executed_tools=[{**begun, "output": "found"}]))[:2] == found[:2]


@pytest.mark.req("PRV-5")
def test_a_search_is_reported_with_its_sources() -> None:
    def cited(url: str, title: str) -> dict[str, object]:
        return {"type": "url_citation", "url_citation": {"url": url, "title": title}}

    found = streamed(
        delta(content="a", annotations=[cited("https://a", "A")]),
        delta(content="b", annotations=[cited("https://b", ""), {"type": "file"}]),
        delta("stop"),
    )

    begun = ServerToolChunk(call_id="web_search", name="web_search")
    ended = ServerToolChunk(
        call_id="web_search", name="web_search", text="A https://a\nhttps://b", ended=True
    )
    assert found[:-1] == [begun, TextChunk("a"), TextChunk("b"), ended]


def test_citations_beside_the_answer_are_sources_too() -> None:
    found = whole(
        said(content="a"),
        search_results=[{"title": "A", "url": "https://a", "date": None}],
        citations=["https://a", "https://b", 3],
    )

    assert found[2] == ServerToolChunk(
        call_id="web_search", name="web_search", text="A https://a\nhttps://b", ended=True
    )


@each_row(
    ("counts", "usage"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 22},
            Usage(input_tokens=10, output_tokens=12),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 8},
            Usage(input_tokens=10, output_tokens=5, cache_read_tokens=8),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 8},
            Usage(input_tokens=10, output_tokens=5, cache_read_tokens=8),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "num_cached_tokens": 8},
            Usage(input_tokens=10, output_tokens=5, cache_read_tokens=8),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 2},
            },
            Usage(input_tokens=10, output_tokens=5, cache_read_tokens=6, cache_write_tokens=2),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "cache_creation_input_tokens": 2},
            Usage(input_tokens=10, output_tokens=5, cache_write_tokens=2),
        ),
        ({"prompt_tokens": None, "completion_tokens": 5}, Usage(output_tokens=5)),
    ],
)
@pytest.mark.req("PRV-2")
def test_usage_is_understood_in_the_words_of_many_hosts(
    counts: dict[str, object], usage: Usage
) -> None:
    assert end(whole(said(content="a"), usage=counts)).usage == usage
    assert end(streamed(delta("stop"), {"choices": [], "x_groq": {"usage": counts}})).usage == usage
    moonshot = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": counts}]}
    assert end(streamed(moonshot)).usage == usage


@pytest.mark.parametrize(
    ("counts", "cost"),
    [
        ({"cost": 0.25}, 0.25),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.5}}, 0.5),
        ({"cost": 0.1, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.1}}, 0.1),
        ({"cost": {"total_cost": 0.006}}, 0.006),
        ({"cost_in_usd_ticks": 5_411_000}, 0.0005411),
        ({}, None),
    ],
)
@pytest.mark.req("PRV-7")
def test_the_cost_reported_by_a_host_is_forwarded(
    counts: dict[str, object], cost: float | None
) -> None:
    assert end(whole(said(content="a"), usage=counts)).cost == cost


def test_usage_in_mid_stream_is_reported_at_once() -> None:
    def counted(tokens: int, finish: str | None = None) -> dict[str, object]:
        counts = {"prompt_tokens": 3, "completion_tokens": tokens}
        return {**delta(finish, content="a"), "usage": counts}

    found = streamed(counted(1), counted(1), counted(2), counted(3, "stop"))

    assert [chunk for chunk in found if isinstance(chunk, UsageChunk)] == [
        UsageChunk(Usage(input_tokens=3, output_tokens=1)),
        UsageChunk(Usage(input_tokens=3, output_tokens=2)),
    ]
    assert end(found).usage == Usage(input_tokens=3, output_tokens=3)


@each_row(
    ("reason", "stop"),
    [
        ("stop", StopReason.DONE),
        ("eos", StopReason.DONE),
        ("length", StopReason.LENGTH),
        ("model_length", StopReason.LENGTH),
        ("content_filter", StopReason.REFUSED),
        ("SENSITIVE", StopReason.REFUSED),
        ("", StopReason.DONE),
    ],
)
def test_the_reason_is_understood_in_the_words_of_many_hosts(reason: str, stop: StopReason) -> None:
    assert end(streamed(delta(reason, content="a"))).reason is stop


@pytest.mark.parametrize("reason", ["insufficient_system_resource", "network_error", "error"])
def test_a_host_that_could_not_go_on_is_busy(reason: str) -> None:
    with pytest.raises(ProviderBusy, match=reason):
        streamed(delta(reason))


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({"x_groq": {"id": "r", "error": "stopped early"}}, ProviderRejected),
        ({"object": "error", "message": "bad", "code": 400}, ProviderRejected),
        ({"choices": [{"error": {"code": 502, "message": "upstream"}}]}, ProviderBusy),
        ({"error": {"message": "x", "status": 503}}, ProviderBusy),
    ],
)
def test_an_error_is_found_wherever_a_host_puts_it(
    payload: dict[str, object], kind: type[ProviderError]
) -> None:
    with pytest.raises(kind):
        streamed(payload)


@pytest.mark.parametrize("body", [b'{"method":"POST"}', b"[]", b"{", b'{"choices":null}'])
def test_a_document_of_another_format_is_an_error(body: bytes) -> None:
    with pytest.raises(StreamBroken, match="not a chat completion"):
        chat_decoder("host").whole(body)


def test_unknown_events_and_fields_are_ignored() -> None:
    found = streamed(
        {"object": "ping", "new": {"a": 1}},
        {"choices": [], "prompt_filter_results": []},
        {**delta(content="a", new=[1]), "obfuscation": "xyz", "service_tier": None},
        {"choices": None},
        delta("stop", content=None, tool_calls=None, refusal=None, annotations=[]),
    )

    assert found == [TextChunk("a"), Finished(reason=StopReason.DONE)]


def test_calls_of_a_whole_answer_are_complete() -> None:
    calls = [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]

    assert whole(said("tool_calls", content=None, tool_calls=calls)) == [
        CallChunk(index=0, call_id=CallId("a"), name="f", arguments='{"x":1}'),
        CallChunk(index=0, complete=True),
        Finished(reason=StopReason.TOOL_CALLS),
    ]


@pytest.mark.skipif(not PRESENT, reason="the recordings are not here")
@pytest.mark.req("PRV-2")
def test_every_recorded_answer_in_one_piece_is_read() -> None:
    bodies = [
        answer_bytes(each)
        for each in records()
        if each["api"] in chat.APIS and each["status"] == 200 and not each["stream"]
    ]
    found = [body for body in bodies if b'"choices"' in body]

    silent = 0
    for body in found:
        message, finished = parse(chat, [body], whole=True)
        silent += not message.parts
        assert finished.usage is not None
        assert finished.usage.output_tokens > 0

    # Two come from an echo server that knows nothing of chat, and one model had nothing to say.
    assert (len(bodies), len(found), silent) == (754, 752, 1)
