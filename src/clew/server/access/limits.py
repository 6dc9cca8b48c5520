"""How much each client may ask for: request rates and open streams."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from clew.core.errors import RateLimited, ServerBusy

_MAX_CLIENTS = 10_000
"""Clients whose rate is remembered; the one that was silent longest is forgotten first."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """How many requests a client may send at once, as of a time."""

    left: float
    time: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests per second on average, and how many may come at once."""

    per_second: float
    burst: int

    def take(self, bucket: Bucket | None, now: float) -> tuple[Bucket, float]:
        """Return the bucket after one more request, and the seconds to wait: 0 if it may pass."""
        before = bucket or Bucket(self.burst, now)
        left = min(self.burst, before.left + max(0.0, now - before.time) * self.per_second)
        if left >= 1:
            return Bucket(left - 1, now), 0.0
        return Bucket(left, now), (1 - left) / self.per_second


class RateLimiter:
    """The buckets of all clients."""

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, key: str) -> None:
        """Count one request.

        Raises:
            RateLimited: The client sends too many.
        """
        bucket, wait = self._rate.take(self._buckets.get(key), self._clock())
        self._buckets[key] = bucket
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        if wait:
            raise RateLimited(
                f"too many requests; send the next one in {wait:.1f} seconds", retry_after=wait
            )


class StreamCounter:
    """The open streams, of each user and in all."""

    def __init__(self, *, per_user: int, total: int) -> None:
        self._per_user = per_user
        self._total = total
        self._open: Counter[str] = Counter()

    @contextmanager
    def open(self, user: str) -> Iterator[None]:
        """Count a stream while it is open.

        Raises:
            RateLimited: The user has too many.
            ServerBusy: All users together have too many.
        """
        if self._open[user] >= self._per_user:
            raise RateLimited(
                f"you have {self._per_user} streams open, which is the limit; close one",
                retry_after=5.0,
            )
        if self._open.total() >= self._total:
            raise ServerBusy("the server has as many streams open as it accepts; try again later")
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]


def group_address(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or an IPv6 network of one subscriber."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return f"{int(found) >> 64:x}::/64"
    return str(found)
