"""A view restored from a snapshot is the view, and reads no more than it is asked for."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.estimate import text_units
from clew.context.lazy_list import LazyList
from clew.context.snapshot import Snapshot, restore_view, take_snapshot
from clew.context.view import View, fold
from clew.core.context_state import LossReport
from clew.core.entries import (
    Body,
    Charged,
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    ModeChanged,
    Noted,
    PinChanged,
    ReasoningDropped,
    Replacement,
    ResultsCleared,
    Rewound,
    SetupChanged,
    Undone,
    UnknownBody,
)
from clew.core.ids import EntryId
from clew.core.messages import assistant, user
from clew.core.models import ModelFacts
from tests.histories import entries_of, histories, turns

REPORT = LossReport(
    kept=(),
    summarised=(),
    cleared=(),
    archived=(),
    tokens_before=1,
    tokens_after=1,
    author="rules",
    why="",
)
OTHERS: tuple[Body, ...] = (
    Cleared(),
    ModeChanged(mode="plan"),
    SetupChanged(model=ModelFacts(name="claude-sonnet-4-5"), system="Be kind."),
    Charged(why="a summary"),
    Noted(topic="note", text="nothing"),
    UnknownBody(b'{"kind":"later"}'),
)


@st.composite
def journals(draw: st.DrawFn) -> list[Entry]:
    """Journals with everything in them that changes a view."""
    entries = draw(histories(min_turns=1))
    for _ in range(draw(st.integers(0, 6))):
        items = list(fold(entries).items)
        some = (
            st.lists(st.sampled_from(items), unique_by=lambda item: item.entry_id)
            if items
            else st.just([])
        )
        ids = tuple(item.entry_id for item in draw(some))
        replaced = tuple(Replacement(entry_id=one, text="[cleared]") for one in ids)
        compacted = Compacted(
            trigger="auto",
            strategy="any",
            summary=draw(st.sampled_from(["", "what was said"])),
            dropped=ids,
            replaced=replaced if draw(st.booleans()) else (),
            inserted=draw(st.sampled_from([(), (user("inserted"),)])),
            report=REPORT,
        )
        earlier = EntryId(draw(st.integers(1, len(entries))))
        change: Body = draw(
            st.sampled_from(
                [
                    compacted,
                    ResultsCleared(replaced=replaced, why="room"),
                    ReasoningDropped(targets=ids, why="refused"),
                    PinChanged(target=earlier, pinned=draw(st.booleans())),
                    Undone(target=earlier),
                    Rewound(before=earlier),
                    *OTHERS,
                ]
            )
        )
        entries += entries_of([change, *draw(turns())], start=len(entries) + 1)
    return entries


def kept(view: View, entries: list[Entry]) -> Snapshot:
    """Take a snapshot and send it through the bytes that it is stored as."""
    taken = take_snapshot(view, entries)
    assert taken is not None
    return msgspec.msgpack.decode(msgspec.msgpack.encode(taken), type=Snapshot)


def equal(one: View | None, other: View) -> bool:
    assert one is not None
    return list(one.archived) == list(other.archived) and msgspec.structs.replace(
        one, archived=()
    ) == msgspec.structs.replace(other, archived=())


@pytest.mark.req("STO-3")
@given(journals())
def test_a_view_comes_back_from_its_snapshot_as_it_was(entries: list[Entry]) -> None:
    view = fold(entries)

    again = restore_view(kept(view, entries), entries, text_units)

    assert equal(again, view)
    assert again is not None
    assert again.items.outgoing == view.items.outgoing
    assert again.units == view.units


@given(journals(), turns(), st.data())
def test_a_restored_view_goes_on_and_is_kept_again_like_any_other(
    entries: list[Entry], more: list[MessageAdded], data: st.DataObject
) -> None:
    whole = [*entries, *entries_of(more, start=len(entries) + 1)]
    restored = restore_view(kept(fold(entries), entries), entries, text_units)
    assert restored is not None
    shorter = restored

    for entry in whole[len(entries) :]:
        restored = restored.apply(entry)
    if restored.items and data.draw(st.booleans()):
        restored.items[data.draw(st.integers(0, len(restored.items) - 1))]
    again = restore_view(kept(restored, whole), whole, text_units)

    assert equal(again, restored)
    assert equal(again, fold(whole))
    assert len(shorter.items) <= len(restored.items)


@pytest.mark.req("STO-3")
def test_nothing_is_read_until_it_is_asked_for() -> None:
    entries = entries_of([MessageAdded(message=user(f"words {n}")) for n in range(100)])
    snapshot = kept(fold(entries), entries)
    read: list[int] = []

    def entry(index: int) -> Entry:
        read.append(index)
        return entries[index]

    measured: list[str] = []

    def meter(text: str) -> int:
        measured.append(text)
        return text_units(text)

    view = restore_view(snapshot, LazyList(100, entry), meter)

    assert view is not None
    assert view.units == fold(entries).units
    assert (len(view.items), view.items.turns, read) == (100, 100, [])
    assert view.items[-1].message.text == "words 99"
    assert read == [99]
    assert len(view.items.outgoing) == 100
    assert sorted(read) == list(range(100))
    assert [text for text in measured if text.startswith("words")] == ["words 99"]


def test_a_snapshot_is_for_one_meter() -> None:
    entries = entries_of([MessageAdded(message=user("hello"))])

    assert restore_view(kept(fold(entries), entries), entries, len) is None


@pytest.mark.parametrize(
    "entries",
    [
        [],
        entries_of([MessageAdded(message=user("hello"))], start=2),
        entries_of([MessageAdded(message=user("hello")), MessageAdded(message=assistant())]),
        entries_of(
            [
                MessageAdded(message=user("hello")),
                MessageAdded(message=assistant()),
                Compacted(
                    trigger="auto",
                    strategy="any",
                    summary="s",
                    dropped=(EntryId(2),),
                    report=REPORT,
                ),
            ]
        ),
    ],
    ids=["nothing", "a gap", "an empty message", "an empty message that left"],
)
def test_where_a_snapshot_would_not_do_there_is_none(entries: list[Entry]) -> None:
    assert take_snapshot(fold(entries), entries) is None


def test_messages_of_no_journal_are_kept_too() -> None:
    view = fold(entries_of([MessageAdded(message=user("hello"))], start=0))
    entries = entries_of([Noted(topic="note", text="nothing")])

    again = restore_view(kept(view, entries), entries, text_units)

    assert again is not None
    assert [item.message.text for item in again.items] == ["hello"]
