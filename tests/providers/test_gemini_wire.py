import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.errors import (
    ContextOverflow,
    ProviderBusy,
    ProviderDenied,
    ProviderRejected,
    SignatureRejected,
    StreamBroken,
)
from clew.core.ids import CallId
from clew.core.messages import Message, Native, Reasoning, Text
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
from clew.providers.wire.gemini.decode import gemini_decoder
from clew.providers.wire.gemini.encode import encode, message_cache
from tests.rows import each_row

READER = ReasoningReader("gemini", Echoes.OWN_ISSUED)


def sent(message: Message) -> list[dict[str, Any]]:
    body = encode(Request(model="m", messages=(message,)), message_cache(READER))
    found: list[dict[str, Any]] = json.loads(body)["contents"]
    return found


def decode(*chunks: bytes) -> list[Chunk]:
    parser, decoder = EventParser(), gemini_decoder("gemini")
    found = [
        piece for data in chunks for event in parser.feed(data) for piece in decoder.feed(event)
    ]
    found += [piece for event in parser.close() for piece in decoder.feed(event)]
    return [*found, decoder.close()]


def decode_whole(document: object) -> list[Chunk]:
    decoder = gemini_decoder("gemini")
    return [*decoder.whole(json.dumps(document).encode()), decoder.close()]


def event(**payload: object) -> bytes:
    return b"data: " + json.dumps(payload).encode() + b"\r\n\r\n"


def answer(
    *parts: object, finish: str | int | None = None, usage: object = None, **fields: object
) -> bytes:
    content = {"parts": list(parts), "role": "model"}
    candidate = {"content": content, "finishReason": finish, "index": 0, **fields}
    return event(candidates=[candidate], usageMetadata=usage)


def assembled(chunks: Iterable[Chunk]) -> Message:
    assembly = MessageBuilder(provenance="gemini")
    for chunk in chunks:
        assembly.add(chunk)
    return assembly.message()


STOP = answer(finish="STOP")


@pytest.mark.req("PRV-2")
def test_text_thoughts_and_usage_become_chunks() -> None:
    found = decode(
        answer({"text": "hm", "thought": True}, usage={"promptTokenCount": 50}),
        answer({"text": " so", "thought": True}, usage={"promptTokenCount": 50}),
        answer({"text": "Hel"}, usage={"trafficType": "ON_DEMAND"}),
        answer({"text": ""}),
        answer(
            {"text": "lo"},
            finish="STOP",
            usage={
                "promptTokenCount": 50,
                "toolUsePromptTokenCount": 5,
                "cachedContentTokenCount": 40,
                "candidatesTokenCount": 3,
                "thoughtsTokenCount": 4,
                "totalTokenCount": 62,
            },
        ),
    )

    assert found == [
        ReasoningChunk(index=0, text="hm"),
        UsageChunk(Usage(input_tokens=50)),
        ReasoningChunk(index=0, text=" so"),
        TextChunk("Hel"),
        TextChunk("lo"),
        Finished(
            reason=StopReason.DONE,
            usage=Usage(input_tokens=55, output_tokens=7, cache_read_tokens=40),
        ),
    ]


@pytest.mark.req("RSN-1")
def test_a_part_with_a_signature_stays_a_part_of_its_own() -> None:
    message = assembled(
        decode(
            answer({"text": "a"}),
            answer({"text": "b"}),
            answer({"text": "c", "thoughtSignature": "s1"}),
            answer({"text": "d"}, {"text": "", "thoughtSignature": "s2"}),
            answer({"thoughtSignature": "s3"}),
            STOP,
        )
    )

    assert message.parts == (
        Text("ab"),
        Text("c", '{"thoughtSignature":"s1"}'),
        Text("d"),
        Text("", '{"thoughtSignature":"s2"}'),
        Text("", '{"thoughtSignature":"s3"}'),
    )
    assert message.text == "abcd"


@pytest.mark.req("RSN-1")
def test_a_thought_with_a_signature_is_a_block_of_its_own() -> None:
    message = assembled(
        decode(
            answer({"text": "a", "thought": True}),
            answer({"text": "b", "thought": True, "thoughtSignature": "s1"}),
            answer({"text": "c", "thought": True}),
            answer({"text": "x", "thought": False}),
            answer({"text": "d", "thought": True}, {"thought": True}),
            STOP,
        )
    )

    assert message.parts == (
        Reasoning(text="a", provenance="gemini"),
        Reasoning(text="b", provenance="gemini", signature="s1"),
        Reasoning(text="c", provenance="gemini"),
        Text("x"),
        Reasoning(text="d", provenance="gemini"),
    )


SIGNED_PARTS: list[dict[str, Any]] = [
    {"text": "hm", "thought": True, "thoughtSignature": "s0"},
    {"thought": True, "thoughtSignature": "s1"},
    {"text": "a", "thoughtSignature": "s2"},
    {"text": "", "thoughtSignature": "s3"},
    {"inlineData": {"mimeType": "image/png", "data": "cG5n"}, "thoughtSignature": "s4"},
    {"inlineData": {"mimeType": "image/png", "data": "cG5n"}, "thought": True},
    {"inlineData": {"mimeType": "audio/wav", "data": "cG5n"}},
    {"fileData": {"mimeType": "image/png", "fileUri": "gs://a/b"}},
    {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://a/c"}, "videoMetadata": {"fps": 1}},
    {"executableCode": {"code": "1", "language": "PYTHON"}, "thoughtSignature": "s5"},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t"}, "thoughtSignature": "s6"},
    {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t"}, "thoughtSignature": "s7"},
    {"somethingNew": {"a": 1.5}, "thoughtSignature": "s8"},
    {"functionCall": {"name": "f", "args": {"a": None}, "id": "i"}, "thoughtSignature": "s9"},
    {"functionCall": {"name": "g", "args": {}}},
]


@pytest.mark.req("RSN-1")
@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_is_sent_back_as_it_came(*, streamed: bool) -> None:
    if streamed:
        chunks = decode(*map(answer, SIGNED_PARTS), STOP)
    else:
        candidate = {"content": {"parts": SIGNED_PARTS}, "finishReason": "STOP"}
        chunks = decode_whole({"candidates": [candidate]})

    assert sent(assembled(chunks)) == [{"role": "model", "parts": SIGNED_PARTS}]


@pytest.mark.req("PRV-2")
def test_a_call_keeps_its_bytes_and_ends_at_once() -> None:
    text = (
        '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"Read","args":'
        '{"p" :1.50, "q":null},"id":"x"},"thoughtSignature":"s"},{"functionCall":{"name":"Now"}},'
        '{"functionCall":{"name":"Then","args":null}}]},"finishReason":"STOP"}]}'
    )

    assert decode(f"data: {text}\n\n".encode()) == [
        CallChunk(
            index=0,
            call_id=CallId("x"),
            name="Read",
            arguments='{"p" :1.50, "q":null}',
            extra='{"thoughtSignature":"s"}',
            complete=True,
        ),
        CallChunk(index=1, name="Now", arguments="{}", complete=True),
        CallChunk(index=2, name="Then", arguments="{}", complete=True),
        Finished(reason=StopReason.TOOL_CALLS),
    ]


def piece(path: str, **value: object) -> dict[str, Any]:
    return {"functionCall": {"partialArgs": [{"jsonPath": path, **value}], "willContinue": True}}


@pytest.mark.req("PRV-2")
def test_arguments_that_come_value_by_value_make_one_object() -> None:
    found = decode(
        answer({"functionCall": {"name": "Cook", "willContinue": True}, "thoughtSignature": "s"}),
        answer(piece("$.dish.name", stringValue="Las", willContinue=True)),
        answer(piece("$.dish.name", stringValue="agna", willContinue=True)),
        answer(piece("$.dish.name", stringValue="")),
        answer(piece("$.steps[0].minutes", numberValue=5)),
        answer(piece("$.steps[1]['at once']", boolValue=False)),
        answer({"functionCall": {"willContinue": True}}),
        answer(piece("$.note", nullValue="NULL_VALUE")),
        answer({"functionCall": {}}),
        answer({"functionCall": {}}, {"text": "and"}),
        answer({"functionCall": {"name": "Eat"}}),
        STOP,
    )

    arguments = '{"dish":{"name":"Lasagna"},"steps":[{"minutes":5},{"at once":false}],"note":null}'
    assert found == [
        CallChunk(index=0, name="Cook", extra='{"thoughtSignature":"s"}'),
        CallChunk(index=0, arguments=arguments, complete=True),
        TextChunk("and"),
        CallChunk(index=1, name="Eat", arguments="{}", complete=True),
        Finished(reason=StopReason.TOOL_CALLS),
    ]


def test_a_call_in_pieces_is_complete_when_another_begins_or_the_answer_ends() -> None:
    found = decode(
        answer({"functionCall": {"name": "A", "willContinue": True}}),
        answer({**piece("$.y", boolValue=True), "thoughtSignature": "s"}),
        answer({"functionCall": {"name": "B", "partialArgs": [{"jsonPath": "$.x[7]"}]}}),
        answer({"functionCall": {"name": "C", "willContinue": True}}),
        STOP,
    )

    assert [(call.name, call.arguments, call.extra) for call in assembled(found).calls] == [
        ("A", '{"y":true}', '{"thoughtSignature":"s"}'),
        ("B", '{"x":[null]}', ""),
        ("C", "{}", ""),
    ]


@pytest.mark.req("PRV-3")
def test_a_call_that_is_cut_off_is_left_out() -> None:
    parser, decoder = EventParser(), gemini_decoder("gemini")
    events = parser.feed(
        answer({"text": "a"}, {"functionCall": {"name": "A", "willContinue": True}})
    )

    message = assembled(chunk for event in events for chunk in decoder.feed(event))

    assert (message.parts, message.interrupted) == ((Text("a"),), True)


@pytest.mark.req("PRV-5")
def test_code_that_google_runs_is_shown_and_kept() -> None:
    code: dict[str, Any] = {"executableCode": {"code": "print(\n1)", "id": "c1"}}
    failed: dict[str, Any] = {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "E"}}

    found = decode(answer(code), answer(failed), answer({"executableCode": {"code": "2"}}), STOP)

    assert found == [
        ServerToolChunk(call_id="c1", name="code_execution", text="print(\n1)"),
        PartChunk(Native(provenance="gemini", data=json.dumps(code), note="[ran code: print( 1)]")),
        ServerToolChunk(call_id="c1", name="code_execution", text="E", ended=True, failed=True),
        PartChunk(
            Native(provenance="gemini", data=json.dumps(failed), note="[the code printed: E]")
        ),
        ServerToolChunk(call_id="code_execution_2", name="code_execution", text="2"),
        PartChunk(
            Native(
                provenance="gemini",
                data='{"executableCode": {"code": "2"}}',
                note="[ran code: 2]",
            )
        ),
        ServerToolChunk(call_id="code_execution_2", name="code_execution", ended=True),
        Finished(reason=StopReason.DONE),
    ]


def shown(chunks: Sequence[Chunk]) -> list[tuple[str, str, bool, bool]]:
    return [
        (chunk.name, chunk.text, chunk.ended, chunk.failed)
        for chunk in chunks
        if isinstance(chunk, ServerToolChunk)
    ]


@pytest.mark.req("PRV-5")
def test_a_search_is_reported_once() -> None:
    grounding = {
        "webSearchQueries": ["ruby", "", "ruby releases"],
        "groundingChunks": [{"web": {"uri": "https://r.org", "title": "r.org"}}, {"web": {}}],
    }

    found = decode(
        answer({"text": "4"}, groundingMetadata={}),
        answer({"text": "!"}, groundingMetadata=grounding),
        answer(finish="STOP", groundingMetadata=grounding),
    )

    assert shown(found) == [
        ("web_search", "ruby; ruby releases", False, False),
        ("web_search", "r.org https://r.org", True, False),
    ]
    assert assembled(found).parts == (Text("4!"),)


@pytest.mark.req("PRV-5")
def test_a_search_in_parts_is_not_reported_again_from_metadata() -> None:
    call = {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["a", "b"]}, "id": "x"}
    files = {"toolType": "FILE_SEARCH", "id": "y"}
    grounding = {
        "webSearchQueries": ["a"],
        "groundingChunks": [{"retrievedContext": {"title": "t"}}],
    }

    found = decode(
        answer({"toolCall": call}, {"toolResponse": {**call, "response": {"html": "<b>"}}}),
        answer({"toolCall": files}, {"toolResponse": files}),
        answer(finish="STOP", groundingMetadata=grounding),
    )

    assert shown(found) == [
        ("web_search", "a; b", False, False),
        ("web_search", "", True, False),
        ("file_search", "", False, False),
        ("file_search", "", True, False),
    ]
    notes = [part.note for part in assembled(found).parts if isinstance(part, Native)]
    assert notes == ["[looked up: a; b]", "", "", ""]


@pytest.mark.req("PRV-5")
def test_fetched_pages_and_files_are_reported() -> None:
    pages = {
        "urlMetadata": [
            {"retrievedUrl": "https://a", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"},
            {"retrievedUrl": "https://b", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"},
        ]
    }
    grounding = {"groundingChunks": [{"retrievedContext": {"title": "notes"}}]}

    found = decode(
        answer({"text": "x"}, urlContextMetadata=pages),
        answer(finish="STOP", urlContextMetadata=pages, groundingMetadata=grounding),
        answer(finish="STOP", groundingMetadata=grounding),
    )

    assert shown(found) == [
        ("web_fetch", "https://a", False, False),
        ("web_fetch", "", True, False),
        ("web_fetch", "https://b", False, False),
        ("web_fetch", "", True, True),
        ("file_search", "", False, False),
        ("file_search", "notes", True, False),
    ]


def test_a_long_note_is_cut() -> None:
    (first, *_) = assembled(decode(answer({"executableCode": {"code": "x" * 999}}), STOP)).parts

    assert isinstance(first, Native)
    assert len(first.note) < 250


@pytest.mark.req("PRV-2")
@each_row(
    ("finish", "reason", "detail"),
    [
        ("STOP", StopReason.DONE, ""),
        ("MAX_TOKENS", StopReason.LENGTH, ""),
        ("SAFETY", StopReason.REFUSED, "SAFETY: why"),
        ("RECITATION", StopReason.REFUSED, "RECITATION: why"),
        ("PROHIBITED_CONTENT", StopReason.REFUSED, "PROHIBITED_CONTENT: why"),
        ("A_NEW_ONE", StopReason.REFUSED, "A_NEW_ONE: why"),
        (1, StopReason.DONE, ""),
        (2, StopReason.LENGTH, ""),
        (3, StopReason.REFUSED, "SAFETY: why"),
        (99, StopReason.REFUSED, "OTHER: why"),
    ],
)
def test_the_stop_reason_is_reported(finish: str | int, reason: StopReason, detail: str) -> None:
    found = decode(answer({"text": "a"}, finish=finish, finishMessage="why"))

    assert found[-1] == Finished(reason=reason, detail=detail)


def test_a_prompt_that_is_blocked_is_a_refusal() -> None:
    feedback = {"blockReason": "MODEL_ARMOR", "blockReasonMessage": "An injection."}

    assert decode_whole({"promptFeedback": feedback, "usageMetadata": {}}) == [
        Finished(reason=StopReason.REFUSED, detail="MODEL_ARMOR: An injection.")
    ]
    assert decode(event(promptFeedback={"blockReason": "STOP"})) == [
        Finished(reason=StopReason.REFUSED, detail="STOP")
    ]


@pytest.mark.parametrize("finish", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", 9])
def test_a_call_that_the_server_cannot_read_is_worth_another_try(finish: str | int) -> None:
    with pytest.raises(ProviderBusy, match="tool call"):
        decode(answer(finish=finish))


@pytest.mark.req("RSN-5")
def test_a_signature_that_is_missed_heals_as_a_refused_one() -> None:
    with pytest.raises(SignatureRejected):
        decode(answer(finish="MISSING_THOUGHT_SIGNATURE"))


def test_a_reason_in_every_event_ends_nothing_early() -> None:
    found = decode(
        answer({"text": "a"}, finish="STOP"),
        answer({"text": "b"}, finish="FINISH_REASON_UNSPECIFIED"),
        answer({"text": "c"}, finish="MAX_TOKENS"),
    )

    assert found == [
        TextChunk("a"),
        TextChunk("b"),
        TextChunk("c"),
        Finished(reason=StopReason.LENGTH),
    ]


def test_what_is_unknown_is_passed_over() -> None:
    found = decode(
        b": ping\n\n",
        b"event: new\ndata: {}\n\n",
        event(responseId="r", newField=[1], candidates=[]),
        answer({}, {"text": "a", "thought": None}, newField={"x": 1}),
        event(candidates=[{"index": 1, "content": {"parts": [{"text": "other"}]}}]),
        event(candidates=[{"index": 0, "finishReason": "STOP"}]),
        b"data: [DONE]\n\n",
    )

    assert found == [TextChunk("a"), Finished(reason=StopReason.DONE)]


def test_a_list_of_events_is_read_as_a_whole_answer() -> None:
    first = {"candidates": [{"content": {"parts": [{"text": "a"}]}}]}
    last = {"candidates": [{"content": {"parts": [{"text": "b"}]}, "finishReason": "STOP"}]}
    decoder = gemini_decoder("gemini")

    found = decoder.whole(json.dumps([first, last], indent=1).encode())

    assert found == [TextChunk("a"), TextChunk("b")]
    assert decoder.done
    assert decoder.close() == Finished(reason=StopReason.DONE)


def test_an_answer_that_just_stops_is_broken() -> None:
    with pytest.raises(StreamBroken, match="before the response was complete"):
        decode(answer({"text": "a"}))


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[1]", b'{"candidates":"x"}', b'{"candidates":[{"content":{"parts":[1]}}]}'],
)
def test_an_invalid_response_is_a_broken_stream(body: bytes) -> None:
    with pytest.raises(StreamBroken, match="base URL"):
        gemini_decoder("gemini").whole(body)


def test_a_picture_that_is_none_is_broken() -> None:
    with pytest.raises(StreamBroken):
        decode(answer({"inlineData": {"mimeType": "image/png", "data": "?"}}))


@pytest.mark.req("PRV-4")
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}, ProviderBusy),
        ({"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}, ProviderBusy),
        ({"code": 400, "message": "API key not valid. Please pass one."}, ProviderDenied),
        (
            {"code": 400, "message": "The input token count (9) exceeds the maximum"},
            ContextOverflow,
        ),
        (
            {"code": 400, "message": "Function call `f` is missing a `thought_signature`."},
            SignatureRejected,
        ),
        ({"code": 400, "message": "Please use a valid role."}, ProviderRejected),
        ("plain words", ProviderRejected),
    ],
)
def test_an_error_among_the_events_is_raised(
    error: object, kind: type[Exception], *, listed: bool
) -> None:
    payload: object = {"error": error}

    with pytest.raises(kind):
        decode(b"data: " + json.dumps([payload] if listed else payload).encode() + b"\n\n")


words = st.text(max_size=8)
answers = st.lists(
    st.one_of(
        st.builds(lambda text: {"text": text}, words),
        st.builds(lambda text: {"text": text, "thought": True}, words),
        st.builds(lambda text, seal: {"text": text, "thoughtSignature": seal}, words, words),
        st.builds(lambda name: {"functionCall": {"name": name, "args": {"ä": name}}}, words),
        st.just({"executableCode": {"code": "1"}}),
    ),
    max_size=8,
)


@pytest.mark.req("PRV-2")
@given(answers, st.lists(st.integers(0, 600), max_size=12))
def test_a_stream_reads_the_same_however_it_is_cut(
    found: list[dict[str, Any]], places: list[int]
) -> None:
    raw = b"".join([*map(answer, found), STOP])
    edges = [0, *sorted(min(place, len(raw)) for place in places), len(raw)]

    cut = [raw[start:end] for start, end in pairwise(edges)]

    assert decode(*cut) == decode(raw)
