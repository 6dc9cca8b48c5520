import json
import random
import sys
from itertools import pairwise
from typing import Any

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
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Finished, Request
from clew.providers.wire.gemini.encode import encode, is_generated_id, message_cache
from clew.testing.request_parsers.gemini import parse_request
from tests.recordings import gemini
from tests.recordings.records import PRESENT, Record, key, records, round_trips, tokens

recordings = pytest.mark.skipif(not PRESENT, reason="the recordings are not here")


def read(body: dict[str, Any]) -> Request:
    return parse_request(json.dumps(body).encode(), provenance="gemini")


def parts_of(*parts: dict[str, Any], role: str = "model") -> Message:
    (message,) = read({"contents": [{"role": role, "parts": list(parts)}]}).messages
    return message


def test_a_body_is_read_into_the_fields_of_a_request() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a_b": {}}}
    old: dict[str, object] = {"type": "OBJECT"}

    found = read(
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
            "tools": [
                {"google_search": {}},
                {
                    "function_declarations": [
                        {"name": "A", "description": "a", "parameters_json_schema": schema},
                        {"name": "B", "parameters": old},
                    ]
                },
            ],
            "generationConfig": {"max_output_tokens": 9, "temperature": 0.0, "topP": 1},
            "labels": {"my_team": "x"},
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        }
    )

    assert found == Request(
        model="",
        system="Be brief.",
        tools=(
            ToolSpec(name="A", description="a", schema=schema),
            ToolSpec(name="B", description="", schema=old, extra={"parameters": old}),
        ),
        native_tools=({"googleSearch": {}},),
        max_output_tokens=9,
        temperature=0.0,
        options={"generationConfig": {"topP": 1}, "labels": {"my_team": "x"}},
        messages=(user("hi"),),
    )


def test_parts_are_read_into_their_common_forms() -> None:
    found = parts_of(
        {"text": "a"},
        {"text": "", "thoughtSignature": "s"},
        {"text": "hm", "thought": True},
        {"thought": True, "thoughtSignature": "s"},
        {"inlineData": {"mimeType": "image/png", "data": "_-8="}},
        {"file_data": {"mime_type": "video/mp4", "file_uri": "u"}, "videoMetadata": {"fps": 1}},
        {"functionCall": {"name": "f", "args": {"a_b": 1}, "id": "x"}, "thoughtSignature": "s"},
    )

    assert found == Message(
        role=Role.ASSISTANT,
        provenance="gemini",
        parts=(
            Text("a"),
            Text("", '{"thoughtSignature":"s"}'),
            Reasoning(text="hm", provenance="gemini"),
            Reasoning(signature="s", provenance="gemini"),
            Image(data=b"\xff\xef"),
            File(media_type="video/mp4", url="u", extra='{"videoMetadata":{"fps":1}}'),
            ToolCall(
                call_id=CallId("x"),
                name="f",
                arguments='{"a_b":1}',
                extra='{"thoughtSignature":"s"}',
            ),
        ),
    )


@pytest.mark.parametrize(
    "part",
    [
        {"executableCode": {"code": "1"}, "thoughtSignature": "s"},
        {"text": "", "thought": True, "thoughtSignature": "s"},
        {"inlineData": {"mimeType": "image/png", "data": "no base64"}},
        {"inlineData": {"mimeType": "image/png", "data": "cG5n", "displayName": "a"}},
        {},
    ],
)
def test_a_part_that_has_no_common_form_is_kept_as_it_is(part: dict[str, Any]) -> None:
    (found,) = parts_of(part).parts

    assert isinstance(found, Native)
    assert json.loads(found.data) == part


@pytest.mark.parametrize(
    ("response", "text", "failed"),
    [
        ({"output": "yes"}, "yes", False),
        ({"error": "no"}, "no", True),
        ({"result": "yes"}, "yes", False),
        ({"a": 1, "b": [2]}, '{"a":1,"b":[2]}', False),
        ({}, "{}", False),
    ],
)
def test_a_result_is_read_and_written_as_it_was(
    response: dict[str, Any], text: str, *, failed: bool
) -> None:
    body = {
        "contents": [
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "f", "id": "x", "response": response}}],
            }
        ]
    }

    (message,) = read(body).messages

    assert isinstance(result := message.parts[0], ToolResult)
    assert (message.role, result.text, result.failed) == (Role.TOOL, text, failed)
    assert gemini.encode_again(body, streaming=True) == body


def test_calls_without_ids_meet_their_results() -> None:
    calls: list[Any] = [{"functionCall": {"name": name, "args": {}}} for name in ("f", "g", "f")]
    results: list[Any] = [
        {"functionResponse": {"name": name, "response": {}}} for name in ("g", "f", "f", "h")
    ]

    model, tool = read(
        {"contents": [{"role": "model", "parts": calls}, {"role": "user", "parts": results}]}
    ).messages

    first, second, third = (call.call_id for call in model.calls)
    assert [result.call_id for result in tool.results][:3] == [second, first, third]
    assert len({result.call_id for result in tool.results}) == 4
    assert all(is_generated_id(result.call_id) for result in tool.results)


def test_a_system_instruction_of_several_parts_stays_an_option() -> None:
    instruction = {"parts": [{"text": "a"}, {"text": "b"}]}

    found = read({"systemInstruction": instruction, "contents": []})

    assert (found.system, found.options) == ("", {"systemInstruction": instruction})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"batch": {}}, "without contents"),
        ({"contents": [{"role": "system", "parts": []}]}, "the role system"),
    ],
)
def test_an_invalid_request_body_is_rejected(body: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read(body)


def recorded(*apis: str) -> list[Record]:
    return [record for record in records() if record["api"] in apis]


def answered(pieces: list[bytes], *, whole: bool) -> tuple[Message, Finished]:
    decoder, framing = gemini.decoder(), gemini.framing()
    assembly = MessageBuilder(provenance="gemini")
    if whole:
        chunks = decoder.whole(b"".join(pieces))
    else:
        events = [event for piece in pieces for event in framing.feed(piece)]
        chunks = [chunk for event in [*events, *framing.close()] for chunk in decoder.feed(event)]
    for chunk in chunks:
        assembly.add(chunk)
    assembly.add(finished := decoder.close())
    return assembly.message(), finished


def sent_back(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        encode(Request(model="m", messages=(message,)), message_cache(gemini.READER))
    )
    return found


@recordings
@pytest.mark.req("PRV-1", "RSN-1")
def test_every_recorded_request_is_written_again_as_it_was() -> None:
    refused: list[str] = []
    passed = kept = 0
    for record in recorded(*gemini.APIS):
        body = record["request"]
        try:
            again = gemini.normal(gemini.encode_again(body, streaming=True))
        except ValueError as error:
            refused.append(str(error))
            continue
        assert again == gemini.normal(body), key(record)
        passed += 1
        if key(record) in round_trips():
            wanted = dict(tokens(gemini.normal(body)))
            assert wanted
            assert dict(tokens(again)) == wanted
            kept += 1

    sys.stdout.write(f"{passed}/{passed + len(refused)} requests, {kept} with signatures\n")
    assert sorted(refused) == ["a body without contents", "the role invalid_role"]
    assert (passed, kept) == (427, 67)


def without_bare_thoughts(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for part in parts if not part.get("thought") or part.get("thoughtSignature")]


@recordings
@pytest.mark.req("PRV-2", "RSN-1")
def test_every_recorded_answer_is_sent_back_as_it_came() -> None:
    found = [each for each in recorded("google.generateContent") if not each["stream"]]
    passed = 0
    for record in found:
        document = json.loads(record["response_text"])
        if record["status"] != 200 or "batch" in record["request"]:
            continue
        message, _ = answered([record["response_text"].encode()], whole=True)
        content = (document.get("candidates") or [{}])[0].get("content") or {}
        parts = without_bare_thoughts(content.get("parts", []))
        expected = [{"role": "model", "parts": parts}] if parts else []
        assert sent_back(message)["contents"] == expected, key(record)
        passed += 1

    assert passed == 326


@recordings
@pytest.mark.req("PRV-2", "RSN-1")
def test_every_recorded_stream_reads_the_same_however_it_is_cut() -> None:
    dice = random.Random(7)
    streams = [each for each in recorded("google.generateContent") if each["stream"]]
    for record in streams:
        raw = record["response_text"].encode()
        places = sorted({0, len(raw), *dice.choices(range(len(raw)), k=50)})
        cut = [raw[start:end] for start, end in pairwise(places)]

        message, finished = answered([raw], whole=False)
        again, ended = answered(cut, whole=False)

        assert finished == ended
        assert sent_back(again) == sent_back(message)
        events = [json.loads(line[5:]) for line in raw.splitlines() if line[:5] == b"data:"]
        seals = [seal for _, seal in tokens(events)]
        assert [seal for _, seal in tokens(sent_back(message))] == seals, key(record)

    assert len(streams) == 87
