"""Servers that send something else than their API says: an error of ours, never a crash."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from clew.core.errors import ProviderError
from clew.core.messages import Message, Native, Role, user
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Request
from clew.providers.sse import ServerEvent
from clew.providers.wire.base_decoder import Decoder
from tests.providers.formats import FORMATS, READER, Format, name_of
from tests.providers.streams import STREAMS, Said, event

WRONG: tuple[Any, ...] = ([], {}, ["x"], {"a": 1}, [[]], 1, -1.5, True, "x", "", None)
SAID = Said(thoughts=("hm",), words=("Hel", "lo"), arguments=("pa", "th"))
ODD = {
    "anthropic": [
        event(
            type="content_block_start",
            index=7,
            content_block={
                "type": "web_search_tool_result",
                "tool_use_id": "s1",
                "content": [{"type": "web_search_result", "url": "u", "title": "t"}],
            },
        ),
        event(type="content_block_stop", index=7),
    ],
    "chat": [
        event(
            choices=[
                {
                    "delta": {
                        "reasoning_details": [
                            {"type": "reasoning.text", "text": "a", "index": 0, "id": "r"}
                        ],
                        "executed_tools": [{"index": 0, "type": "search", "output": "o"}],
                        "annotations": [{"url_citation": {"url": "u", "title": "t"}}],
                        "images": [{"image_url": {"url": "data:image/png;base64,AAAA"}}],
                    }
                }
            ]
        )
    ]
    * 2,
    "converse": [
        event(
            "contentBlockStart",
            contentBlockIndex=5,
            start={"toolUse": {"toolUseId": "s", "name": "n", "type": "server_tool_use"}},
        ),
        event("contentBlockStop", contentBlockIndex=5),
    ],
    "gemini": [
        event(
            candidates=[
                {
                    "content": {
                        "parts": [
                            {"executableCode": {"code": "1", "id": "x"}},
                            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                            {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"q": "a"}}},
                            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                        ]
                    },
                    "groundingMetadata": {
                        "webSearchQueries": ["a"],
                        "groundingChunks": [{"web": {"uri": "u", "title": "t"}}],
                    },
                    "urlContextMetadata": {
                        "urlMetadata": [{"retrievedUrl": "u", "urlRetrievalStatus": "x"}]
                    },
                }
            ]
        )
    ],
    "responses": [
        event(
            type="response.output_item.added",
            output_index=9,
            item={"type": "custom_tool_call", "name": "x_user_search", "call_id": "c", "id": "i"},
        ),
        event(
            type="response.output_item.done",
            output_index=9,
            item={
                "type": "web_search_call",
                "id": "w",
                "status": "completed",
                "action": {"query": "q", "sources": [{"url": "u"}]},
            },
        ),
        event(type="error", error={"code": "slow_down", "message": "m"}),
    ],
}


def spoilt(value: Any) -> Iterator[Any]:
    """Yield `value` with each of its fields replaced by each wrong thing in turn."""
    yield from WRONG
    if isinstance(value, dict):
        for name, inner in value.items():
            for other in spoilt(inner):
                yield {**value, name: other}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for other in spoilt(inner):
                yield [*value[:place], other, *value[place + 1 :]]


def answer(decoder: Decoder, events: list[ServerEvent]) -> Message | None:
    """Return what can be made of `events`; None if that is an error of ours."""
    assembly = MessageBuilder(provenance="host")
    try:
        for each in events:
            for chunk in decoder.feed(each):
                assembly.add(chunk)
        assembly.add(decoder.close())
    except ProviderError:
        return None
    return assembly.message()


@pytest.mark.parametrize("wire", FORMATS, ids=name_of)
@pytest.mark.req("PRV-2")
def test_a_field_of_another_type_is_an_error_of_ours_or_nothing(wire: Format) -> None:
    stream = STREAMS[wire.name](SAID)
    events = [*stream.pieces, *ODD[wire.name], stream.ending, *stream.rest, stream.error]
    tried = 0

    for place, each in enumerate(events):
        if not each.data.startswith("{"):
            continue
        for other in spoilt(json.loads(each.data)):
            wrong = ServerEvent(json.dumps(other), each.name)
            found = answer(wire.decoder("host"), [*events[:place], wrong, *events[place + 1 :]])
            if found is not None:
                # What was taken in can be sent back: it would be in every request from now on.
                request = Request(model="m", messages=(user("a"), found))
                json.loads(wire.encode(request, wire.kept(READER)))
            tried += 1

    assert tried > 300


@pytest.mark.parametrize("wire", FORMATS, ids=name_of)
@pytest.mark.parametrize("field", ["type", "id", "tool_use_id", "name"])
def test_a_block_of_a_strange_shape_is_sent_back_all_the_same(wire: Format, field: str) -> None:
    for wrong in (each for each in WRONG if not isinstance(each, str)):
        data = json.dumps({"toolUse": {field: wrong}, "type": "some_call", field: wrong})
        native = Native(provenance=READER.provenance, data=data)
        message = Message(role=Role.ASSISTANT, parts=(native,), provenance=READER.provenance)

        assert (
            data
            in wire.encode(
                Request(model="m", messages=(user("a"), message)), wire.kept(READER)
            ).decode()
        )
