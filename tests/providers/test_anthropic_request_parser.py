"""Recorded requests of the Messages API, read back."""

import json
import random
import sys
from collections import Counter
from typing import Any

import pytest

from clew.core.errors import ProviderError
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
from clew.providers.wire.anthropic.encode import encode, message_cache
from clew.testing.request_parsers.anthropic import parse_request
from tests.recordings import anthropic as harness
from tests.recordings.checks import check_request, check_tokens, cut, parse, shape
from tests.recordings.records import PRESENT, Record, answer_bytes, is_whole, key, records
from tests.recordings.records import round_trips as known_round_trips
from tests.rows import each_row


def read(*messages: dict[str, Any], **fields: Any) -> Request:
    body = {"model": "m", **fields, "messages": messages}
    return parse_request(json.dumps(body).encode(), provenance="anthropic")


def content(*blocks: dict[str, Any], role: str = "user") -> tuple[Message, ...]:
    return read({"role": role, "content": blocks}).messages


def test_what_has_a_place_in_a_request_is_put_there() -> None:
    schema: dict[str, object] = {"type": "object"}
    tools: list[dict[str, Any]] = [
        {"type": "web_search_20250305", "name": "web_search"},
        {"name": "Read", "description": "Reads.", "input_schema": schema, "strict": True},
    ]

    found = read(
        {"role": "user", "content": "hi"},
        system=[{"type": "text", "text": "Be brief."}],
        max_tokens=5,
        temperature=0.5,
        tools=tools,
        stream=True,
        top_k=3,
    )

    assert found == Request(
        model="m",
        messages=(user("hi"),),
        system="Be brief.",
        tools=(ToolSpec(name="Read", description="Reads.", schema=schema, extra={"strict": True}),),
        native_tools=(tools[0],),
        max_output_tokens=5,
        temperature=0.5,
        options={"top_k": 3},
    )


def test_a_system_prompt_that_says_more_than_its_words_is_kept_as_it_was() -> None:
    blocks = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]
    two = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert read(system="a").system == "a"
    assert (read(system=blocks).system, read(system=blocks).options) == ("a", {"system": blocks})
    assert (read(system=two).system, read(system=two).options) == ("a\n\nb", {"system": two})


def test_the_blocks_of_an_answer_become_parts() -> None:
    (message,) = content(
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "so", "citations": [1]},
        {"type": "tool_use", "id": "c1", "name": "Read", "input": {"p": 1.0}},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        role="assistant",
    )

    asked = '{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}'
    found = '{"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}'
    assert message == Message(
        role=Role.ASSISTANT,
        provenance="anthropic",
        parts=(
            Reasoning(text="hm", provenance="anthropic", signature="sig"),
            Reasoning(redacted="xyz", provenance="anthropic"),
            Text("so", '{"citations":[1]}'),
            ToolCall(call_id=CallId("c1"), name="Read", arguments='{"p": 1.0}'),
            Native(provenance="anthropic", data=asked, note="[web_search: q]"),
            Native(provenance="anthropic", data=found, note="[web_search answered]"),
        ),
    )


def test_results_know_their_tool_and_stand_before_the_users_words() -> None:
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "eA=="},
    }
    odd = [{"type": "tool_reference", "tool_name": "x"}]
    found = read(
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "Read", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [{"type": "text", "text": "no"}, picture],
                    "is_error": True,
                },
                {"type": "tool_result", "tool_use_id": "c2", "content": odd},
                {"type": "text", "text": "why?"},
            ],
        },
    )

    results = (
        ToolResult(
            call_id=CallId("c1"), name="Read", text="no", failed=True, images=(Image(data=b"x"),)
        ),
        ToolResult(
            call_id=CallId("c2"), name="", text="x", extra=f'{{"content":{json.dumps(odd)}}}'
        ),
    )
    assert found.messages[1:] == (
        Message(role=Role.TOOL, parts=results, provenance="anthropic"),
        user("why?"),
    )


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            {"type": "image", "source": {"type": "url", "url": "https://u"}, "x": 1},
            Image(url="https://u", extra='{"x":1}'),
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://u"}, "title": "t"},
            File(media_type="application/pdf", url="https://u", name="t"),
        ),
        (
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "ä"},
                "citations": {"enabled": True},
            },
            File(
                media_type="text/plain", data="ä".encode(), extra='{"citations":{"enabled": true}}'
            ),
        ),
        (
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "eA=="},
                "title": None,
            },
            File(media_type="application/pdf", data=b"x", extra='{"title":null}'),
        ),
    ],
)
def test_pictures_and_documents_are_read(block: dict[str, Any], part: Image | File) -> None:
    assert content(block)[0].parts == (part,)


@each_row(
    ("block", "note"),
    [
        (
            {"type": "image", "source": {"type": "file", "file_id": "f"}},
            "[A picture: f]",
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}},
            "[A picture]",
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "a/b", "data": "eA=="}},
            "[A picture]",
        ),
        (
            {
                "type": "document",
                "title": "t",
                "source": {"type": "content", "content": [{"type": "text", "text": "x"}]},
            },
            "[A document: t; x]",
        ),
        ({"type": "document", "source": {"type": "url", "url": "gs://u"}}, "[A document: gs://u]"),
        ({"type": "container_upload", "file_id": "f"}, "[A file in the container: f]"),
        ({"type": "novelty"}, ""),
    ],
)
def test_what_has_no_common_form_is_kept_as_it_was(block: dict[str, Any], note: str) -> None:
    kept = Native(provenance="anthropic", data=json.dumps(block), note=note)

    assert content(block) == (Message(role=Role.USER, parts=(kept,), provenance="anthropic"),)


def test_a_message_of_the_system_is_kept_as_it_was() -> None:
    aside = {"role": "system", "content": [{"type": "text", "text": "Rhyme."}]}

    (message,) = read(aside).messages

    assert message.parts == (Native(provenance="anthropic", data=json.dumps(aside)),)


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"requests":[]}', b'{"messages":[{"role":1}]}'])
def test_an_invalid_request_body_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_request(body, provenance="anthropic")


def covered() -> list[Record]:
    return [r for r in records() if r["api"] in harness.APIS or harness.claims(r)]


def is_batch(record: Record) -> bool:
    text = record["response_text"] or ""
    return text.startswith(('{"id":"msgbatch_', '{"custom_id"'))


@pytest.mark.skipif(not PRESENT, reason="the recordings are not here")
@pytest.mark.req("PRV-2")
def test_every_recorded_answer_is_read_however_it_is_cut() -> None:
    dice = random.Random(7)
    seen: Counter[str] = Counter()
    for record in covered():
        if record["api"] == "anthropic.count_tokens" or is_batch(record):
            continue
        raw, whole = answer_bytes(record), is_whole(record)
        try:
            found = parse(harness, [raw], whole=whole)
        except ProviderError:
            assert record["status"] >= 400
            seen["errors"] += 1
            continue
        if not whole:
            assert shape(parse(harness, cut(raw, dice), whole=False)) == shape(found)
        seen["whole" if whole else "streams"] += 1

    sys.stdout.write(f"{dict(seen)}\n")
    assert (seen["whole"] + seen["streams"], seen["errors"]) == (547, 4)


def whole_answer(record: Record) -> dict[str, Any]:
    """Return an answer that came in one piece; nothing for lines of several."""
    try:
        found: dict[str, Any] = json.loads(answer_bytes(record))
    except ValueError:
        return {}
    return found


def expected(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks of an answer as they are to be sent back."""
    calls = {block.get("id") for block in content}
    kept = [
        {name: value for name, value in block.items() if name != "citations" or value}
        for block in content
        if (block["type"] != "text" or block["text"].strip())
        # An answer to a call in an earlier message would be sent with that one.
        and block.get("tool_use_id") in {None, *calls}
    ]
    if kept and kept[-1]["type"] == "text":
        kept[-1]["text"] = kept[-1]["text"].rstrip()
    return kept


@pytest.mark.skipif(not PRESENT, reason="the recordings are not here")
@pytest.mark.req("PRV-5", "RSN-1")
def test_every_recorded_answer_is_sent_back_block_for_block() -> None:
    blocks = 0
    for record in filter(is_whole, covered()):
        answer = whole_answer(record)
        if answer.get("type") != "message":
            continue
        message, _ = parse(harness, [answer_bytes(record)], whole=True)
        request = Request(model="m", messages=(user("a"), message))
        (_, *turns) = json.loads(encode(request, message_cache(harness.READER)))["messages"]
        wanted = expected(answer["content"])
        assert [block for turn in turns for block in turn["content"]] == wanted, record["file"]
        blocks += len(wanted)

    assert blocks == 1_082


@pytest.mark.skipif(not PRESENT, reason="the recordings are not here")
@pytest.mark.req("PRV-1", "RSN-1")
def test_every_recorded_request_is_written_again_as_it_was() -> None:
    seen: Counter[str] = Counter()
    for record in covered():
        body = record["request"]
        if body is None or "messages" not in body:
            continue
        assert not check_request(harness, body), record["file"]
        seen["requests"] += 1
        if key(record) in known_round_trips():
            assert not check_tokens(harness, body), record["file"]
            seen["with tokens"] += 1

    sys.stdout.write(f"{dict(seen)}\n")
    assert seen == {"requests": 492, "with tokens": 24}
