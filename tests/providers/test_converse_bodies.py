import json
from typing import Any

import pytest
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningReader
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
    assistant,
    tool_result,
    user,
)
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.converse import encode as converse

READER = ReasoningReader("bedrock", Echoes.OWN_ISSUED)
READ = ToolCall(call_id=CallId("c1"), name="Read", arguments='{"path" : "a\\n.py"}')
SPEC = ToolSpec(name="Read", description="Reads.", schema={"type": "object"})
SEALED = Reasoning(text="hm", provenance="bedrock", signature="seal")


def encode(request: Request) -> bytes:
    return converse.encode(request, converse.message_cache(READER))


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(Request(model="m", messages=messages, **fields)))
    return found


def sent(*messages: Message) -> list[tuple[str, list[Any]]]:
    return [(each["role"], each["content"]) for each in body(*messages)["messages"]]


def text(words: str) -> dict[str, str]:
    return {"text": words}


@pytest.mark.req("PRV-1")
def test_the_exact_body_of_a_request_with_everything_in_it() -> None:
    request = Request(
        model="m",
        system="Be brief.",
        tools=(SPEC,),
        native_tools=({"systemTool": {"name": "nova_grounding"}},),
        max_output_tokens=100,
        temperature=0.5,
        options={"inferenceConfig": {"topP": 0.9}, "serviceTier": {"type": "flex"}},
        messages=(
            user("look", Image(data=b"png"), Image(url="s3://b/a.jpg", media_type="image/jpeg")),
            assistant(SEALED, "I read.", READ),
            tool_result(READ, "gone", failed=True),
            assistant(Reasoning(provenance="bedrock", redacted="cmVk"), "no"),
            user("why?"),
        ),
    )

    assert encode(request).decode() == (
        '{"system":[{"text":"Be brief."}],'
        '"toolConfig":{"tools":[{"toolSpec":{"name":"Read","description":"Reads.",'
        '"inputSchema":{"json":{"type":"object"}}}},{"systemTool":{"name":"nova_grounding"}}]},'
        '"inferenceConfig":{"maxTokens":100,"temperature":0.5,"topP":0.9},'
        '"serviceTier":{"type":"flex"},'
        '"messages":[{"role":"user","content":[{"text":"look"},'
        '{"image":{"format":"png","source":{"bytes":"cG5n"}}},'
        '{"image":{"format":"jpeg","source":{"s3Location":{"uri":"s3://b/a.jpg"}}}}]},'
        '{"role":"assistant","content":[{"reasoningContent":{"reasoningText":'
        '{"text":"hm","signature":"seal"}}},{"text":"I read."},'
        '{"toolUse":{"toolUseId":"c1","name":"Read","input":{"path" : "a\\n.py"}}}]},'
        '{"role":"user","content":[{"toolResult":{"toolUseId":"c1",'
        '"content":[{"text":"gone"}],"status":"error"}}]},'
        '{"role":"assistant","content":[{"reasoningContent":{"redactedContent":"cmVk"}},'
        '{"text":"no"}]},'
        '{"role":"user","content":[{"text":"why?"}]}]}'
    )


def test_a_minimal_request_has_no_extra_fields() -> None:
    assert encode(Request(model="m", messages=(user("hi"),))) == (
        b'{"messages":[{"role":"user","content":[{"text":"hi"}]}]}'
    )


def test_messages_in_one_role_are_one_and_blank_words_are_none() -> None:
    other = replace(READ, call_id=CallId("c2"))
    found = sent(
        user(" \n"),
        user("a"),
        user("b"),
        assistant("c", ""),
        assistant(" "),
        assistant(READ, other),
        tool_result(READ, "1"),
        tool_result(other, "2"),
        user("d"),
    )

    assert [role for role, _ in found] == ["user", "assistant", "user"]
    assert found[0][1] == [text("a"), text("b")]
    assert [next(iter(block)) for block in found[1][1]] == ["text", "toolUse", "toolUse"]
    assert [next(iter(block)) for block in found[2][1]] == ["toolResult", "toolResult", "text"]


@pytest.mark.req("PRV-3")
def test_an_answer_never_ends_with_a_thought() -> None:
    found = sent(user("a"), assistant(SEALED), user("b"), assistant(SEALED, "c", SEALED))

    assert [role for role, _ in found] == ["user", "assistant"]
    assert [next(iter(block)) for block in found[1][1]] == ["reasoningContent", "text"]


def test_a_conversation_that_begins_with_an_answer_gets_an_opening() -> None:
    assert sent(assistant("hi"), user("yes")) == [
        ("user", [text(converse.OPENING)]),
        ("assistant", [text("hi")]),
        ("user", [text("yes")]),
    ]


def test_notes_replace_media_that_bedrock_does_not_support() -> None:
    page = Image(url="https://example.org/a.png")
    archive = File(media_type="application/zip", data=b"PK", name="a.zip")
    drawn = assistant("here", Image(data=b"png"))

    found = sent(Message(role=Role.USER, parts=(page, archive)), drawn)

    assert found[0][1] == [
        text("[A picture (image/png) that cannot be shown here: https://example.org/a.png.]"),
        text("[A file (application/zip) that cannot be shown here: a.zip.]"),
    ]
    assert found[1][1] == [text("here"), text("[A picture (image/png) that cannot be shown here.]")]


def test_files_are_documents_films_or_recordings_by_their_type() -> None:
    files = (
        File(media_type="application/pdf", data=b"a", name="Q3 report (final).pdf"),
        File(media_type="text/x-python", data=b"b"),
        File(media_type="video/mp4", url="s3://b/c.mp4"),
        File(media_type="audio/wav", data=b"d"),
    )
    blocks = sent(Message(role=Role.USER, parts=(Text("see"), *files)))[0][1]

    assert blocks[1:] == [
        {
            "document": {
                "name": "Q3 report (final)-pdf",
                "format": "pdf",
                "source": {"bytes": "YQ=="},
            }
        },
        {"document": {"name": "Document", "format": "txt", "source": {"bytes": "Yg=="}}},
        {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/c.mp4"}}}},
        {"audio": {"format": "wav", "source": {"bytes": "ZA=="}}},
    ]


def test_no_two_documents_have_one_name_and_none_stands_without_words() -> None:
    report = Message(
        role=Role.USER,
        parts=(
            File(media_type="text/plain", data=b"a", name="report"),
            File(media_type="text/plain", data=b"b", name="報告"),
        ),
    )
    found = sent(report, assistant("ok"), report, assistant("ok"), report)

    assert found[0][1][0] == text("See the attached document.")
    names = [block["document"]["name"] for _, blocks in found for block in blocks[1:]]
    assert names == ["report", "Document", "report 2", "Document 2", "report 3", "Document 3"]


def test_ids_and_names_of_other_providers_are_made_to_fit() -> None:
    call = ToolCall(call_id=CallId("call|" + "x" * 90), name="fs.read file", arguments="{}")
    found = sent(assistant(call), tool_result(call, "ok"))

    made = found[1][1][0]["toolUse"]
    assert made["name"] == "fs_read_file"
    assert len(made["toolUseId"]) <= 64
    assert found[2][1][0]["toolResult"]["toolUseId"] == made["toolUseId"]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ('{"a":1e400, "b":[]}', '{"a":1e400, "b":[]}'),
        ("", "{}"),
        ('{"a": ', '{"arguments":"{\\"a\\": "}'),
        ("[1]", '{"arguments":"[1]"}'),
    ],
)
def test_arguments_keep_their_bytes_and_are_always_an_object(arguments: str, given: str) -> None:
    request = Request(model="m", messages=(assistant(replace(READ, arguments=arguments)),))

    assert f'"input":{given}}}'.encode() in encode(request)


def test_a_result_holds_words_and_pictures_and_is_never_empty() -> None:
    picture = Image(data=b"png")
    results = tuple(
        ToolResult(call_id=CallId("c1"), name="Read", text=words, images=images)
        for words, images in (("a", (picture,)), ("", (picture,)), (" ", ()))
    )
    blocks = sent(assistant(READ), Message(role=Role.TOOL, parts=results))[2][1]

    shown = {"image": {"format": "png", "source": {"bytes": "cG5n"}}}
    assert [block["toolResult"]["content"] for block in blocks] == [
        [text("a"), shown],
        [shown],
        [text("(no output)")],
    ]


def test_tools_that_the_conversation_mentions_are_declared_when_none_are() -> None:
    server = '{"toolUse":{"toolUseId":"s","name":"nova_grounding","input":{}}}'
    history = (
        user("hi"),
        assistant(READ, Native(provenance="bedrock", data=server)),
        tool_result(READ, "ok"),
    )

    declared = body(*history)["toolConfig"]["tools"]

    assert [next(iter(tool)) for tool in declared] == ["toolSpec", "systemTool"]
    assert declared[0]["toolSpec"]["name"] == "Read"
    assert declared[1]["systemTool"] == {"name": "nova_grounding"}
    assert "toolConfig" not in body(user("hi"), options={"toolConfig": {"toolChoice": {"any": {}}}})
    assert body(*history, tools=(SPEC,), options={"toolConfig": {"toolChoice": {"any": {}}}})[
        "toolConfig"
    ] == {
        "tools": [
            {
                "toolSpec": {
                    "name": "Read",
                    "description": "Reads.",
                    "inputSchema": {"json": {"type": "object"}},
                }
            }
        ],
        "toolChoice": {"any": {}},
    }
