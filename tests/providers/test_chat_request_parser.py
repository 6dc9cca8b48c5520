"""Requests of Chat Completions, read back."""

import json
import sys

import pytest

from clew.core.ids import CallId
from clew.core.messages import (
    File,
    Image,
    Message,
    Native,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    user,
)
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.testing.request_parsers.chat import parse_request
from tests.recordings import chat
from tests.recordings.records import PRESENT, key, records, round_trips, tokens


def read(*messages: object, **fields: object) -> Request:
    body = json.dumps({"model": "m", "messages": messages, **fields}).encode()
    return parse_request(body, provenance="host")


def says(role: str, content: object, **fields: object) -> dict[str, object]:
    return {"role": role, "content": content, **fields}


def test_fields_with_a_common_form_find_their_place() -> None:
    function = {"name": "f", "description": "Does.", "parameters": {"type": "object"}}
    request = read(
        says("system", "Be brief."),
        says("user", "hi"),
        stream=True,
        stream_options={"include_usage": True},
        max_completion_tokens=5,
        temperature=0.5,
        top_p=0.9,
        tools=[
            {"type": "function", "function": {**function, "strict": True}, "cache_control": {}},
            {"type": "openrouter:web_search"},
        ],
    )

    assert request == Request(
        model="m",
        system="Be brief.",
        messages=(user("hi"),),
        max_output_tokens=5,
        temperature=0.5,
        tools=(
            ToolSpec(
                name="f",
                description="Does.",
                schema={"type": "object"},
                extra={"strict": True, "cache_control": {}},
            ),
        ),
        native_tools=({"type": "openrouter:web_search"},),
        options={"top_p": 0.9},
    )


def test_a_system_message_that_is_not_the_first_stays_in_its_place() -> None:
    marked = [{"type": "text", "text": "s", "cache_control": {}}]

    request = read(says("user", "hi"), says("system", "New tools."), says("developer", marked))

    assert request.system == ""
    (native,) = request.messages[1].parts
    assert isinstance(native, Native)
    assert (native.note, json.loads(native.data)) == ("New tools.", says("system", "New tools."))
    assert request.messages[1].role is Role.USER
    assert request.messages[2].parts[0] == Native(
        provenance="host",
        data='{"role":"developer","content":[{"type":"text","text":"s","cache_control":{}}]}',
        note="s",
    )
    assert read(says("system", marked)).system == ""


def test_pieces_become_parts() -> None:
    pdf = "data:application/pdf;base64,cGRm"
    content = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n\n"}},
        {"type": "input_audio", "input_audio": {"data": "bXAz", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": pdf}},
        {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
        {"type": "document_url", "document_url": "https://example.org/a.pdf"},
        {"type": "odd", "odd": 1},
    ]

    (message,) = read(says("user", content)).messages

    assert message.parts == (
        Text("look"),
        Image(media_type="image/png", data=b"png", extra='{"image_url":{"detail":"low"}}'),
        Image(media_type="image/png", url="data:image/png;base64,cG5n\n"),
        File(media_type="audio/mpeg", data=b"mp3"),
        File(media_type="application/pdf", data=b"pdf", name="a.pdf"),
        File(media_type="video/mp4", url="https://example.org/a.mp4"),
        File(media_type="application/pdf", url="https://example.org/a.pdf"),
        Native(provenance="host", data='{"type":"odd","odd":1}'),
    )
    assert message.provenance == "host"


def test_answers_and_results_keep_what_is_private() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{ }"}}
    image = {"type": "image_url", "image_url": {"url": "u"}}
    cached = [{"type": "text", "text": "r", "cache_control": {}}]
    answer, *results = read(
        says("assistant", None, tool_calls=[{**call, "index": 0}], reasoning="hm", prefix=False),
        says("tool", [{"type": "text", "text": "r"}, image], tool_call_id="c"),
        says("tool", cached, tool_call_id="c"),
        says("tool", "r", tool_call_id="other", name="g"),
    ).messages

    assert answer == Message(
        role=Role.ASSISTANT,
        parts=(
            Reasoning(
                text="hm",
                provenance="host",
                extra='{"message":{"reasoning":"hm","prefix":false}}',
            ),
            ToolCall(call_id=CallId("c"), name="f", arguments="{ }", extra='{"index":0}'),
        ),
        provenance="host",
    )
    assert [each.parts[0] for each in results] == [
        ToolResult(call_id=CallId("c"), name="f", text="r", images=(Image(url="u"),)),
        ToolResult(
            call_id=CallId("c"),
            name="f",
            text="r",
            extra='{"content":[{"type":"text","text":"r","cache_control":{}}]}',
        ),
        ToolResult(call_id=CallId("other"), name="g", text="r", extra='{"name":"g"}'),
    ]


@pytest.mark.req("RSN-1")
def test_sealed_thinking_is_one_block() -> None:
    details = [{"type": "reasoning.text", "text": "hm", "signature": "s=="}]

    request = read(says("assistant", "yes", reasoning_details=details))

    assert request.messages[0].parts[0] == Reasoning(
        text="hm",
        provenance="host",
        signature='[{"type":"reasoning.text","text":"hm","signature":"s=="}]',
    )
    assert request.reasoning.tools_used


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"messages":1}'])
def test_an_invalid_request_body_is_rejected(body: bytes) -> None:
    with pytest.raises(ValueError, match="no messages"):
        parse_request(body, provenance="host")


def test_a_call_of_no_function_is_refused() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}

    with pytest.raises(ValueError, match="not a function"):
        read(says("assistant", None, tool_calls=[call]))


@pytest.mark.skipif(not PRESENT, reason="the recordings are not here")
@pytest.mark.req("PRV-1")
def test_every_recorded_request_is_written_again_as_it_was() -> None:
    bodies = [each["request"] for each in records() if each["api"] in chat.APIS]

    for body in bodies:
        again = chat.encode_again(body, streaming=bool(body.get("stream")))
        assert chat.normal(again) == chat.normal(body)

    sys.stdout.write(f"{len(bodies)} requests\n")
    assert len(bodies) == 1069


@pytest.mark.skipif(not PRESENT, reason="the recordings are not here")
@pytest.mark.req("RSN-1")
def test_every_recorded_seal_goes_back_to_its_place() -> None:
    mine = [
        each["request"]
        for each in records()
        if each["api"] in chat.APIS and key(each) in round_trips()
    ]

    for body in mine:
        again = chat.encode_again(body, streaming=bool(body.get("stream")))
        assert dict(tokens(again)) == dict(tokens(body))

    assert len(mine) == 11
