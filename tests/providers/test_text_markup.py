"""Thinking and calls that models leave among their words."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages import Reasoning, Text, ToolCall
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import CallChunk, Chunk, ReasoningChunk, StopReason, TextChunk
from clew.providers.sse import ServerEvent
from clew.providers.wire.base_decoder import Decoder
from clew.providers.wire.chat.decode import chat_decoder
from clew.providers.wire.chat.text_markup import GEMMA, THINK, MarkupSplitter, TextCall, TextRun
from clew.providers.wire.chat.text_tool_calls import LONGEST, CallSyntax, parse_call
from tests.rows import each_row

TOOLS = ("read", "write_file")


def split(*pieces: str) -> tuple[str, str, list[TextCall]]:
    """Return the thinking, the words and the calls."""
    splitter = MarkupSplitter(GEMMA, TOOLS)
    found = [part for piece in pieces for part in splitter.feed(piece)]
    found += splitter.close()
    says = [part for part in found if isinstance(part, TextRun)]
    return (
        "".join(part.text for part in says if part.thought),
        "".join(part.text for part in says if not part.thought),
        [part for part in found if isinstance(part, TextCall)],
    )


def call(path: str) -> TextCall:
    return TextCall("read", json.dumps({"path": path}, separators=(",", ":")))


@each_row(
    ("text", "thought", "words"),
    [
        ("<think>\nhm\n</think>\n\nYes.", "hm\n", "Yes."),
        ("\n<think>hm</think>Yes.", "hm", "Yes."),
        ("<|channel>thought\nhm<channel|>Yes.", "hm", "Yes."),
        ("<think>\n\n</think>\n\nYes.", "", "Yes."),
        ("<think>a</think>\n<think>b</think>c", "ab", "c"),
        ("<think>never closed", "never closed", ""),
        ("<think>a</thin", "a</thin", ""),
        ("<thin", "", "<thin"),
        ("<thinking>", "", "<thinking>"),
        ("Write <think> to think.</think>", "", "Write <think> to think.</think>"),
        ("<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
        ("  words", "", "  words"),
        ("", "", ""),
    ],
)
def test_thinking_is_told_from_words(text: str, thought: str, words: str) -> None:
    assert split(text) == (thought, words, [])
    assert split(*text) == (thought, words, [])


@each_row(
    ("text", "words", "calls"),
    [
        ('<|tool_call>call:read{path:<|"|>a.py<|"|>}<tool_call|>', "", [call("a.py")]),
        (
            'On it.\n<|tool_call>call:read{path:<|"|>a<|"|>}<tool_call|>'
            '<|tool_call>call:read{path:<|"|>b<|"|>}<tool_call|>',
            "On it.\n",
            [call("a"), call("b")],
        ),
        (
            '[TOOL_REQUEST]{"name":"read","arguments":{"path":"a"}}[END_TOOL_REQUEST]',
            "",
            [call("a")],
        ),
        ("<|tool_call>call:unknown{}<tool_call|>", "<|tool_call>call:unknown{}<tool_call|>", []),
        ("<|tool_call>call:read{", "<|tool_call>call:read{", []),
        ("<|tool_call>call:read{oops<tool_call|>", "<|tool_call>call:read{oops<tool_call|>", []),
        (
            'Say <|tool_call>call: to call: <|tool_call>call:read{path:<|"|>a<|"|>}<tool_call|>',
            "Say <|tool_call>call: to call: ",
            [call("a")],
        ),
    ],
)
def test_calls_are_told_from_words(text: str, words: str, calls: list[TextCall]) -> None:
    assert split(text) == ("", words, calls)
    assert split(*text) == ("", words, calls)


scraps = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<|channel>thought\n",
        "<channel|>",
        "<|tool_call>call:",
        'read{path:<|"|>a<|"|>}',
        "<tool_call|>",
        "[TOOL_REQUEST]",
        '{"name":"read","arguments":{}}',
        '{"arguments":{"path":"}[{\\\\"},"name":"read"}',
        '{"name":"re',
        '{"name":"other","arguments":{}}',
        "[END_TOOL_REQUEST]",
        '<|"|>',
        '"',
        "{",
        "}",
        "\\",
        " ",
        "\n",
        "<",
        "|",
        "words",
    ]
)


@given(st.lists(scraps, max_size=12).map("".join), st.data())
def test_where_the_words_are_cut_changes_nothing(text: str, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    cuts = sorted({0, len(text), *places})

    assert split(*(text[a:b] for a, b in pairwise(cuts))) == split(text) == split(*text)


def shown(text: str) -> str:
    """Return the words that a person has seen when the answer is broken off after `text`."""
    splitter = MarkupSplitter(GEMMA, TOOLS)
    found = [part for letter in text for part in splitter.feed(letter)]
    return "".join(part.text for part in found if isinstance(part, TextRun))


@each_row(
    "text",
    [
        "Models write [TOOL_REQUEST] before a call, and then ",
        '[TOOL_REQUEST]["read"] is no call, and ',
        '[TOOL_REQUEST]{"path": "a"} is none, and ',
        '[TOOL_REQUEST]{"name": "other", "arguments": {',
        '[TOOL_REQUEST]{"name" = "read"',
        '[TOOL_REQUEST]{"name": ["read"',
        '[TOOL_REQUEST]{"name": "read", "arguments": {"path": "}"}} and no end of it ',
        '[TOOL_REQUEST]{"arguments": {"path": "\\"}"}, "name": "read"} and ',
        "<|tool_call>call: is how Gemma ",
        "<|tool_call>call:reader{",
        '<|tool_call>call:read{path:<|"|>}"\\<|"|>,at:{"a":"}"}} and ',
    ],
)
@pytest.mark.req("PRV-3")
def test_words_that_cannot_be_a_call_are_not_held_back(text: str) -> None:
    assert shown(text) == text
    assert split(text) == ("", text, [])


def test_a_call_is_held_back_until_it_is_complete() -> None:
    for begun in (
        '[TOOL_REQUEST]{"name":"read","arguments":{"path":"a',
        "<|tool_call>call:rea",
    ):
        assert shown(f"On it. {begun}") == "On it. "
        assert split(f"On it. {begun}") == ("", f"On it. {begun}", [])


def test_a_call_that_never_ends_becomes_words() -> None:
    begun = '[TOOL_REQUEST]{"name":"read","arguments":{"path":"' + "x" * LONGEST
    splitter = MarkupSplitter(GEMMA, TOOLS)

    assert splitter.feed(begun[:LONGEST]) == []
    found = splitter.feed(begun[LONGEST:])

    assert "".join(part.text for part in found if isinstance(part, TextRun)) == begun


def test_a_long_call_is_still_a_call() -> None:
    text = json.dumps({"name": "read", "arguments": {"path": '{"' * 10_000}})

    _, words, calls = split(*"On it.", f"[TOOL_REQUEST] {text} [END_TOOL_", "REQUEST]")

    assert words == "On it."
    assert [json.loads(each.arguments) for each in calls] == [{"path": '{"' * 10_000}]


@given(st.text(alphabet="<>/thinkTOOL_[]|:{} \n", max_size=60))
def test_no_word_is_lost(text: str) -> None:
    thought, words, calls = split(text)
    if not thought and not calls and "<think>" not in text:
        assert words == text


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("read{}", {}),
        ("read{n:3,ok:true,none:null}", {"n": 3, "ok": True, "none": None}),
        ('read{a:[1,<|"|>x<|"|>],b:{c:-1.5e3}}', {"a": [1, "x"], "b": {"c": -1500.0}}),
        ('read{t:<|"|>say "hi"\n{x:1}, <b><|"|>}', {"t": 'say "hi"\n{x:1}, <b>'}),
        ('read{"t" : "quoted \\" all the same"}', {"t": 'quoted " all the same'}),
    ],
)
def test_gemmas_own_form_is_read(text: str, arguments: dict[str, object]) -> None:
    found = parse_call(text, CallSyntax.GEMMA)

    assert found is not None
    assert (found[0], json.loads(found[1])) == ("read", arguments)


@pytest.mark.parametrize("text", ["", "read", "{}", "read{a}", "read{a:b}", 'read{a:<|"|>x}'])
def test_what_is_no_call_is_not_read_as_one(text: str) -> None:
    assert parse_call(text, CallSyntax.GEMMA) is None


@pytest.mark.parametrize("text", ["", "{}", '{"name":"f","arguments":[1]}', '{"name":1}', "[1]"])
def test_what_is_no_request_is_not_read_as_one(text: str) -> None:
    assert parse_call(text, CallSyntax.JSON) is None


def event(finish: str | None = None, **fields: object) -> ServerEvent:
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return ServerEvent(json.dumps({"choices": [choice]}))


def fed(decoder: Decoder, *events: ServerEvent) -> list[Chunk]:
    found = [chunk for each in events for chunk in decoder.feed(each)]
    return [*found, decoder.close()]


def test_a_stream_with_markup_becomes_thinking_words_and_calls() -> None:
    decoder = chat_decoder("gemma", tags=GEMMA, tools=TOOLS)
    found = fed(
        decoder,
        event(content="<|chan"),
        event(content='nel>thought\nhm<channel|>On it.<|tool_call>call:read{path:<|"|>a'),
        event(content='<|"|>}<tool_call|>'),
        event("stop"),
    )

    assembly = MessageBuilder(provenance="gemma")
    for chunk in found:
        assembly.add(chunk)
    thought, words, written = assembly.message().parts
    assert thought == Reasoning(text="hm", provenance="gemma")
    assert words == Text("On it.")
    assert isinstance(written, ToolCall)
    assert (written.name, written.arguments) == ("read", '{"path":"a"}')
    assert written.call_id
    assert assembly.finished is not None
    assert assembly.finished.reason is StopReason.TOOL_CALLS


def test_words_that_were_held_back_come_before_the_calls() -> None:
    decoder = chat_decoder("qwen", tags=[THINK])
    calls = [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]

    found = fed(decoder, event(content="<thi"), event(tool_calls=calls), event("tool_calls"))

    assert isinstance(found[0], TextChunk)
    assert isinstance(found[1], CallChunk)
    assert found[0].text == "<thi"


def test_an_answer_in_one_piece_is_split_too() -> None:
    decoder = chat_decoder("qwen", tags=[THINK])
    choice = {"message": {"content": "<think>hm</think>Yes."}, "finish_reason": "stop"}

    found = decoder.whole(json.dumps({"choices": [choice]}).encode())

    assert found == [ReasoningChunk(index=0, text="hm"), TextChunk("Yes.")]


def test_without_marks_nothing_is_taken_from_the_words() -> None:
    assert fed(chat_decoder("openai"), event("stop", content="<think>a</think>"))[0] == TextChunk(
        "<think>a</think>"
    )
