"""Economy: how much of the window a view may use."""

import pytest

from clew.context.compaction_plan import economize, make_budget
from clew.context.compaction_triggers import find_threshold
from clew.context.economy import Economy, clearing_start, working_set
from clew.context.plan import Reduce, Stuck, Wording
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.strategies.tiered import Tiered
from clew.context.view import View, fold
from clew.core.entries import Body, Entry, MessageAdded, PinChanged, SetupChanged
from clew.core.ids import EntryId
from clew.core.messages import assistant, user
from clew.core.models import ModelFacts

LEAN = ContextPolicy(economy=Economy.LEAN)


def view_of(*bodies: Body, window: int = 200_000, system: str = "") -> View:
    setup = SetupChanged(model=ModelFacts(name="m", window=window), system=system)
    every = enumerate((setup, *bodies), start=1)
    return fold(Entry(id=EntryId(number), at=0.0, body=body) for number, body in every)


@pytest.mark.req("CMP-17")
@pytest.mark.parametrize(
    ("window", "starts", "works"),
    [
        (8_000, 4_000, 8_000),
        (32_000, 16_000, 24_000),
        (128_000, 64_000, 24_000),
        (200_000, 100_000, 32_000),
        (400_000, 200_000, 64_000),
        (1_000_000, 200_000, 64_000),
    ],
)
def test_levels_fit_every_window(window: int, starts: int, works: int) -> None:
    view = view_of(window=window)

    assert clearing_start(Economy.BALANCED, window=window) == starts
    assert clearing_start(Economy.FULL, window=window) is None
    assert clearing_start(Economy.LEAN, window=window) is None
    assert working_set(Economy.LEAN, view, window=window) == works
    assert working_set(Economy.BALANCED, view, window=window) == window
    assert working_set(Economy.FULL, view, window=window) == window


@pytest.mark.req("CMP-17")
def test_what_a_compaction_cannot_reduce_does_not_count() -> None:
    words = "alpha beta gamma delta " * 2_000
    empty = view_of()
    pinned = (
        MessageAdded(message=user(words)),
        MessageAdded(message=assistant("Yes.")),
        PinChanged(target=EntryId(2), pinned=True),
    )

    for view, items in (
        (view_of(system=words), 0),
        (view_of(MessageAdded(message=user(words))), 1),
        (view_of(*pinned), 1),
        (view_of(*pinned, MessageAdded(message=user("short"))), 1),
    ):
        more = working_set(Economy.LEAN, view, window=200_000) - 32_000
        lasting = view.system_units + sum(item.units for item in view.items[:items])
        assert more == pytest.approx(lasting * view.calibration.rate, rel=0.01)
        assert make_budget(view, LEAN, Tiered()).limit >= make_budget(empty, LEAN, Tiered()).limit


@pytest.mark.req("CMP-17")
def test_lean_never_compacts_later_than_the_threshold_and_not_at_all_without_one() -> None:
    never = ContextPolicy(economy=Economy.LEAN, thresholds=Thresholds(compact=False))

    assert find_threshold(view_of(), LEAN, window=200_000) == 32_000
    assert find_threshold(view_of(), LEAN, window=20_000) == 16_700
    assert find_threshold(view_of(), ContextPolicy(), window=200_000) == 167_000
    assert find_threshold(view_of(), never, window=200_000) is None


@pytest.mark.req("CMP-17")
def test_rules_write_the_summaries_of_lean_unless_the_strategy_names_a_model() -> None:
    plan, named = Reduce(), Reduce(summary_model="brief")
    stuck, notice = Stuck(why="nothing"), Reduce(wording=Wording.NOTICE)

    assert economize(plan, LEAN) == Reduce(wording=Wording.RULES)
    assert economize(plan, ContextPolicy()) == plan
    assert [economize(one, LEAN) for one in (named, stuck, notice)] == [named, stuck, notice]
