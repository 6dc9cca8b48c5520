"""The window over time, and where each entry stands: both follow from the journal alone."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.context.entry_places import find_places
from clew.context.estimate import text_units
from clew.context.loss_report import WrittenSummary, build_clearing, build_compaction
from clew.context.plan import Budget, Reduce
from clew.context.policy import Thresholds
from clew.context.strategies.tiered import Tiered
from clew.context.timeline import TimelineLog
from clew.context.view import View, fold
from clew.context.view_log import ViewLog
from clew.context.window_state import compute_state, count_tokens
from clew.core.context_state import LossReport
from clew.core.entries import (
    Body,
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
from clew.core.ids import CallId, EntryId
from clew.core.messages import Role, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from clew.core.timeline import EntryPlace, MarkKind, Standing, TimelineMark, TimelinePoint
from clew.core.usage import Usage
from tests.histories import SETUP, entries_of, turns

BUDGET = Budget(limit=460, tail=300, words=80, summary=80, recent_turns=2)
KINDS = ("compact", "drop", "results", "clear", "undo", "any undo", "rest")
OTHER = SetupChanged(model=ModelFacts(name="gpt-4.1", window=9_000))


def compact(view: View, summary: str = "what happened") -> list[Body]:
    plan = Tiered().plan(view, BUDGET)
    if not isinstance(plan, Reduce):
        return []
    written = WrittenSummary(text=summary if plan.dropped else "", author="rules")
    return [build_compaction(view, plan, written, trigger="manual", strategy="tiered")]


def clear_results(view: View) -> list[Body]:
    results = [item.entry_id for item in view.items if item.message.role is Role.TOOL]
    changes = tuple(Replacement(entry_id=entry_id, text="[cleared]") for entry_id in results)
    return [build_clearing(view, changes, trigger="economy", why="test")] if changes else []


@st.composite
def changes(draw: st.DrawFn, entries: Sequence[Entry]) -> list[Body]:
    """A change of the window that a journal could have next."""
    view = fold(entries)
    some_entry = st.sampled_from([entry.id for entry in entries])
    match draw(
        st.sampled_from(["compact", "drop", "results", "clear", "undo", "any undo", "rest"])
    ):
        case "compact":
            return compact(view)
        case "drop":
            return compact(view, summary="")
        case "results":
            return clear_results(view)
        case "clear":
            return [Cleared()]
        case "undo":
            return [Undone(target=view.undoable[-1])] if view.undoable else []
        case "any undo":
            return [Undone(target=draw(some_entry))]
        case _:
            others: list[st.SearchStrategy[Body]] = [
                st.builds(Rewound, before=st.none() | some_entry),
                st.builds(ReasoningDropped, targets=st.tuples(some_entry), why=st.just("x")),
                st.builds(PinChanged, target=some_entry, pinned=st.booleans()),
                st.sampled_from([OTHER, SETUP, Noted(topic="t", text="x"), UnknownBody(b"{}")]),
                st.just(ModeChanged(mode="plan")),
            ]
            return [draw(st.one_of(others))]


@st.composite
def journals(draw: st.DrawFn) -> list[Entry]:
    """Turns, with every kind of change between them, undone and rewound in any order."""
    entries = entries_of([SETUP])
    for _ in range(draw(st.integers(1, 10))):
        bodies: list[Body] = []
        bodies += draw(turns()) if draw(st.booleans()) else draw(changes(entries))
        entries += entries_of(bodies, start=len(entries) + 1)
    return entries


def read(entries: Sequence[Entry]) -> list[TimelinePoint | TimelineMark]:
    log = TimelineLog()
    log.read(entries)
    return log.items


@given(journals())
def test_every_point_is_the_state_of_the_window_at_that_time(entries: list[Entry]) -> None:
    for item in read(entries):
        view = fold(entries[: item.entry_id])
        if isinstance(item, TimelinePoint):
            state = compute_state(view, Thresholds(), window=item.window)
            assert (item.tokens, item.basis) == (state.used_tokens, state.basis)
            assert item.breakdown == state.breakdown
        elif item.kind not in (MarkKind.COMPACTION, MarkKind.RESULTS_CLEARED):
            assert item.tokens_before == count_tokens(fold(entries[: item.entry_id - 1]))
            assert item.tokens_after == count_tokens(view)


@settings(max_examples=100)
@given(journals())
def test_views_one_after_another_are_the_folds_of_the_journal(entries: list[Entry]) -> None:
    log = ViewLog()
    for index in range(len(entries)):
        assert log.apply(entries, index) == fold(entries[: index + 1])


@given(journals(), st.data())
def test_a_timeline_grows_with_its_journal(entries: list[Entry], data: st.DataObject) -> None:
    whole = read(entries)
    log = TimelineLog()
    count = 0
    while count < len(entries):
        count = data.draw(st.integers(count + 1, len(entries)))
        assert log.continues(entries, text_units)
        log.read(entries[:count])

    assert log.items == whole
    ids = [item.entry_id for item in whole]
    assert ids == sorted(set(ids))


@given(journals())
def test_every_entry_stands_in_one_place_and_the_view_has_those_in_view(
    entries: list[Entry],
) -> None:
    view = fold(entries)

    places = find_places(entries)

    assert list(places) == [entry.id for entry in entries]
    shown = {
        entry_id
        for entry_id, place in places.items()
        if place.standing in (Standing.IN_VIEW, Standing.CLEARED)
    }
    assert shown == set(view.items.ids)
    messages = {entry.id for entry in entries if isinstance(entry.body, MessageAdded)}
    cleared = {key for key, place in places.items() if place.standing is Standing.CLEARED}
    assert cleared & messages == set(view.originals)
    for entry_id, place in places.items():
        assert place.by is None or place.by > entry_id


def test_a_cleared_result_stays_where_it_is() -> None:
    change = Replacement(entry_id=EntryId(2), text="[cleared]")
    cleared = ResultsCleared(replaced=(change,), why="w", trigger="limit")

    places = find_places(entries_of([SETUP, MessageAdded(message=user("hi")), cleared]))

    assert places[EntryId(2)] == EntryPlace(standing=Standing.CLEARED, by=EntryId(3))


def test_points_have_the_providers_count_and_the_cost() -> None:
    usage = Usage(input_tokens=900, output_tokens=50, cache_read_tokens=600)
    question = MessageAdded(message=user("hi"))
    answer = MessageAdded(message=assistant("hello"), usage=usage, cost=0.25)

    (point,) = read(entries_of([SETUP, question, answer]))

    assert isinstance(point, TimelinePoint)
    assert (point.entry_id, point.model, point.window) == (3, "m", 4_000)
    assert (point.tokens, point.usage, point.cost) == (950, usage, 0.25)
    assert point.basis == "exact"


def test_an_undo_does_not_change_the_points_before_it() -> None:
    said = [MessageAdded(message=user("word " * 300)), MessageAdded(message=assistant("yes"))]
    bodies: list[Body] = [SETUP, *said, *said]
    bodies += compact(fold(entries_of(bodies)))
    before = read(entries_of(bodies))

    after = read(entries_of([*bodies, Undone(target=EntryId(6))]))

    assert after[:-1] == before
    undo = after[-1]
    assert isinstance(undo, TimelineMark)
    assert (undo.kind, undo.target, undo.entry_id) == (MarkKind.UNDO, 6, 7)
    assert undo.tokens_after == count_tokens(fold(entries_of(bodies[:5])))


def test_marks_name_what_changed() -> None:
    cleared = ResultsCleared(replaced=(), why="w", trigger="limit")
    bodies: list[Body] = [
        SETUP,
        MessageAdded(message=user("hi")),
        OTHER,
        cleared,
        Rewound(before=EntryId(2)),
        Rewound(files=("a.py",)),
        ReasoningDropped(targets=(EntryId(2),), why="w"),
    ]

    marks = read(entries_of(bodies))

    assert [(mark.entry_id, getattr(mark, "kind", "")) for mark in marks] == [
        (3, MarkKind.MODEL),
        (4, MarkKind.RESULTS_CLEARED),
        (5, MarkKind.REWIND),
        (7, MarkKind.REASONING_DROPPED),
    ]
    model, _, rewind, _ = marks
    assert isinstance(model, TimelineMark)
    assert isinstance(rewind, TimelineMark)
    assert (model.model, model.window) == ("gpt-4.1", 9_000)
    assert rewind.target == 2


def test_a_log_does_not_continue_another_journal() -> None:
    entries = entries_of([SETUP, MessageAdded(message=user("hi"))])
    log = TimelineLog()
    log.read(entries)

    other = entries_of([SETUP, MessageAdded(message=user("no"))])

    assert log.continues(entries, text_units)
    assert not log.continues(other, text_units)
    assert not log.continues(entries[:1], text_units)
    assert not log.continues(entries, len)


def test_places_say_which_entry_moved_another() -> None:
    said = [MessageAdded(message=user("word " * 300)), MessageAdded(message=assistant("yes"))]
    bodies: list[Body] = [SETUP, *said, *said]
    (compaction,) = compact(fold(entries_of(bodies)))
    assert isinstance(compaction, Compacted)
    bodies += [compaction, Cleared(), Undone(target=EntryId(7)), Rewound(before=EntryId(7))]

    places = find_places(entries_of(bodies))

    gone = compaction.dropped[0]
    assert places[gone] == EntryPlace(standing=Standing.SUMMARISED, by=EntryId(6))
    assert places[EntryId(6)].standing is Standing.IN_VIEW
    assert places[EntryId(7)] == EntryPlace(standing=Standing.UNDONE, by=EntryId(9))
    assert places[EntryId(1)] == EntryPlace(standing=Standing.RECORD)


def test_an_entry_that_names_what_is_not_in_the_view_moves_nothing() -> None:
    gone = Replacement(entry_id=EntryId(9), text="")
    report = LossReport(
        kept=(),
        summarised=(),
        cleared=(),
        archived=(),
        tokens_before=0,
        tokens_after=0,
        author="rules",
        why="test",
    )
    compaction = Compacted(
        trigger="auto",
        strategy="s",
        summary="",
        dropped=(EntryId(9),),
        replaced=(gone,),
        report=report,
    )

    places = find_places(entries_of([SETUP, MessageAdded(message=user("hi")), compaction]))

    assert [str(place.standing) for place in places.values()] == ["record", "in_view", "record"]


def test_an_undo_in_a_long_journal_reads_only_what_follows_the_change() -> None:
    said: list[Body] = [MessageAdded(message=user("hi")), MessageAdded(message=assistant("yes"))]
    bodies: list[Body] = [SETUP, *said * 150, Cleared(), *said * 150, Undone(target=EntryId(302))]
    entries = entries_of([*bodies, *said, Undone(target=EntryId(603)), *said])
    log = ViewLog()

    views = [log.apply(entries, index) for index in range(len(entries))]

    for index in (200, 301, 601, 602, 604, 605, 607):
        assert views[index] == fold(entries[: index + 1])


def test_cleared_results_stay_in_the_view_and_are_marked() -> None:
    call = ToolCall(call_id=CallId("c"), name="Read", arguments="{}")
    said = [
        MessageAdded(message=user("read")),
        MessageAdded(message=assistant(call)),
        MessageAdded(message=tool_result(call, "word " * 300)),
    ]
    bodies: list[Body] = [SETUP, *said]
    bodies += clear_results(fold(entries_of(bodies)))

    places, (_, mark) = find_places(entries_of(bodies)), read(entries_of(bodies))

    assert places[EntryId(4)] == EntryPlace(standing=Standing.CLEARED, by=EntryId(5))
    assert places[EntryId(5)] == EntryPlace(standing=Standing.RECORD)
    assert isinstance(mark, TimelineMark)
    assert (mark.kind, mark.trigger) == (MarkKind.RESULTS_CLEARED, "economy")
    assert mark.tokens_after < mark.tokens_before
