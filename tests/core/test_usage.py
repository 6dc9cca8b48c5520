"""Sums and differences of what calls cost."""

from hypothesis import given
from hypothesis import strategies as st

from clew.core.usage import Spending, Usage

counts = st.integers(0, 10**9)
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
    cache_write_1h_tokens=st.integers(1, 10**9),
)
spendings = st.builds(
    Spending,
    usd=st.integers(0, 1_000).map(float),
    calls=counts,
    unpriced=counts,
    uncounted=counts,
    usage=usages,
)


@given(spendings, spendings)
def test_the_difference_of_two_readings_is_what_was_spent_between_them(
    before: Spending, spent: Spending
) -> None:
    assert (before + spent) - before == spent


def test_no_hourly_cache_writes_are_not_stored() -> None:
    usage = Usage(input_tokens=3)

    assert usage + usage - usage == usage
