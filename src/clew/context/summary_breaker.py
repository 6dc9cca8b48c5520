"""A circuit breaker: stops asking a model for summaries while that keeps failing.

One compaction whose attempts all fail counts as one failure. The breaker closes again with the
first success, with another model, and for one try after a pause.
"""

from msgspec import Struct
from msgspec.structs import replace

MOST_FAILURES = 3
"""Compactions in a row without a usable summary by a model, after which the breaker opens."""
RETRY_AFTER = 300.0
"""Seconds until an open breaker lets the model try once more."""


class SummaryBreaker(Struct, frozen=True, kw_only=True):
    """Failures in a row of one model. Each method returns the next value."""

    model: str = ""
    failures: int = 0
    failed_at: float = 0.0

    def is_open(self, model: str, *, now: float) -> bool:
        """Return whether `model` must not be asked now."""
        if model != self.model or self.failures < MOST_FAILURES:
            return False
        return 0 <= now - self.failed_at < RETRY_AFTER

    def add_failure(self, model: str, *, now: float) -> "SummaryBreaker":
        """Record a compaction for which `model` wrote no usable summary."""
        failures = self.failures + 1 if model == self.model else 1
        return replace(self, model=model, failures=failures, failed_at=now)

    @property
    def has_just_opened(self) -> bool:
        """True after the failure that opened the breaker, not after those of later tries."""
        return self.failures == MOST_FAILURES
