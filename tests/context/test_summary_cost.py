"""The form in which a summary is asked for: never the dearer one, never above the window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.summary_cost import (
    SummaryForm,
    SummaryPrices,
    SummarySizes,
    choose_form,
    count_cached,
    fits_window,
    serialised_cost,
    shared_cost,
)

tokens = st.integers(0, 1_000_000)
price = st.floats(0, 100, allow_nan=False)


@pytest.mark.req("CMP-7")
@given(
    sizes=st.builds(
        SummarySizes,
        view=tokens,
        cached=tokens,
        instruction=tokens,
        transcript=tokens,
        output=tokens,
        thinking=tokens,
    ),
    prices=st.builds(SummaryPrices, input=price, read=price, write=price, output=price),
    window=tokens,
)
def test_the_form_is_never_the_dearer_one_and_never_exceeds_the_window(
    sizes: SummarySizes, prices: SummaryPrices, window: int
) -> None:
    form = choose_form(sizes, prices, window=window)

    if form is SummaryForm.SHARED:
        assert shared_cost(sizes, prices) < serialised_cost(sizes, prices)
        assert sizes.view + sizes.instruction + sizes.output <= window
    elif sizes.cached and fits_window(sizes, window):
        assert serialised_cost(sizes, prices) <= shared_cost(sizes, prices)


def test_a_warm_cache_makes_the_long_prefix_cheaper_than_a_shorter_text() -> None:
    sizes = SummarySizes(
        view=160_000, cached=155_000, instruction=300, transcript=60_000, output=8_000
    )

    assert choose_form(sizes, SummaryPrices(), window=200_000) is SummaryForm.SHARED
    cold = SummarySizes(view=160_000, cached=0, instruction=300, transcript=60_000, output=8_000)
    assert choose_form(cold, SummaryPrices(), window=200_000) is SummaryForm.SERIALISED
    thinks = SummarySizes(
        view=160_000,
        cached=155_000,
        instruction=300,
        transcript=60_000,
        output=8_000,
        thinking=9_000,
    )
    assert choose_form(thinks, SummaryPrices(), window=200_000) is SummaryForm.SERIALISED
    short = SummarySizes(
        view=160_000, cached=155_000, instruction=300, transcript=10_000, output=8_000
    )
    assert choose_form(short, SummaryPrices(), window=200_000) is SummaryForm.SERIALISED


def test_a_cache_is_warm_while_the_provider_reported_it_and_has_not_forgotten() -> None:
    assert count_cached(900, reported=800, age=300, cold_after=300) == 900
    assert count_cached(900, reported=800, age=301, cold_after=300) == 0
    assert count_cached(900, reported=0, age=1, cold_after=300) == 0
