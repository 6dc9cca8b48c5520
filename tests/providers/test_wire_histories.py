"""Histories that another model, a limit or an abort left behind, sent to strict servers."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.reasoning import ReasoningPolicy, ReasoningReader
from clew.core.ids import CallId
from clew.core.messages import (
    File,
    Image,
    Message,
    Native,
    Role,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_result,
    user,
)
from clew.providers.openai_chat import dialect_for
from clew.providers.profiles import PROFILES
from clew.providers.protocol import Request
from clew.providers.wire.chat import encode as chat
from clew.providers.wire.chat.dialect import NAMES, Dialect
from clew.providers.wire.chat.encode import BRIDGE
from clew.providers.wire.sanitize import NameRule, sanitize_arguments, sanitize_name
from tests.providers.formats import FORMATS, Format, name_of

READ = ToolCall(call_id=CallId("c1"), name="Read", arguments='{"path" : "a\\n.py"}')
MISTRAL = PROFILES["mistral"].dialect
LOCAL = PROFILES["gemma"].dialect
OPENAI = dialect_for("https://api.openai.com/v1")
NINE = re.compile(r"[a-zA-Z0-9]{9}")

every_format = pytest.mark.parametrize("wire", FORMATS, ids=name_of)


def called(call: ToolCall) -> tuple[Message, ...]:
    return user("go"), assistant(call), tool_result(call, "done")


def sent(*messages: Message, dialect: Dialect, model: str = "m") -> list[dict[str, Any]]:
    request = Request(model=model, messages=messages, reasoning=ReasoningPolicy())
    kept = chat.message_cache(ReasoningReader("host"), dialect)
    found: list[dict[str, Any]] = json.loads(chat.encode(request, kept, dialect=dialect))[
        "messages"
    ]
    return found


def values(body: object, *names: str) -> list[Any]:
    """Return what stands under these names, anywhere in `body`."""
    if isinstance(body, list):
        return [found for each in body for found in values(each, *names)]
    if not isinstance(body, dict):
        return []
    here = [value for name, value in body.items() if name in names]
    return here + [found for value in body.values() for found in values(value, *names)]


def arguments_in(wire: Format, *messages: Message) -> Any:
    body = wire.body(Request(model="m", messages=messages))
    field = {"anthropic": "input", "converse": "input", "gemini": "args"}.get(wire.name)
    if field is not None:
        (found,) = values(body, field)
        return found
    (text,) = values(body, "arguments")
    return json.loads(text)


@every_format
@pytest.mark.parametrize(
    "arguments",
    ['{"path": "a', "not json", "[1, 2]", '"text"', "null", "NaN", '{"a": "\\ud83d"}'],
)
@pytest.mark.req("PRV-1")
def test_arguments_that_are_no_object_are_sent_inside_of_one(wire: Format, arguments: str) -> None:
    call = ToolCall(call_id=CallId("c1"), name="Read", arguments=arguments)

    assert arguments_in(wire, *called(call)) == {"arguments": arguments}


@every_format
def test_arguments_deeper_than_any_parser_goes_are_no_object(wire: Format) -> None:
    deep = '{"a":' * 200_000 + "1" + "}" * 200_000
    call = ToolCall(call_id=CallId("c1"), name="Read", arguments=deep)

    assert arguments_in(wire, *called(call)) == {"arguments": deep}


@every_format
def test_no_arguments_at_all_are_an_empty_object(wire: Format) -> None:
    call = ToolCall(call_id=CallId("c1"), name="Read", arguments=" \n")

    assert arguments_in(wire, *called(call)) == {}


@given(
    st.dictionaries(
        st.text(), st.text() | st.floats(allow_nan=False, allow_infinity=False) | st.none()
    )
)
def test_an_object_keeps_every_byte(fields: dict[str, Any]) -> None:
    text = json.dumps(fields, ensure_ascii=False, indent=1)

    assert sanitize_arguments(text) == text


NAMES_OF = {
    "anthropic": re.compile(r"[a-zA-Z0-9_-]{1,128}"),
    "converse": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    "gemini": re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"),
    "responses": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
}


@pytest.mark.parametrize("wire", [each for each in FORMATS if each.name in NAMES_OF], ids=name_of)
@pytest.mark.parametrize("name", ["", "functions.Read:0", "lesen/schreiben", "7up", "n" * 200])
def test_a_name_that_a_model_made_up_is_spelt_as_the_api_takes_it(wire: Format, name: str) -> None:
    call = ToolCall(call_id=CallId("c1"), name=name)

    body = wire.body(Request(model="m", messages=called(call)))
    found = values(body.get("messages") or body.get("contents") or body.get("input"), "name")

    assert found
    assert all(NAMES_OF[wire.name].fullmatch(each) for each in found)
    assert len(set(found)) == 1


@pytest.mark.parametrize("name", ["", "functions.Read:0", "n" * 65])
@pytest.mark.parametrize("dialect", [OPENAI, MISTRAL, PROFILES["groq"].dialect])
def test_strict_hosts_of_chat_completions_get_names_that_they_take(
    name: str, dialect: Dialect
) -> None:
    (_, answer, _) = sent(*called(ToolCall(call_id=CallId("c1"), name=name)), dialect=dialect)

    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", answer["tool_calls"][0]["function"]["name"])


def test_a_lenient_server_gets_every_name_as_it_is_but_never_none() -> None:
    names = [
        sent(*called(ToolCall(call_id=CallId("c"), name=name)), dialect=chat.PLAIN)[1][
            "tool_calls"
        ][0]["function"]["name"]
        for name in ("functions.Read:0", "")
    ]

    assert names[0] == "functions.Read:0"
    assert names[1] != ""


@pytest.mark.parametrize("call_id", ["", "toolu_01A", "call_" + "0" * 60, "a|b", "x" * 9])
def test_mistral_gets_ids_of_nine_letters_and_call_and_result_stay_a_pair(call_id: str) -> None:
    call = ToolCall(call_id=CallId(call_id), name="Read")

    (_, answer, result) = sent(*called(call), dialect=MISTRAL)

    assert NINE.fullmatch(answer["tool_calls"][0]["id"])
    assert answer["tool_calls"][0]["id"] == result["tool_call_id"]
    assert call_id != "x" * 9 or result["tool_call_id"] == call_id


@pytest.mark.parametrize("dialect", [OPENAI, PROFILES["openrouter"].dialect])
def test_openai_gets_no_id_of_more_than_forty_characters(dialect: Dialect) -> None:
    call = ToolCall(call_id=CallId("call_1|fc_" + "0" * 50), name="Read")

    (_, answer, result) = sent(*called(call), dialect=dialect)

    assert 0 < len(answer["tool_calls"][0]["id"]) <= 40
    assert answer["tool_calls"][0]["id"] == result["tool_call_id"]


RULES = (
    NAMES,
    NameRule(),
    NameRule(longest=40),
    NameRule(characters="a-zA-Z0-9", shortest=9, longest=9),
    NameRule(characters="a-zA-Z0-9_.:-", first="a-zA-Z_", longest=64),
)


@given(st.text(max_size=100), st.text(max_size=100), st.sampled_from(RULES))
def test_every_name_is_spelt_by_the_rule_and_different_ones_stay_different(
    one: str, other: str, rule: NameRule
) -> None:
    assert rule.accepts(sanitize_name(one, rule))
    assert sanitize_name(one, rule) == sanitize_name(one, rule)
    assert sanitize_name(sanitize_name(one, rule), rule) == sanitize_name(one, rule)
    assert (one == other) == (sanitize_name(one, rule) == sanitize_name(other, rule))


def aborted() -> tuple[Message, ...]:
    """Return what an abort leaves: results that nobody read, then a prompt that nobody answered."""
    return (*called(READ), user("stop"), user("and now this"))


@pytest.mark.parametrize("name", ["mistral", "vllm", "llama_cpp", "lm_studio", "gemma"])
@pytest.mark.req("PRV-1")
def test_an_answer_stands_between_results_and_the_next_words(name: str) -> None:
    roles = [each["role"] for each in sent(*aborted(), dialect=PROFILES[name].dialect)]

    assert roles[:5] == ["user", "assistant", "tool", "assistant", "user"]


def test_a_gateway_bridges_only_for_the_models_that_want_it() -> None:
    gateway = PROFILES["openrouter"].dialect

    mistral = sent(*aborted(), dialect=gateway, model="mistralai/devstral-medium")
    other = sent(*aborted(), dialect=gateway, model="openai/gpt-5-mini")

    assert [each["role"] for each in mistral][3:] == ["assistant", "user", "user"]
    assert [each["role"] for each in other][3:] == ["user", "user"]


def test_results_and_words_in_one_message_are_bridged_too() -> None:
    result = ToolResult(call_id=READ.call_id, name="Read", text="done")
    both = Message(role=Role.TOOL, parts=(result, Text("and look here")))

    found = sent(user("go"), assistant(READ), both, dialect=MISTRAL)

    assert [each["role"] for each in found][2:] == ["tool", "assistant", "user"]
    assert found[3]["content"] == BRIDGE


@pytest.mark.req("PRV-1")
def test_users_words_in_a_row_are_one_message_where_roles_must_alternate() -> None:
    found = sent(user("a"), user('b "quoted"'), assistant("c"), dialect=LOCAL)

    assert found == [
        {"role": "user", "content": 'a\n\nb "quoted"'},
        {"role": "assistant", "content": "c"},
    ]


def test_words_and_pictures_in_a_row_are_one_list_of_pieces() -> None:
    picture = user("look", Image(data=b"png"))

    (found,) = sent(user("a"), picture, user("b"), dialect=LOCAL)

    kinds = [piece["type"] for piece in found["content"]]
    assert kinds == ["text", "text", "image_url", "text"]
    assert [piece.get("text") for piece in found["content"]] == ["a", "look", None, "b"]


def test_answers_in_a_row_are_one_unless_the_first_calls_a_tool() -> None:
    joined = sent(user("a"), assistant("b"), assistant("c", READ), dialect=LOCAL)
    apart = sent(user("a"), assistant("b", READ), assistant("c"), dialect=LOCAL)

    assert joined[1]["content"] == "b\n\nc"
    assert [call["id"] for call in joined[1]["tool_calls"]] == ["c1"]
    assert [each["role"] for each in apart] == ["user", "assistant", "assistant"]


def test_a_call_without_words_joins_the_words_before_it() -> None:
    found = sent(user("a"), assistant("b"), assistant(READ), dialect=LOCAL)

    assert found[1]["content"] == "b"
    assert "tool_calls" in found[1]


def test_a_message_with_fields_of_its_own_is_left_alone() -> None:
    native = Native(provenance="host", data='{"role":"user","content":"b","name":"x"}')

    found = sent(user("a"), Message(role=Role.USER, parts=(native,)), user("c"), dialect=LOCAL)

    assert [each["content"] for each in found] == ["a", "b", "c"]


def test_what_was_sent_before_an_abort_is_the_beginning_of_what_is_sent_after() -> None:
    kept = chat.message_cache(ReasoningReader("host"), LOCAL)
    history = aborted()
    bodies = [
        chat.encode(Request(model="m", messages=history[:end]), kept, dialect=LOCAL)
        for end in range(1, len(history) + 1)
    ]

    for shorter, longer in pairwise(bodies):
        # A last message that goes on has no end yet.
        assert longer.startswith(shorter.removesuffix(b"]}").removesuffix(b'"}'))


@pytest.mark.parametrize("settled", [-3, 1, 2, 3, 50])
def test_more_settled_messages_than_there_are_mark_the_last(settled: int) -> None:
    gateway = PROFILES["openrouter"].dialect
    request = Request(
        model="anthropic/claude-haiku-4.5", messages=(user("a"), user("b")), settled=settled
    )

    body = chat.encode(
        request, chat.message_cache(ReasoningReader("host"), gateway), dialect=gateway
    )

    assert json.loads(body)["messages"][-1]["content"][0]["cache_control"]


@pytest.mark.parametrize("settled", [-3, 0, 1, 50])
@every_format
def test_any_number_of_settled_messages_is_taken(wire: Format, settled: int) -> None:
    messages = (user("a"), assistant("b"), user("c"))
    plain = Request(model="anthropic.claude-sonnet-4-5", messages=messages)
    request = Request(model=plain.model, messages=messages, settled=settled)

    assert len(json.dumps(wire.body(request))) >= len(json.dumps(wire.body(plain)))


@every_format
def test_an_empty_picture_or_file_is_not_sent(wire: Format) -> None:
    empty = (Image(), File(media_type="application/pdf"))
    result = ToolResult(call_id=READ.call_id, name="Read", text="done", images=(Image(),))

    text = wire.text(
        Message(role=Role.USER, parts=(Text("look"), *empty)),
        assistant(READ),
        Message(role=Role.TOOL, parts=(result,)),
    )

    assert '"data": ""' not in text
    assert ";base64," not in text
    assert '"bytes": ""' not in text


def test_words_of_another_family_that_say_nothing_are_not_sent_to_gemini() -> None:
    (gemini,) = (each for each in FORMATS if each.name == "gemini")
    empty = Message(
        role=Role.ASSISTANT, parts=(Text("", '{"message":{"a":1}}'),), provenance="openrouter"
    )

    body = gemini.body(Request(model="gemini-2.5-pro", messages=(user("a"), empty, user("b"))))

    assert body["contents"] == [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]


def test_a_question_without_words_still_asks_gemini() -> None:
    (gemini,) = (each for each in FORMATS if each.name == "gemini")

    body = gemini.body(Request(model="gemini-2.5-pro", system="Hi.", messages=(user(""),)))

    assert body["contents"] == [{"role": "user", "parts": [{"text": ""}]}]
