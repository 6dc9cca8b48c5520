"""Entries survive disk, other releases and damage."""

import pytest
from hypothesis import given

from clew.core.entries import (
    SCHEMA,
    Cleared,
    Entry,
    ModeChanged,
    Noted,
    PinChanged,
    SetupChanged,
    Undone,
    UnknownBody,
    decode,
    encode,
)
from clew.core.errors import StoreDamaged
from clew.core.ids import EntryId
from clew.core.models import ModelFacts, ToolSpec
from tests.histories import histories


@given(histories(max_turns=3))
def test_what_is_written_is_read_back_equal(entries: list[Entry]) -> None:
    assert [decode(encode(entry)) for entry in entries] == entries


@pytest.mark.parametrize(
    "body",
    [
        Cleared(),
        Undone(target=EntryId(3)),
        PinChanged(target=EntryId(3), pinned=True),
        ModeChanged(mode="plan"),
        Noted(topic="tool-summary", text="two tools", data={"n": 2}),
        SetupChanged(
            model=ModelFacts(name="m"),
            tools=(ToolSpec(name="t", description="d", schema={"type": "object"}),),
        ),
    ],
)
def test_every_kind_of_body_is_read_back_equal(body: Cleared | Undone | PinChanged) -> None:
    entry = Entry(id=EntryId(1), at=1.5, body=body)

    assert decode(encode(entry)) == entry


def test_an_unknown_kind_is_kept_byte_for_byte() -> None:
    line = b'{"id":7,"at":1.0,"schema":1,"body":{"kind":"hologram", "depth" : 3}}'

    entry = decode(line)

    assert entry.body == UnknownBody(b'{"kind":"hologram", "depth" : 3}')
    assert encode(entry) == line


def test_a_newer_schema_of_a_known_kind_is_kept_byte_for_byte() -> None:
    line = b'{"id":7,"at":1.0,"schema":%d,"body":{"kind":"clear","how":"gently"}}' % (SCHEMA + 1)

    entry = decode(line)

    assert isinstance(entry.body, UnknownBody)
    assert encode(entry) == line


@pytest.mark.parametrize(
    "line", [b"", b"{", b'{"id":1}', b'{"id":1,"at":1,"schema":1,"body":{"kind":"undo"}}']
)
def test_a_damaged_line_is_named_as_such(line: bytes) -> None:
    with pytest.raises(StoreDamaged, match="cannot be read"):
        decode(line)
