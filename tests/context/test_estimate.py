"""The estimate counts everything that is sent, in every script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.estimate import (
    message_units,
    part_units,
    reasoning_units,
    text_units,
    tool_units,
)
from clew.core.ids import CallId
from clew.core.messages import (
    Image,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    assistant,
)
from clew.core.models import ToolSpec


@pytest.mark.req("CTX-3")
@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("The quick brown fox jumps over the lazy dog.", 9, 14),
        ("計算機科学は楽しい", 6, 10),
        ("안녕하세요 여러분", 5, 9),
        ("Съешь ещё этих мягких французских булок", 12, 22),
        ("🙂" * 10, 10, 30),
        ("", 0, 0),
    ],
)
def test_every_script_is_weighed_by_its_own_rate(text: str, low: int, high: int) -> None:
    assert low <= text_units(text) <= high


@pytest.mark.req("CTX-3")
@pytest.mark.parametrize(
    "part",
    [
        Text("words and more words"),
        Image(data=b"x"),
        Reasoning(text="let me think about this"),
        Reasoning(signature="c2lnbmF0dXJl" * 4),
        Reasoning(redacted="b3BhcXVl" * 4),
        ToolCall(call_id=CallId("c"), name="Read", arguments='{"file_path":"a.py"}'),
        ToolResult(call_id=CallId("c"), name="Read", text="line"),
    ],
)
def test_every_kind_of_part_costs_something(part: Part) -> None:
    assert part_units(part) > 0


@pytest.mark.req("CTX-3")
def test_images_in_results_and_tool_schemas_count() -> None:
    plain = ToolResult(call_id=CallId("c"), name="Read", text="line")
    rich = ToolResult(call_id=CallId("c"), name="Read", text="line", images=(Image(data=b"x"),))
    spec = ToolSpec(name="Read", description="Reads a file.", schema={"type": "object"})

    assert part_units(rich) > part_units(plain) + 500
    assert tool_units([spec, spec]) == 2 * tool_units([spec]) > 0


def test_thinking_is_told_apart_from_words() -> None:
    message = assistant(Reasoning(text="hm " * 100), "short")

    assert 0 < reasoning_units(message) < message_units(message)


@given(st.text(), st.text())
def test_more_text_never_costs_less(text: str, more: str) -> None:
    assert text_units(text + more) >= text_units(text) - 1


@given(st.text())
def test_a_message_costs_its_text_and_a_little_more(text: str) -> None:
    message = Message(role=Role.USER, parts=(Text(text),))

    assert 0 < message_units(message) - text_units(text) < 10
