"""The view is a fold: the journal alone says what the model is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.items import ItemKind, Items
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Budget, Reduce
from clew.context.render import render, repair
from clew.context.strategies.tiered import Tiered
from clew.context.view import View, advance, fold
from clew.context.window_state import count_tokens
from clew.core.entries import (
    Body,
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    ModeChanged,
    Noted,
    PinChanged,
    Replacement,
    ResultsCleared,
    SetupChanged,
    Undone,
    UnknownBody,
)
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message, Role, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from tests.histories import SETUP, entries_of, histories, turns

BUDGET = Budget(limit=460, tail=300, words=80, summary=80, recent_turns=2)


def compaction_of(view: View) -> Body | None:
    plan = Tiered().plan(view, BUDGET)
    if not isinstance(plan, Reduce):
        return None
    summary = WrittenSummary(text="what happened" if plan.dropped else "", author="rules")
    return build_compaction(view, plan, summary, trigger="manual", strategy="tiered")


@st.composite
def journals(draw: st.DrawFn) -> list[Entry]:
    """Turns with compactions, clears, pins, undos and foreign entries between them."""
    entries = entries_of([SETUP])
    for _ in range(draw(st.integers(1, 10))):
        view = fold(entries)
        what = draw(st.sampled_from(["turn", "turn", "compact", "clear", "undo", "pin", "other"]))
        bodies: list[Body] = []
        if what == "turn":
            bodies = list(draw(turns()))
        elif what == "compact" and (body := compaction_of(view)) is not None:
            bodies = [body]
        elif what == "clear":
            bodies = [Cleared()]
        elif what == "undo" and view.undoable:
            bodies = [Undone(target=view.undoable[-1])]
        elif what == "pin" and len(view.items):
            target = draw(st.sampled_from(list(view.items))).entry_id
            bodies = [PinChanged(target=target, pinned=draw(st.booleans()))]
        elif what == "other":
            bodies = [Noted(topic="t", text="x"), UnknownBody(b"{}"), ModeChanged(mode="plan")]
        entries += entries_of(bodies, start=len(entries) + 1)
    return entries


@pytest.mark.req("SES-1")
@given(journals())
def test_the_live_view_equals_the_fold_of_the_journal_at_every_step(entries: list[Entry]) -> None:
    view = View()
    for length in range(1, len(entries) + 1):
        view = advance(view, entries[:length])

        assert view == fold(entries[:length])


@pytest.mark.req("CMP-10")
@given(histories(min_turns=2))
def test_undo_brings_back_the_view_of_before(entries: list[Entry]) -> None:
    before = fold(entries)
    body = compaction_of(before)
    if body is None:
        return
    entries = [*entries, *entries_of([body], start=len(entries) + 1)]
    undone = [*entries, *entries_of([Undone(target=entries[-1].id)], start=len(entries) + 1)]

    after = fold(undone)

    assert after.items == before.items
    assert after.pinned == before.pinned
    assert after.archived == before.archived
    assert count_tokens(after) == count_tokens(before)


def test_an_undone_undo_counts_again() -> None:
    entries = entries_of(
        [
            SETUP,
            MessageAdded(message=user("one")),
            Cleared(),
            Undone(target=EntryId(3)),
            Undone(target=EntryId(4)),
        ]
    )

    assert len(fold(entries[:4]).items) == 1
    assert len(fold(entries).items) == 0


def test_unpinning_takes_a_pin_away() -> None:
    bodies: list[Body] = [
        SETUP,
        MessageAdded(message=user("one")),
        PinChanged(target=EntryId(2), pinned=True),
        PinChanged(target=EntryId(2), pinned=False),
    ]

    assert fold(entries_of(bodies[:3])).pinned == {EntryId(2)}
    assert fold(entries_of(bodies)).pinned == frozenset()


@pytest.mark.req("CTX-2")
def test_the_calibration_learns_from_what_the_provider_counts() -> None:
    said = MessageAdded(message=user("word " * 200))
    answered = MessageAdded(
        message=assistant("yes"), usage=Usage(input_tokens=600, output_tokens=2)
    )

    view = fold(entries_of([SETUP, said, answered]))

    assert view.anchor is not None
    assert view.anchor.tokens == 602
    assert (view.calibration.tokens, view.calibration.units) == (
        600,
        fold(entries_of([SETUP, said])).units,
    )


def test_a_count_of_nothing_is_no_count() -> None:
    answered = MessageAdded(message=assistant("yes"), usage=Usage())

    assert fold(entries_of([SETUP, answered])).anchor is None


def test_items_share_storage_without_seeing_each_other() -> None:
    first = fold(entries_of([SETUP, MessageAdded(message=user("one"))])).items
    longer = first.append(first[0])
    other = first.append(first[0])

    assert (len(first), len(longer), len(other)) == (1, 2, 2)
    assert longer == other
    assert hash(longer) == hash(other)
    assert longer[-1] is first[0]
    assert list(longer[0:2]) == [first[0], first[0]]
    assert first != "one"
    assert "1 items" in repr(first)
    with pytest.raises(IndexError):
        first[1]


@given(histories())
def test_running_sums_equal_the_plain_ones(entries: list[Entry]) -> None:
    items = fold(entries).items

    for start in range(len(items) + 1):
        assert items.units(start) == sum(item.units for item in items[start:])
    assert sum(items.totals) == items.units()
    assert Items(items).totals == items.totals
    assert all(item.kind is not ItemKind.REASONING for item in items)


CALLS = [ToolCall(call_id=CallId(f"c{number}"), name="Read") for number in range(3)]
messy = st.lists(
    st.one_of(
        st.sampled_from([user("go on"), assistant("done"), assistant()]),
        st.lists(st.sampled_from(CALLS), min_size=1, max_size=3).map(lambda c: assistant(*c)),
        st.lists(st.sampled_from(CALLS), max_size=2).map(
            lambda calls: Message(
                role=Role.TOOL,
                parts=tuple(part for call in calls for part in tool_result(call, "ok").parts),
            )
        ),
    ),
    max_size=8,
)


@given(messy)
def test_what_is_sent_is_the_repaired_history_however_broken_it_is(said: list[Message]) -> None:
    view = fold(entries_of([SETUP, *(MessageAdded(message=message) for message in said)]))

    sent = list(render(view))
    begins = bool(sent) and sent[0].text == "[the conversation begins here]"
    mended = repair([message for message in said if message.parts])
    assert sent[begins:] == mended
    assert begins == bool(mended and mended[0].role is not Role.USER)
    assert view.items.is_complete == (mended == view.items.outgoing)
    assert Items(view.items).outgoing == view.items.outgoing
    assert Items(view.items).is_complete == view.items.is_complete


@given(journals())
def test_what_was_sent_once_is_sent_again_as_the_same_objects(entries: list[Entry]) -> None:
    view = fold(entries)
    before = view.items.outgoing
    [more] = entries_of([MessageAdded(message=user("go on"))], start=len(entries) + 1)

    after = view.apply(more).items.outgoing

    assert [id(message) for message in after[:-1]] == [id(message) for message in before]
    assert view.items.outgoing == before


@pytest.mark.req("CTX-2")
def test_a_count_made_while_an_undone_compaction_was_in_force_is_ignored() -> None:
    said = [MessageAdded(message=user("word " * 300)) for _ in range(8)]
    answer = MessageAdded(message=assistant("ok"), usage=Usage(input_tokens=5_000))
    small = MessageAdded(message=assistant("ok"), usage=Usage(input_tokens=200))
    bodies: list[Body] = [SETUP, *said, answer]
    compaction = compaction_of(fold(entries_of(bodies)))
    assert compaction is not None
    bodies += [compaction, small, Undone(target=EntryId(len(bodies) + 1))]

    view = fold(entries_of(bodies))

    before = fold(entries_of(bodies[:-3]))
    assert view.anchor == before.anchor
    assert view.calibration == before.calibration


@pytest.mark.req("CTX-4", "STO-5")
def test_a_prompt_that_was_never_recorded_is_not_counted_when_there_is_another() -> None:
    usage = Usage(input_tokens=60_000, output_tokens=10)
    bodies: list[Body] = [
        SetupChanged(model=ModelFacts(name="m")),
        MessageAdded(message=user("hi")),
        MessageAdded(message=assistant("hello"), usage=usage),
    ]
    own = SetupChanged(model=ModelFacts(name="m"), system="You are Clew.")

    before, after = fold(entries_of(bodies)), fold(entries_of([*bodies, own]))

    assert before.calibration.overhead > 50_000
    assert after.calibration.overhead == 0
    assert after.calibration.slope == before.calibration.slope
    changed = SetupChanged(model=ModelFacts(name="m"), system="You are Clew, still.")
    counted = MessageAdded(message=assistant("yes"), usage=Usage(input_tokens=500))
    again = fold(entries_of([*bodies, own, counted, changed]))
    assert (
        again.calibration.overhead == fold(entries_of([*bodies, own, counted])).calibration.overhead
    )


@pytest.mark.req("CMP-10")
def test_a_report_makes_sense_where_a_provider_counts_too_little() -> None:
    bodies: list[Body] = [SETUP]
    for number in range(6):
        bodies.append(MessageAdded(message=user("tell me " * 60)))
        few = Usage(input_tokens=40 + number, output_tokens=1)
        bodies.append(MessageAdded(message=assistant("word " * 60), usage=few))
    view = fold(entries_of(bodies))

    compacted = compaction_of(view)

    assert isinstance(compacted, Compacted)
    assert 0 < compacted.report.tokens_after < compacted.report.tokens_before < 60


@pytest.mark.req("CMP-14", "CMP-10")
def test_an_undone_clearing_is_remembered_so_that_it_is_not_made_again() -> None:
    change = Replacement(entry_id=EntryId(2), text="cleared")
    bodies = [MessageAdded(message=user("a")), MessageAdded(message=assistant("b"))]
    cleared = entries_of([*bodies, ResultsCleared(replaced=(change,), why="room")])
    undone = [*cleared, *entries_of([Undone(target=EntryId(3))], start=4)]

    assert fold(cleared).restored == frozenset()
    assert fold(undone).restored == {EntryId(2)}
    assert [item.message.text for item in fold(undone).items] == ["a", "b"]
