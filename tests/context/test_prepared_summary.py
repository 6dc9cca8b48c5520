"""A summary that was prepared earlier: when to start, and when it may still be swapped in."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.context.compaction_triggers import is_preparation_due
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.prepared_summary import find_change, frees_enough, plan_preparation
from clew.context.render import find_problems, render
from clew.context.strategies.compact import Compact
from clew.context.strategies.tiered import Summarize, Tiered
from clew.context.view import View, fold
from clew.core.entries import (
    Body,
    Cleared,
    Entry,
    MessageAdded,
    PinChanged,
    Replacement,
    ResultsCleared,
    Rewound,
    SetupChanged,
    Undone,
)
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts

MODEL = ModelFacts(name="m", window=2_000)
POLICY = ContextPolicy(background_compaction="on", preserve_recent_turns=1)
STRATEGY = Summarize()
NOTES = WrittenSummary(text="What was said before.", author="model")


def _turn(number: int) -> list[Message]:
    call = ToolCall(call_id=CallId(f"c{number}"), name="look", arguments="{}")
    return [
        user(f"question {number}"),
        assistant(call),
        tool_result(call, f"found {number}. " * 20),
        assistant(f"answer {number}. " * 10),
    ]


def _entries(bodies: Sequence[Body], first: int = 10) -> list[Entry]:
    """Number entries in tens, so that another one fits in between."""
    return [
        Entry(id=EntryId(first + 10 * n), at=float(n), body=body) for n, body in enumerate(bodies)
    ]


def _messages(*numbers: int) -> list[Body]:
    return [MessageAdded(message=message) for n in numbers for message in _turn(n)]


def _begin(turns: int) -> list[Entry]:
    return _entries([SetupChanged(model=MODEL), *_messages(*range(turns))])


def _later(draw: st.DrawFn, before: Sequence[Entry]) -> list[Entry]:
    """Draw what happens between the preparation and the compaction."""
    entries = list(before)
    for number in range(draw(st.integers(0, 5))):
        ids = st.sampled_from([entry.id for entry in entries])
        kinds = ["turn", "turn", "turn", "pin", "unpin", "clear results", "clear", "rewind", "undo"]
        bodies: list[Body]
        match draw(st.sampled_from(kinds)):
            case "turn":
                bodies = _messages(100 + number)
            case "pin":
                bodies = [PinChanged(target=draw(ids), pinned=True)]
            case "unpin":
                bodies = [PinChanged(target=draw(ids), pinned=False)]
            case "clear results":
                change = Replacement(entry_id=draw(ids), text="[cleared]")
                bodies = [ResultsCleared(replaced=(change,), why="")]
            case "clear":
                bodies = [Cleared()]
            case "rewind":
                bodies = [Rewound(before=draw(ids))]
            case _:
                bodies = [Undone(target=draw(ids))]
        entries += _entries(bodies, first=entries[-1].id + 10)
    return entries[len(before) :]


@pytest.mark.req("CMP-1", "CMP-3")
@given(data=st.data(), turns=st.integers(7, 9))
def test_a_swap_gives_the_view_of_a_compaction_at_the_time_of_the_preparation(
    data: st.DataObject, turns: int
) -> None:
    before = _begin(turns)
    start = fold(before)
    plan = plan_preparation(start, POLICY, STRATEGY)
    assert plan is not None
    later = data.draw(st.composite(_later)(before))
    now = fold([*before, *later])
    if find_change(start, plan, now):
        return

    body = build_compaction(now, plan, NOTES, trigger="auto", strategy="s")
    swapped = fold([*before, *later, Entry(id=EntryId(99_999), at=0.0, body=body)])
    # A rewind to before a compaction takes it back, so it stands right behind what it covers.
    last = max(item.entry_id for item in plan.dropped)
    covered = [entry for entry in before if entry.id <= last]
    early = build_compaction(fold(covered), plan, NOTES, trigger="auto", strategy="s")
    middle = Entry(id=EntryId(last + 5), at=0.0, body=early)
    at_once = fold([*covered, middle, *before[len(covered) :], *later])

    assert [i.message for i in swapped.items] == [i.message for i in at_once.items]
    assert [i.entry_id for i in swapped.items[1:]] == [i.entry_id for i in at_once.items[1:]]
    assert list(swapped.archived) == list(at_once.archived)
    assert swapped.pinned == at_once.pinned
    seen = {item.entry_id for item in (*swapped.items[1:], *swapped.archived)}
    assert seen == {item.entry_id for item in now.items}
    assert not start.pinned & set(body.dropped)
    if not find_problems(render(now)):
        assert find_problems(render(swapped)) == []


def _prepared(turns: int = 8) -> tuple[list[Entry], View]:
    entries = _begin(turns)
    return entries, fold(entries)


def test_later_messages_and_changes_to_them_leave_a_prepared_summary_valid() -> None:
    entries, start = _prepared()
    plan = plan_preparation(start, POLICY, STRATEGY)
    assert plan is not None
    more = [*entries, *_entries(_messages(20, 21), first=entries[-1].id + 10)]
    pinned = _entries([PinChanged(target=more[-1].id, pinned=True)], first=more[-1].id + 10)

    assert find_change(start, plan, fold(more)) == ""
    assert find_change(start, plan, fold([*more, *pinned])) == ""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (SetupChanged(model=ModelFacts(name="n", window=2_000)), "model"),
        (PinChanged(target=EntryId(20), pinned=True), "pinned"),
        (Cleared(), "changed"),
        (Rewound(before=EntryId(60)), "changed"),
        (
            ResultsCleared(replaced=(Replacement(entry_id=EntryId(40), text="x"),), why=""),
            "changed",
        ),
    ],
)
def test_a_change_of_what_it_covers_makes_it_invalid(body: Body, why: str) -> None:
    entries, start = _prepared()
    plan = plan_preparation(start, POLICY, STRATEGY)
    assert plan is not None

    assert why in find_change(start, plan, fold([*entries, *_entries([body], first=9_000)]))


def test_nothing_is_prepared_where_no_model_is_needed_or_little_is_saved() -> None:
    _, start = _prepared()
    _, short = _prepared(1)

    assert plan_preparation(start, POLICY, Compact()) is None
    assert plan_preparation(short, POLICY, STRATEGY) is None
    pins = frozenset(item.entry_id for item in start.items[4:])
    assert plan_preparation(replace(start, pinned=pins), POLICY, STRATEGY) is None


def test_a_summary_that_frees_too_little_is_not_swapped_in() -> None:
    entries, start = _prepared()
    plan = plan_preparation(start, POLICY, STRATEGY)
    assert plan is not None

    def enough(view: View, text: str = "Notes.", policy: ContextPolicy = POLICY) -> bool:
        return frees_enough(view, plan, text, policy=policy, strategy=STRATEGY)

    assert enough(start)
    assert not enough(start, "word " * 2_000)
    flood = MessageAdded(message=user("word " * 1_900))
    assert not enough(fold([*entries, *_entries([flood], first=9_000)]))
    by_hand = ContextPolicy(thresholds=Thresholds(compact=False))
    assert enough(start, policy=by_hand)


@pytest.mark.parametrize(
    ("mode", "used", "local", "due"),
    [
        ("off", 1_600, False, False),
        ("on", 1_399, False, False),
        ("on", 1_400, False, True),
        ("on", 1_400, True, True),
        ("auto", 1_400, False, False),
        ("auto", 1_660, True, False),
    ],
)
def test_preparation_starts_from_the_warning_threshold_on(
    mode: str, used: int, *, local: bool, due: bool
) -> None:
    _, view = _prepared()
    policy = ContextPolicy(background_compaction=mode)  # type: ignore[arg-type]

    assert is_preparation_due(view, policy, STRATEGY, used=used, is_local=local) is due


def test_auto_starts_a_few_calls_ahead_and_only_where_that_is_cheap() -> None:
    _, view = _prepared()
    large = replace(view, setup=SetupChanged(model=ModelFacts(name="m", window=40_000)))
    policy = ContextPolicy(background_compaction="auto")

    def due(view: View, used: int) -> bool:
        return is_preparation_due(view, policy, STRATEGY, used=used, is_local=False)

    assert not due(large, 32_000)
    assert due(large, 33_300)
    assert not due(view, 1_650)


def test_the_limit_of_a_strategy_counts_as_well_as_the_threshold() -> None:
    _, view = _prepared()
    by_hand = ContextPolicy(background_compaction="on", thresholds=Thresholds(compact=False))

    def due(used: int) -> bool:
        strategy = Tiered(max_tokens=1_000)
        return is_preparation_due(view, by_hand, strategy, used=used, is_local=False)

    assert not due(700)
    assert due(800)
