"""The clock of the background runtime; `clew.testing.FakeClock` is one for tests."""

import time
from typing import Protocol

import anyio


class Clock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> float:
        """Return the seconds since the epoch, for what people read."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only grow, for timeouts."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        ...


class SystemClock:
    """The clock of this machine. Timeouts stand still while the machine sleeps."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return the seconds of the system's monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        await anyio.sleep(seconds)
