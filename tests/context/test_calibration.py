"""What the provider counts teaches how it counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.calibration import (
    MAX_RATE,
    MIN_RATE,
    convert_tokens,
    default_for,
    estimate_tokens,
    learn,
    make_prior,
)
from clew.context.items import ItemKind
from clew.context.view import View, fold
from clew.core.entries import Body, MessageAdded, SetupChanged, decode, encode
from clew.core.messages import Reasoning, assistant, user
from clew.core.models import Calibration, ModelFacts
from clew.core.usage import Usage
from tests.histories import SETUP, entries_of

counts = st.lists(st.tuples(st.integers(0, 200_000), st.integers(0, 400_000)), max_size=30)


def taught(start: Calibration, *pairs: tuple[int, int]) -> Calibration:
    for units, counted in pairs:
        start = learn(start, units, counted)
    return start


@pytest.mark.req("CTX-4")
def test_before_the_first_count_the_rate_of_the_family_holds() -> None:
    assert estimate_tokens(make_prior(1.2), 1_000) == 1_200
    assert estimate_tokens(make_prior(1.2), 0) == estimate_tokens(make_prior(1.2), -5) == 0


@pytest.mark.req("CTX-4")
def test_the_first_count_tells_the_overhead_and_keeps_the_rate() -> None:
    learned = taught(make_prior(1.2), (1_000, 41_200))

    assert learned.rate == 1.2
    assert learned.overhead == pytest.approx(40_000)
    assert estimate_tokens(learned, 2_000) == 42_400


@pytest.mark.req("CTX-4")
@given(st.floats(0.4, 3.0), st.integers(0, 50_000), st.floats(0.8, 1.25))
def test_consistent_counts_are_learned_whatever_the_start(
    rate: float, overhead: int, off: float
) -> None:
    pairs = [(units, round(overhead + rate * units)) for units in range(3_000, 190_000, 3_000)]

    learned = taught(make_prior(rate * off), *pairs)

    assert learned.rate == pytest.approx(rate, rel=0.02)
    for units in (5_000, 40_000, 190_000):
        right = overhead + rate * units
        assert estimate_tokens(learned, units) == pytest.approx(right, abs=0.02 * rate * 190_000)


@pytest.mark.req("CTX-4")
@given(st.floats(0.1, 9.0), counts, st.integers(0, 500_000), st.integers(0, 10_000))
def test_estimates_are_never_negative_and_more_is_never_less(
    rate: float, pairs: list[tuple[int, int]], units: int, more: int
) -> None:
    learned = taught(make_prior(rate), *pairs)

    assert 0 <= estimate_tokens(learned, units) <= estimate_tokens(learned, units + more)
    assert MIN_RATE <= learned.rate <= MAX_RATE
    assert learned.overhead >= 0


@given(counts)
def test_the_line_passes_through_the_last_count_that_was_believed(
    pairs: list[tuple[int, int]],
) -> None:
    learned = taught(make_prior(1.0), *pairs)

    assert estimate_tokens(learned, learned.units) == pytest.approx(learned.tokens, abs=1)


def test_a_count_that_no_rate_explains_is_ignored() -> None:
    known = taught(make_prior(1.0), (10_000, 12_000))

    assert taught(known, (11_000, 0), (11_000, 900), (0, 500)) == known


def test_a_count_far_from_the_expected_is_believed_when_the_next_agrees() -> None:
    known = taught(make_prior(1.0), (10_000, 12_000))

    once = taught(known, (11_000, 90_000))
    twice = taught(once, (11_500, 91_000))

    assert estimate_tokens(once, 10_000) == 12_000
    assert estimate_tokens(twice, 11_500) == 91_000
    assert twice.rate == known.rate
    assert taught(once, (10_500, 12_500)).doubted is False


def test_a_step_that_hides_something_does_not_change_the_rate() -> None:
    known = taught(make_prior(1.0), (10_000, 12_000))

    grown = taught(known, (10_100, 15_000))
    shrunk = taught(known, (5_000, 7_500))

    assert grown.rate == shrunk.rate == known.rate
    assert (estimate_tokens(grown, 10_100), estimate_tokens(shrunk, 5_000)) == (15_000, 7_500)
    assert (grown.overhead, shrunk.overhead) == (4_900, 2_500)


@pytest.mark.req("CTX-4")
def test_a_large_context_that_becomes_small_again_costs_what_small_ones_cost() -> None:
    # The provider left out 40,000 tokens of old results on the way, as some agents do.
    grown = taught(
        make_prior(1.0), (1_000, 31_000), (50_000, 80_000), (100_000, 90_000), (150_000, 140_000)
    )

    assert estimate_tokens(grown, 1_000) == 31_000
    assert estimate_tokens(grown, 3_000) == pytest.approx(33_000, rel=0.03)
    assert estimate_tokens(grown, 0) == 30_000
    assert estimate_tokens(grown, 150_000) == 140_000
    assert estimate_tokens(taught(grown, (2_000, 20_000)), 1_000) == 19_000


def test_growth_that_no_text_explains_is_expected_to_stay() -> None:
    grown = taught(make_prior(1.0), (3_000, 4_000), (3_600, 8_000))

    assert estimate_tokens(grown, 3_100) == 7_500
    assert estimate_tokens(taught(grown, (13_000, 17_500)), 3_100) == pytest.approx(4_135, abs=2)


@given(counts, st.integers(0, 500_000))
def test_the_largest_request_within_some_tokens_fits(
    pairs: list[tuple[int, int]], tokens: int
) -> None:
    learned = taught(make_prior(1.1), *pairs)

    units = convert_tokens(learned, tokens)

    assert units == 0 or estimate_tokens(learned, units) <= tokens + 1


def test_a_count_below_the_line_lowers_the_rate_rather_than_the_overhead_below_zero() -> None:
    learned = taught(make_prior(1.5), (10_000, 12_000))

    assert (learned.rate, learned.overhead) == (1.2, 0)


def setup(name: str, calibration: Calibration | None = None) -> SetupChanged:
    return SetupChanged(model=ModelFacts(name=name), calibration=calibration)


@pytest.mark.req("CTX-4")
def test_a_view_starts_from_what_the_setup_brings_and_a_new_model_starts_anew() -> None:
    known = make_prior(2.5)
    answer = MessageAdded(message=assistant("yes"), usage=Usage(input_tokens=30_000))
    said = MessageAdded(message=user("word " * 2_000))
    bodies: list[Body] = [setup("m", known), said, answer]

    view = fold(entries_of(bodies))

    assert fold(entries_of(bodies[:1])).calibration == known
    assert view.calibration.tokens == 30_000
    assert fold(entries_of([*bodies, setup("m")])).calibration == view.calibration
    assert fold(entries_of([*bodies, setup("gpt-5")])).calibration == default_for("gpt-5")
    assert fold(entries_of([*bodies, setup("gpt-5", known)])).calibration == known


@pytest.mark.req("CTX-4")
def test_a_calibration_in_the_journal_survives_the_way_to_disk() -> None:
    learned = taught(make_prior(1.3), (10_000, 52_000), (12_000, 55_000))
    [entry] = entries_of([setup("m", learned)])

    assert decode(encode(entry)) == entry


def test_a_view_may_be_measured_by_another_meter() -> None:
    entries = entries_of([SETUP, MessageAdded(message=user("word " * 100))])

    plain, exact = fold(entries), fold(entries, meter=len)

    assert exact.units - len(SETUP.system) == 504
    assert plain.units < exact.units
    assert View().meter is plain.meter


def test_thinking_of_earlier_turns_counts_only_where_the_provider_keeps_it() -> None:
    thought = MessageAdded(message=assistant(Reasoning(text="hm " * 500), "yes"))
    bodies: list[Body] = [MessageAdded(message=user("go")), thought]
    asked = MessageAdded(message=user("and now?"))

    for name, kept in (("claude-opus-4-6", True), ("claude-sonnet-4-5", False)):
        before = fold(entries_of([setup(name), *bodies]))
        after = fold(entries_of([setup(name), *bodies, asked]))
        assert (after.units > before.units) is kept
        unknown = fold(entries_of([setup("m"), *bodies, asked]))
        assert after.items.totals[ItemKind.REASONING] == unknown.items.totals[ItemKind.REASONING]
        assert (after.forgotten_units == 0) is kept


@pytest.mark.req("CTX-4")
@given(st.integers(0, 100_000))
def test_room_in_tokens_is_turned_into_units_less_the_overhead(room: int) -> None:
    view = View(calibration=taught(make_prior(1.25), (8_000, 30_000)))

    units = view.units_for(room)

    assert units == 0 or estimate_tokens(view.calibration, units) == pytest.approx(room, abs=2)
    assert view.units_for(20_000) == 0
