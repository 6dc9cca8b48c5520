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
from clew.sdk.session_spec import SessionSpec
from tests.json_values import values_of

pytestmark = pytest.mark.req("INT-7")


KINDS = get_args(Event)
PAYLOADS = [ExecutionResult, PromptInput, CommandInfo, CommandOutcome, SessionSnapshot, SessionSpec]
ENVELOPES = {
    kind: st.builds(
        Envelope,
        seq=st.integers(0, 2**53 - 1),
        session_id=st.text("abc", max_size=3),
        task_id=st.text("abc", max_size=3),
        at=st.floats(0, 2e9),
        event=values_of(kind),
    )
    for kind in KINDS
}


@pytest.mark.parametrize("kind", KINDS, ids=event_name)
@settings(max_examples=8)
@given(data=st.data())
def test_every_event_round_trips_in_its_envelope(kind: type[Event], data: st.DataObject) -> None:
    envelope = data.draw(ENVELOPES[kind])

    line = encode_envelope(envelope)

    assert decode_envelope(line) == envelope
    assert msgspec.json.decode(line)["event"]["event"] == envelope.name
    assert b"\n" not in line


@given(value=st.one_of([values_of(kind) for kind in PAYLOADS]))
def test_every_value_of_the_client_protocol_round_trips(value: msgspec.Struct) -> None:
    assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value


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
