"""Compactions cannot cost more than a share of the work, however fast the window refills."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.compaction_pace import (
    CALLS_PER_SUMMARY,
    LITTLE_GAIN,
    MOST_REFILLS,
    SUMMARY_SHARE,
    CompactionPace,
    Tier,
)

WINDOW = 32_000

steps = st.tuples(
    st.integers(0, 8),  # calls until the window is full again
    st.floats(0, 1),  # what the compaction then frees
    st.integers(1, 3),  # how many drafts a model writes
    st.integers(100, WINDOW),  # tokens of one draft
)


@pytest.mark.req("CMP-8")
@given(st.lists(steps, max_size=60))
def test_summaries_stay_a_small_share_of_the_calls_and_of_the_tokens(
    loop: list[tuple[int, float, int, int]],
) -> None:
    pace = CompactionPace()
    calls = call_tokens = summaries = summary_tokens = largest = 0
    for refill, gain, drafts, tokens in loop:
        for _ in range(refill):
            pace = pace.add_call(WINDOW // 2)
            calls, call_tokens = calls + 1, call_tokens + WINDOW // 2
        tier = pace.choose_tier()
        if tier is Tier.STOP:
            break
        if tier is Tier.MODEL:
            summaries += 1
            largest = max(largest, drafts * tokens)
            for _ in range(drafts):
                pace = pace.add_summary(tokens)
                summary_tokens += tokens
        pace = pace.add_compaction(gain=gain)

    assert summaries <= 1 + calls // CALLS_PER_SUMMARY
    assert summary_tokens <= SUMMARY_SHARE * call_tokens + largest


@pytest.mark.req("CMP-8")
@given(st.integers(0, 2), st.floats(0, LITTLE_GAIN, exclude_max=True))
def test_a_loop_that_refills_at_once_is_stopped_and_a_new_prompt_may_try_again(
    refill: int, gain: float
) -> None:
    pace = CompactionPace()
    compactions = 0
    while pace.choose_tier() is not Tier.STOP:
        pace = pace.add_compaction(gain=gain)
        compactions += 1
        for _ in range(refill):
            pace = pace.add_call(WINDOW)

    assert compactions == MOST_REFILLS + 1
    assert pace.add_prompt().choose_tier() is not Tier.STOP
    assert pace.add_call(WINDOW).add_call(WINDOW).add_call(WINDOW).choose_tier() is not Tier.STOP


@pytest.mark.req("CMP-8")
def test_rules_write_the_summary_while_the_last_ones_freed_little() -> None:
    def work(pace: CompactionPace) -> CompactionPace:
        for _ in range(CALLS_PER_SUMMARY + 2):
            pace = pace.add_call(WINDOW)
        return pace

    once = work(CompactionPace().add_summary(100).add_compaction(gain=0.1))
    twice = work(once.add_compaction(gain=0.1))

    assert once.choose_tier() is Tier.MODEL
    assert twice.choose_tier() is Tier.RULES
    assert work(twice.add_compaction(gain=0.5)).choose_tier() is Tier.MODEL


@pytest.mark.req("CMP-8")
@given(st.lists(st.floats(LITTLE_GAIN, 1), max_size=40))
def test_a_loop_is_never_stopped_while_compactions_free_enough(gains: list[float]) -> None:
    pace = CompactionPace()
    for gain in gains:
        pace = pace.add_call(WINDOW).add_compaction(gain=gain)

        assert pace.choose_tier() is not Tier.STOP


def test_a_normal_session_always_gets_a_models_summary() -> None:
    pace = CompactionPace()
    for _ in range(20):
        assert pace.choose_tier() is Tier.MODEL
        assert not pace.is_refilling
        pace = pace.add_summary(WINDOW).add_compaction(gain=0.5)
        for _ in range(10):
            pace = pace.add_call(WINDOW // 2)


def test_a_summary_by_rules_costs_nothing() -> None:
    pace = CompactionPace().add_summary(0)

    assert pace == CompactionPace()
    assert CompactionPace().add_warning().add_prompt() == CompactionPace()
