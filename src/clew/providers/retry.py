"""Retries of a busy server: how many attempts, and how long to wait before each.

`clew.providers.transport` carries them out, and only before the first chunk of a response.
"""

import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import anyio

from clew.core.errors import ProviderBusy


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a busy server is retried, and the delays between attempts."""

    attempts: int = 3
    first_delay: float = 0.5
    longest_delay: float = 30.0
    """If a server asks for a longer pause, the call fails and the caller decides."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    random: Callable[[], float] = random.random

    def delay(self, attempt: int, busy: ProviderBusy) -> float | None:
        """Return the pause before the next attempt, or None to give up."""
        if attempt >= self.attempts:
            return None
        if busy.retry_after is not None:
            asked = busy.retry_after + self.random() * self.first_delay
            return asked if busy.retry_after <= self.longest_delay else None
        full = min(self.longest_delay, self.first_delay * 2.0 ** (attempt - 1))
        return full * (0.5 + self.random() / 2)


def find_retry_after(headers: Mapping[str, str], body: str) -> float | None:
    """Return how many seconds a response asks to wait, or None."""
    return retry_after(headers) or _find_retry_delay(body)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds the headers ask to wait, or None.

    A date is compared with the response's own `Date` header, so the local clock does not matter.
    """
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(lower.get(name, ""))
        if seconds is not None:
            return max(0.0, seconds * unit)
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few servers send a date

    try:
        until = parsedate_to_datetime(lower["retry-after"])
        return max(0.0, (until - parsedate_to_datetime(lower["date"])).total_seconds())
    except (KeyError, TypeError, ValueError):
        return None


def _find_retry_delay(body: str) -> float | None:
    """Return the delay that Google puts into the body."""
    found = re.search(r'"retryDelay"\s*:\s*"(\d{1,9}(?:\.\d+)?)s"', body)
    return float(found[1]) if found else None


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d*)?", text) else None
