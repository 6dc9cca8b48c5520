"""Numbers that were measured many times."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The middle of some numbers, and how far apart they lie."""

    median: float
    iqr: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Take the median and the interquartile range."""
        low, _, high = quantiles(values, n=4, method="inclusive")
        return cls(median=median(values), iqr=high - low)
