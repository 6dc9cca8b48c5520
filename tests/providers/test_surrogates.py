"""Characters that a server cut in two, and that come out whole."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.messages import Message, Native, Reasoning, ToolCall
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    PartChunk,
    ReasoningChunk,
    ServerToolChunk,
    TextChunk,
)
from clew.providers.sse import ServerEvent
from clew.providers.wire.surrogates import SurrogateJoiner, repair_surrogates
from tests.providers.formats import FORMATS, Format, name_of
from tests.providers.streams import STREAMS, Said, event, read

FIRST, SECOND = "\ud83d", "\ude00"
SMILE = "\U0001f600"

every_format = pytest.mark.parametrize("wire", FORMATS, ids=name_of)


def said(message: Message) -> tuple[str, str, str]:
    thoughts = "".join(part.text for part in message.parts if isinstance(part, Reasoning))
    calls = "".join(part.arguments for part in message.parts if isinstance(part, ToolCall))
    return thoughts, message.text, calls


def units(text: str) -> list[str]:
    """Return `text` in the units of UTF-16: a character beyond the first 65,536 is two."""
    data = text.encode("utf-16-le")
    found = [data[place : place + 2] for place in range(0, len(data), 2)]
    return [unit.decode("utf-16-le", "surrogatepass") for unit in found]


@every_format
@pytest.mark.req("PRV-2")
def test_two_halves_in_two_events_are_one_character(wire: Format) -> None:
    cut = Said(
        thoughts=(f"a{FIRST}", f"{SECOND}b"),
        words=(f"c{FIRST}", f"{SECOND}{FIRST}", SECOND, "d"),
        arguments=(f"e{FIRST}", SECOND + "f"),
    )

    message, _ = read(wire.decoder("host"), STREAMS[wire.name](cut).events)

    thoughts, words, arguments = said(message)
    assert (thoughts, words) == (f"a{SMILE}b", f"c{SMILE}{SMILE}d")
    assert f"e{SMILE}f" in arguments


@every_format
@given(st.text(st.characters(exclude_categories=["Cs", "Co"]), min_size=1, max_size=12), st.data())
def test_words_read_the_same_wherever_a_server_cuts_them(
    wire: Format, text: str, data: st.DataObject
) -> None:
    pieces = units(text)
    places = data.draw(st.lists(st.integers(0, len(pieces)), max_size=5))
    cuts = pairwise(sorted({0, len(pieces), *places}))
    words = ["".join(pieces[start:end]) for start, end in cuts]

    message, _ = read(wire.decoder("host"), STREAMS[wire.name](Said(words=words)).events)

    assert message.text == text


@every_format
def test_a_half_that_stays_alone_is_lost_and_nothing_else_is(wire: Format) -> None:
    cut = Said(words=(f"a{FIRST}", f"b{SECOND}", f"c{FIRST}"))

    message, _ = read(wire.decoder("host"), STREAMS[wire.name](cut).events)

    assert message.text == "a\ufffdb\ufffdc"


@every_format
def test_what_merely_looks_like_half_a_character_is_left_alone(wire: Format) -> None:
    literal = ("write \\ud83d", " and \\\\", "ude00", f" or {SMILE}")

    message, _ = read(wire.decoder("host"), STREAMS[wire.name](Said(words=literal)).events)

    assert message.text == "".join(literal)


def test_a_whole_answer_may_end_in_half_a_character() -> None:
    wire = next(each for each in FORMATS if each.name == "chat")
    answer = {"choices": [{"message": {"content": f"a{SMILE}b{FIRST}"}, "finish_reason": "length"}]}

    chunks = wire.decoder("host").whole(json.dumps(answer).encode())

    assert chunks == [TextChunk(f"a{SMILE}b")]


def test_the_halves_of_two_calls_are_not_mixed_up() -> None:
    wire = next(each for each in FORMATS if each.name == "chat")

    def piece(index: int, text: str) -> ServerEvent:
        call = {"index": index, "id": f"c{index}", "function": {"name": "f", "arguments": text}}
        return event(choices=[{"index": 0, "delta": {"tool_calls": [call]}}])

    halves = [piece(0, FIRST), piece(1, FIRST), piece(0, SECOND), piece(1, "\ude01")]
    message, _ = read(wire.decoder("host"), [*halves, *STREAMS["chat"](Said()).events])

    assert [call.arguments for call in message.calls] == [SMILE, "\U0001f601"]


def test_sealed_thinking_is_sent_back_whole() -> None:
    wire = next(each for each in FORMATS if each.name == "chat")
    blocks = [{"type": "reasoning.text", "text": text} for text in (f"a{FIRST}", SECOND)]
    details = [event(choices=[{"delta": {"reasoning_details": [block]}}]) for block in blocks]

    message, _ = read(wire.decoder("host"), [*details, *STREAMS["chat"](Said()).events])

    (thought,) = (part for part in message.parts if isinstance(part, Reasoning))
    assert thought.text == f"a{SMILE}"
    assert json.loads(thought.signature) == [{"type": "reasoning.text", "text": f"a{SMILE}"}]


def test_no_stand_in_is_left_in_any_kind_of_chunk() -> None:
    halves = SurrogateJoiner()
    stand_ins = (
        json.loads(halves.escape_text('"x\\ud83d"')),
        json.loads(halves.escape_text('"\\ude00"')),
    )
    pair, alone = "".join(stand_ins), stand_ins[0]
    chunks: list[Chunk] = [
        TextChunk("a", extra=pair),
        ReasoningChunk(index=0, signature=pair),
        CallChunk(index=0, name=pair, extra=alone),
        PartChunk(Native(provenance="host", data=pair, note=alone)),
        ServerToolChunk(call_id="s", name="search", text=pair),
    ]

    assert halves.join(chunks) == [
        TextChunk("a", extra=f"x{SMILE}"),
        ReasoningChunk(index=0, signature=f"x{SMILE}"),
        CallChunk(index=0, name=f"x{SMILE}", extra="x\ufffd"),
        PartChunk(Native(provenance="host", data=f"x{SMILE}", note="x\ufffd")),
        ServerToolChunk(call_id="s", name="search", text=f"x{SMILE}"),
    ]
    assert repair_surrogates(pair + alone) == f"x{SMILE}x\ufffd"


def test_what_a_server_repeats_whole_is_compared_with_what_came_in_halves() -> None:
    wire = next(each for each in FORMATS if each.name == "responses")

    def typed(kind: str, **fields: object) -> ServerEvent:
        return event("", type=f"response.output_text.{kind}", output_index=0, **fields)

    cut = [typed("delta", delta=FIRST), typed("delta", delta=SECOND)]
    late = typed("done", text=f"{SMILE} and more")
    message, _ = read(wire.decoder("host"), [*cut, late, *STREAMS["responses"](Said()).events])

    assert message.text == f"{SMILE} and more"
