"""The breaker opens after failures in a row and closes again."""

import pytest

from clew.context.summary_breaker import MOST_FAILURES, RETRY_AFTER, SummaryBreaker


def fail(times: int, *, now: float = 1_000.0) -> SummaryBreaker:
    breaker = SummaryBreaker()
    for _ in range(times):
        breaker = breaker.add_failure("m", now=now)
    return breaker


@pytest.mark.req("CMP-8")
def test_it_opens_after_three_failures_and_lets_one_try_pass_after_a_pause() -> None:
    assert not fail(MOST_FAILURES - 1).is_open("m", now=1_000.0)
    breaker = fail(MOST_FAILURES)
    assert breaker.has_just_opened
    assert breaker.is_open("m", now=1_000.0 + RETRY_AFTER - 1)

    later = 1_000.0 + RETRY_AFTER
    assert not breaker.is_open("m", now=later)
    again = breaker.add_failure("m", now=later)
    assert again.is_open("m", now=later + 1)
    assert not again.has_just_opened


@pytest.mark.req("CMP-8")
def test_another_model_is_not_held_back() -> None:
    breaker = fail(MOST_FAILURES)

    assert not breaker.is_open("other", now=1_000.0)
    assert breaker.add_failure("other", now=1_000.0).failures == 1


def test_a_clock_that_was_set_back_does_not_keep_it_open() -> None:
    assert not fail(MOST_FAILURES).is_open("m", now=0.0)
