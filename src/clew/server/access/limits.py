"""How much each client may ask for: request rates, open streams, sizes of bodies."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

import anyio
from aiohttp import web

from clew.core.errors import (
    BodyBroken,
    RateLimited,
    RequestTooLarge,
    RequestTooSlow,
    ServerBusy,
)

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


async def read_body(request: web.Request, largest: int, *, seconds: float) -> None:
    """Read the body, so that no route waits for a slow one; `request.read` then returns it.

    Args:
        request: The request, of a client that may send it.
        largest: Bytes that the body may have.
        seconds: How long it may take.

    Raises:
        RequestTooLarge: It is larger than `largest`, or than the application accepts.
        RequestTooSlow: It did not arrive in time.
        BodyBroken: It ended early, or is compressed.
    """
    if not request.can_read_body:
        return
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise BodyBroken("the body is compressed; send it without Content-Encoding")
    too_large = RequestTooLarge(f"the body is larger than {largest} bytes; send less at once")
    if (request.content_length or 0) > largest:
        raise too_large
    with anyio.move_on_after(seconds) as scope:
        try:
            await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise too_large from error
        except (ConnectionError, web.RequestPayloadError) as error:
            raise BodyBroken("the body ended early, or is not what its headers say") from error
    if scope.cancelled_caught:
        raise RequestTooSlow(f"the body did not arrive within {seconds:g} seconds")


def group_address(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or an IPv6 network of one subscriber."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return f"{int(found) >> 64:x}::/64"
    return str(found)
