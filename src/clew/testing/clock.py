"""`FakeClock`: time that passes only when a test says so; `settle`: let other tasks run."""

from anyio import Event, wait_all_tasks_blocked
from anyio.lowlevel import checkpoint


async def settle() -> None:
    """Let all tasks run until each of them waits for something."""
    for _ in range(10):
        # Usually enough; what follows may pause for a tenth of a second.
        await checkpoint()
    await wait_all_tasks_blocked()


class FakeClock:
    """A clock for `BackgroundTaskManager` whose time stands still until `advance` is called."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._sleepers: list[tuple[float, Event]] = []

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """Return the same seconds."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Wait until `advance` has moved the time that far."""
        if seconds <= 0:
            await checkpoint()
            return
        sleeper = (self._now + seconds, Event())
        self._sleepers.append(sleeper)
        try:
            await sleeper[1].wait()
        finally:
            self._sleepers.remove(sleeper)

    async def advance(self, seconds: float) -> None:
        """Let time pass, and let all tasks do what is due, in the order in which it is due."""
        end = self._now + seconds
        await settle()
        while due := [sleeper for sleeper in self._sleepers if sleeper[0] <= end]:
            self._now, event = min(due, key=lambda sleeper: sleeper[0])
            event.set()
            await settle()
        self._now = end
