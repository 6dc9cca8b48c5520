import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.reasoning import Echoes, ReasoningPolicy, ReasoningReader
from clew.core.ids import CallId, new_call_id
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
from clew.providers.protocol import Request
from clew.providers.wire.gemini import encode as gemini
from tests.rows import each_row

READER = ReasoningReader("gemini", Echoes.OWN_ISSUED)
READ = ToolCall(call_id=CallId("api1"), name="Read", arguments='{"path" : "a\\n.py"}')
SIGNED = '{"thoughtSignature":"c2ln"}'


def encode(request: Request) -> bytes:
    return gemini.encode(request, gemini.message_cache(READER))


def sent(*messages: Message, model: str = "gemini-2.5-pro") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(encode(Request(model=model, messages=messages)))[
        "contents"
    ]
    return found


def sent_parts(*parts: Part, model: str = "gemini-2.5-pro") -> list[dict[str, Any]]:
    message = Message(role=Role.ASSISTANT, parts=parts, provenance="gemini")
    found: list[dict[str, Any]] = sent(message, model=model)[0]["parts"]
    return found


@pytest.mark.req("PRV-1")
def test_the_exact_body_of_a_request_with_everything_in_it() -> None:
    request = Request(
        model="gemini-2.5-pro",
        system="Be brief.",
        tools=(ToolSpec(name="Read", description="Reads.", schema={"type": "object"}),),
        native_tools=({"googleSearch": {}},),
        max_output_tokens=100,
        temperature=0.5,
        options={
            "generationConfig": {"topP": 0.9, "temperature": 0.1},
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        },
        messages=(
            user("look", Image(data=b"png"), Image(url="https://example.org/a.png")),
            replace(
                assistant(
                    Reasoning(text="hm", signature="s1", provenance="gemini"),
                    "I read.",
                    replace(READ, extra=SIGNED),
                ),
                provenance="gemini",
            ),
            tool_result(READ, "gone", failed=True),
            assistant("no"),
            user("why?"),
        ),
    )

    assert encode(request).decode() == (
        '{"systemInstruction":{"parts":[{"text":"Be brief."}]},'
        '"tools":[{"googleSearch":{}},{"functionDeclarations":[{"name":"Read",'
        '"description":"Reads.","parametersJsonSchema":{"type":"object"}}]}],'
        '"generationConfig":{"maxOutputTokens":100,"temperature":0.1,"topP":0.9},'
        '"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},'
        '"contents":[{"role":"user","parts":[{"text":"look"},'
        '{"inlineData":{"mimeType":"image/png","data":"cG5n"}},'
        '{"fileData":{"mimeType":"image/png","fileUri":"https://example.org/a.png"}}]},'
        '{"role":"model","parts":[{"text":"hm","thought":true,"thoughtSignature":"s1"},'
        '{"text":"I read."},{"functionCall":{"id":"api1","name":"Read",'
        '"args":{"path" : "a\\n.py"}},"thoughtSignature":"c2ln"}]},'
        '{"role":"user","parts":[{"functionResponse":{"id":"api1","name":"Read",'
        '"response":{"error":"gone"}}}]},'
        '{"role":"model","parts":[{"text":"no"}]},'
        '{"role":"user","parts":[{"text":"why?"}]}]}'
    )


def test_a_minimal_request_has_no_extra_fields() -> None:
    assert encode(Request(model="m", messages=(user("hi"),))) == (
        b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'
    )
    assert encode(Request(model="m", messages=())) == b'{"contents":[]}'


def test_messages_of_one_side_in_a_row_make_one_content() -> None:
    calls = [
        ToolCall(call_id=CallId(name), name="Read", arguments='{"p":1}') for name in ("a", "b")
    ]

    contents = sent(
        user("one"),
        user("two"),
        assistant(*calls),
        *(tool_result(call, call.call_id) for call in calls),
        user("and?"),
    )

    assert [(each["role"], len(each["parts"])) for each in contents] == [
        ("user", 2),
        ("model", 2),
        ("user", 3),
    ]
    assert [part["functionResponse"]["id"] for part in contents[2]["parts"][:2]] == ["a", "b"]


def test_an_id_that_clew_made_up_is_not_sent() -> None:
    own = replace(READ, call_id=new_call_id())

    model, result = sent(assistant(own), tool_result(own, "ok"))

    assert "id" not in model["parts"][0]["functionCall"]
    assert "id" not in result["parts"][0]["functionResponse"]


@pytest.mark.parametrize("text", ["", "{}"])
def test_a_call_without_arguments_has_an_empty_object(text: str) -> None:
    assert sent_parts(replace(READ, arguments=text))[0]["functionCall"]["args"] == {}


@pytest.mark.parametrize("text", ['{"path": ', "[1]", "null", "word"])
def test_arguments_that_are_no_object_are_wrapped_in_one(text: str) -> None:
    found = sent_parts(replace(READ, arguments=text))

    assert found[0]["functionCall"]["args"] == {"arguments": text}


@each_row(
    ("model", "new"),
    [
        ("gemini-3-pro-preview", True),
        ("models/gemini-3.1-flash", True),
        ("publishers/google/models/gemini-10-ultra", True),
        ("gemini-flash-latest", True),
        ("gemini-2.5-pro", False),
        ("gemini-2.0-flash", False),
        ("gemma-3-27b-it", False),
        ("", False),
    ],
)
def test_the_generation_of_a_model_is_in_its_name(model: str, *, new: bool) -> None:
    assert gemini.is_gemini_3_or_later(model) is new


@pytest.mark.req("RSN-5")
def test_gemini_3_gets_a_placeholder_for_the_signature_of_each_step_that_lacks_one() -> None:
    history = (
        user("go"),
        assistant("first", READ, replace(READ, call_id=CallId("api2"))),
        tool_result(READ, "ok"),
        assistant(replace(READ, call_id=CallId("api3"))),
    )

    new, old = (sent(*history, model=model) for model in ("gemini-3-pro", "gemini-2.5-pro"))

    assert [part.get("thoughtSignature") for part in new[1]["parts"]] == [
        None,
        gemini.UNSIGNED,
        None,
    ]
    assert new[3]["parts"][0]["thoughtSignature"] == gemini.UNSIGNED
    assert "thoughtSignature" not in json.dumps(old)


@pytest.mark.req("RSN-1")
def test_a_signature_is_never_replaced() -> None:
    found = sent_parts(
        replace(READ, extra=SIGNED), replace(READ, call_id=CallId("b")), model="gemini-3-pro"
    )

    assert [part.get("thoughtSignature") for part in found] == ["c2ln", None]


@pytest.mark.req("RSN-5")
def test_the_signatures_of_another_family_are_not_sent() -> None:
    foreign = replace(
        assistant(
            Reasoning(text="hm", signature="theirs", provenance="anthropic"),
            replace(READ, extra='{"signature":"theirs"}'),
        ),
        provenance="anthropic",
    )

    found = sent(foreign, model="gemini-3-pro")

    assert "theirs" not in json.dumps(found)
    assert found[0]["parts"][0]["thoughtSignature"] == gemini.UNSIGNED


def test_a_thought_without_a_signature_is_not_sent() -> None:
    mine = Reasoning(text="hm", provenance="gemini")

    assert sent(user("a"), assistant(mine), user("b")) == [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}
    ]
    assert sent_parts(replace(mine, redacted="x"), Text("t")) == [{"text": "t"}]


@pytest.mark.req("RSN-3")
def test_thinking_that_cannot_be_echoed_is_sent_as_words_on_request() -> None:
    request = Request(
        model="m",
        messages=(assistant(Reasoning(text="hm")),),
        reasoning=ReasoningPolicy(as_text=True),
    )

    assert b"<thinking>hm</thinking>" in encode(request)


def test_pictures_in_a_result_go_where_the_model_looks_for_them() -> None:
    images = (Image(data=b"png"), Image(url="https://example.org/a.png"))
    result = ToolResult(call_id=CallId("a"), name="Shot", text="done", images=images)
    message = Message(role=Role.TOOL, parts=(result,))
    inline = {"inlineData": {"mimeType": "image/png", "data": "cG5n"}}
    linked = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}}

    (old,), (new,) = (sent(message, model=model) for model in ("gemini-2.5-pro", "gemini-3-pro"))

    response = {"id": "a", "name": "Shot", "response": {"output": "done"}}
    assert old["parts"] == [{"functionResponse": response}, inline, linked]
    assert new["parts"] == [{"functionResponse": {**response, "parts": [inline]}}, linked]


def test_files_are_sent_with_what_only_gemini_knows_of_them() -> None:
    film = File(media_type="video/mp4", url="gs://b/a.mp4", extra='{"videoMetadata":{"fps":2}}')

    assert sent_parts(
        film,
        File(media_type="", url="https://youtu.be/x"),
        File(media_type="application/pdf", data=b"%PDF"),
        Image(url="data:image/gif;base64,R0lG"),
    ) == [
        {
            "fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/a.mp4"},
            "videoMetadata": {"fps": 2},
        },
        {"fileData": {"fileUri": "https://youtu.be/x"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
        {"inlineData": {"mimeType": "image/gif", "data": "R0lG"}},
    ]


def test_a_native_block_is_sent_byte_for_byte() -> None:
    block = '{"executableCode": {"code" :"1" },"thoughtSignature":"c2ln"}'
    message = assistant(Native(provenance="gemini", data=block))

    assert block.encode() in encode(Request(model="m", messages=(message,)))


def test_a_tool_may_be_declared_in_the_older_dialect() -> None:
    old: dict[str, object] = {"type": "OBJECT", "properties": {"p": {"type": "STRING"}}}
    tools = (
        ToolSpec(name="A", description="", schema=old, extra={"parameters": old}),
        ToolSpec(name="B", description="", schema={}),
    )

    found = json.loads(encode(Request(model="m", messages=(), tools=tools)))

    assert found["tools"] == [
        {
            "functionDeclarations": [
                {"name": "A", "description": "", "parameters": old},
                {"name": "B", "description": ""},
            ]
        }
    ]


def test_a_request_is_counted_with_all_that_belongs_to_it() -> None:
    request = Request(model="gemini-3-pro", messages=(user("hi"),), system="s")

    found = gemini.encode_count(request, gemini.message_cache(READER), model="models/gemini-3-pro")

    assert found == (
        b'{"generateContentRequest":{"systemInstruction":{"parts":[{"text":"s"}]},'
        b'"model":"models/gemini-3-pro","contents":[{"role":"user","parts":[{"text":"hi"}]}]}}'
    )


texts = st.text(max_size=20)
pictures = st.builds(Image, data=st.binary(max_size=5))
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts),
    pictures,
    st.builds(Reasoning, text=texts, signature=texts, provenance=st.just("gemini")),
    st.builds(ToolCall, call_id=texts.map(CallId), name=texts, arguments=texts),
    st.builds(
        ToolResult,
        call_id=texts.map(CallId),
        name=texts,
        text=texts,
        failed=st.booleans(),
        images=st.lists(pictures, max_size=1).map(tuple),
    ),
)
messages = st.builds(
    Message, role=st.sampled_from(Role), parts=st.lists(parts, max_size=4).map(tuple)
)
models = st.sampled_from(["gemini-2.5-pro", "gemini-3-pro"])


@pytest.mark.req("PRV-6")
@given(st.lists(messages, min_size=1, max_size=8), models)
def test_appending_a_message_changes_no_byte_before_it(history: list[Message], model: str) -> None:
    longer = Request(model=model, system="s", messages=tuple(history))
    shorter = replace(longer, messages=longer.messages[:-1])

    json.loads(encode(longer))
    assert encode(longer).startswith(encode(shorter).removesuffix(b"]}").removesuffix(b"]}"))


@given(st.lists(messages, max_size=8), st.integers(0, 200), models)
def test_remembered_fragments_change_no_byte(
    history: list[Message], limit: int, model: str
) -> None:
    request = Request(model=model, system="s", messages=tuple(history))
    kept = gemini.message_cache(READER, limit=limit)

    for _ in range(2):
        assert gemini.encode(request, kept) == encode(request)
