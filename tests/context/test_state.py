"""One number for screen, trigger and guard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.policy import ContextPolicy, Thresholds
from clew.context.view import fold
from clew.context.window_state import compute_state, describe_load
from clew.core.context_state import Basis, Status
from clew.core.entries import Body, Cleared, Entry, MessageAdded, PinChanged, SetupChanged
from clew.core.errors import ConfigError
from clew.core.ids import EntryId
from clew.core.messages import Reasoning, assistant, user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from tests.histories import SETUP, entries_of, histories

T = Thresholds()
ANSWER = MessageAdded(message=assistant("yes"), usage=Usage(input_tokens=1_000, output_tokens=100))
LONG = MessageAdded(message=user("word " * 2_000))


@pytest.mark.req("CTX-2")
def test_a_providers_count_with_nothing_after_it_is_exact() -> None:
    state = compute_state(fold(entries_of([SETUP, LONG, ANSWER])), T, window=4_000)

    assert (state.used_tokens, state.basis) == (1_100, Basis.EXACT)


@pytest.mark.req("CTX-2")
def test_old_usage_cannot_hide_a_large_new_prompt() -> None:
    state = compute_state(fold(entries_of([SETUP, ANSWER, LONG])), T, window=200_000)

    assert state.used_tokens > 1_100 + 1_000
    assert state.basis is Basis.ESTIMATED


@pytest.mark.req("CTX-2")
def test_usage_from_before_a_clear_is_ignored() -> None:
    state = compute_state(fold(entries_of([SETUP, LONG, ANSWER, Cleared()])), T, window=4_000)

    assert state.used_tokens < 100
    assert state.basis is Basis.ESTIMATED


@pytest.mark.req("CTX-2", "CTX-4")
def test_after_a_clear_what_the_provider_adds_of_its_own_is_still_counted() -> None:
    counted = MessageAdded(message=assistant("yes"), usage=Usage(input_tokens=20_000))
    before = fold(entries_of([SETUP, LONG, counted]))
    after = compute_state(fold(entries_of([SETUP, LONG, counted, Cleared()])), T, window=200_000)

    assert after.used_tokens == pytest.approx(before.calibration.overhead, abs=50)
    assert after.breakdown.system > 0.99 * after.used_tokens


@pytest.mark.req("CTX-2")
def test_thinking_that_the_provider_drops_leaves_the_number_when_the_user_speaks() -> None:
    sonnet = SetupChanged(model=ModelFacts(name="claude-sonnet-4-5"))
    thought = MessageAdded(
        message=assistant(Reasoning(text="hm " * 3_000), "yes"),
        usage=Usage(input_tokens=500, output_tokens=4_000),
    )
    asked = MessageAdded(message=user("and now?"))
    hello = MessageAdded(message=user("hello"))

    thinking = compute_state(fold(entries_of([sonnet, hello, thought])), T, window=200_000)
    later = compute_state(fold(entries_of([sonnet, hello, thought, asked])), T, window=200_000)

    assert (thinking.used_tokens, thinking.basis) == (4_500, Basis.EXACT)
    assert 0 < later.used_tokens < 2_500
    assert later.breakdown.reasoning == 0 < thinking.breakdown.reasoning


@pytest.mark.req("CTX-2")
def test_a_callers_floor_holds() -> None:
    state = compute_state(fold(entries_of([SETUP, LONG, ANSWER])), T, window=4_000, floor=3_000)

    assert (state.used_tokens, state.basis) == (3_000, Basis.ESTIMATED)


@pytest.mark.req("CTX-1")
@given(histories(), st.integers(0, 5_000))
def test_the_breakdown_adds_up_to_the_whole(entries: list[Entry], floor: int) -> None:
    state = compute_state(fold(entries), T, window=4_000, floor=floor)
    parts = state.breakdown

    total = parts.system + parts.tools + parts.user + parts.assistant
    assert total + parts.reasoning + parts.tool_results + parts.summary == state.used_tokens


@pytest.mark.req("CTX-1", "CTX-6")
@pytest.mark.parametrize(
    ("used", "status"),
    [
        (6_999, Status.OK),
        (7_000, Status.WARNING),
        (8_349, Status.WARNING),
        (8_350, Status.CRITICAL),
        (20_000, Status.CRITICAL),
    ],
)
def test_the_status_follows_the_thresholds(used: int, status: Status) -> None:
    answer = MessageAdded(message=assistant("yes"), usage=Usage(input_tokens=used))

    assert compute_state(fold(entries_of([SETUP, answer])), T, window=10_000).status is status


@pytest.mark.req("CTX-6")
def test_with_compaction_off_only_the_hard_limit_is_critical() -> None:
    answer: list[Body] = [
        SETUP,
        MessageAdded(message=assistant("yes"), usage=Usage(input_tokens=9_000)),
    ]
    state = compute_state(fold(entries_of(answer)), Thresholds(compact=False), window=10_000)

    assert state.status is Status.WARNING


@pytest.mark.req("CTX-6")
@pytest.mark.parametrize("share", [0, -0.1, 1.01, True])
def test_thresholds_out_of_range_are_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="compact threshold"):
        Thresholds(compact=share)
    with pytest.raises(ConfigError, match="warn threshold"):
        Thresholds(warn=share)


def test_a_policy_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="preserve_recent_turns"):
        ContextPolicy(preserve_recent_turns=0)
    with pytest.raises(ConfigError, match="max_tool_output_chars"):
        ContextPolicy(max_tool_output_chars=10)


def test_a_small_window_takes_less_of_an_output() -> None:
    policy = ContextPolicy()

    assert policy.output_limit(1_000_000) == policy.max_tool_output_chars
    assert policy.output_limit(2_000) == 1_500


@pytest.mark.req("CTX-6")
def test_a_policy_with_other_thresholds_keeps_all_else() -> None:
    policy = ContextPolicy(usage_floor=7, thresholds=Thresholds(warn=0.5))

    changed = policy.with_thresholds(compact=False, block=0.9)

    assert changed.thresholds == Thresholds(warn=0.5, compact=False, block=0.9)
    assert changed.with_thresholds(warn=0.6).thresholds.warn == 0.6
    assert changed.usage_floor == 7
    with pytest.raises(ConfigError, match="block threshold"):
        policy.with_thresholds(block=1.5)


def test_the_load_of_a_window_names_pins_that_fill_most_of_it() -> None:
    pinned = PinChanged(target=EntryId(2), pinned=True)
    view = fold(entries_of([SETUP, LONG, pinned]))

    text = describe_load(view, compute_state(view, T, window=4_000))

    assert text.startswith("Most of it is pinned messages (")
    assert "Unpin what you do not need" in text
