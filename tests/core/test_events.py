"""Every event, result and payload passes through JSON unchanged."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.events import (
    EVENT_TYPES,
    Envelope,
    Event,
    decode_envelope,
    encode_envelope,
    event_name,
)
from clew.core.results import ExecutionResult
from clew.sdk.client import CommandInfo, CommandOutcome, PromptInput, SessionSnapshot
from clew.sdk.spec import SessionSpec
from tests.json_values import values_of

pytestmark = pytest.mark.req("INT-7")


@settings(max_examples=60)
@given(data=st.data())
@pytest.mark.parametrize("kind", get_args(Event), ids=event_name)
def test_every_event_round_trips_in_its_envelope(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(values_of(kind))
    envelope = data.draw(
        st.builds(
            Envelope,
            seq=st.integers(0, 2**53 - 1),
            session_id=st.text("abc", max_size=3),
            task_id=st.text("abc", max_size=3),
            at=st.floats(0, 2e9),
            event=st.just(event),
        )
    )

    line = encode_envelope(envelope)

    assert decode_envelope(line) == envelope
    assert msgspec.json.decode(line)["event"]["event"] == envelope.name
    assert b"\n" not in line


@settings(max_examples=60)
@given(data=st.data())
@pytest.mark.parametrize(
    "kind",
    [ExecutionResult, PromptInput, CommandInfo, CommandOutcome, SessionSnapshot, SessionSpec],
    ids=lambda kind: kind.__name__,
)
def test_every_value_of_the_client_protocol_round_trips(
    kind: type[msgspec.Struct], data: st.DataObject
) -> None:
    value = data.draw(values_of(kind))

    assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value


def test_the_tag_of_an_event_is_its_public_name() -> None:
    assert list(EVENT_TYPES) == [event_name(kind) for kind in get_args(Event)]
    assert {
        "text_delta",
        "tool_start",
        "tool_end",
        "thinking",
        "complete",
        "error",
        "context_update",
        "interrupted",
        "compaction",
        "background_task_event",
    } <= EVENT_TYPES.keys()
