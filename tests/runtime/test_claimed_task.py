"""A durable task in one worker after the other: what it has worked and written counts on."""

import pytest

from clew.core.events import PermissionRequest, TextDelta
from clew.core.permissions import Risk
from clew.core.tasks import TaskStatus, TimeoutReason
from clew.runtime.claimed_task import ClaimedTask, StopCause
from clew.runtime.durable_tasks import DurableTasks, make_row
from clew.runtime.protocol import TaskLimits
from clew.runtime.running_tasks import release
from clew.stores.memory_tasks import MemoryTaskStore
from clew.stores.task_protocol import TaskRow
from clew.testing.clock import FakeClock
from tests.runtime.memory_queue import MemoryQueue
from tests.runtime.worker_world import spec

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-2", "DST-1")]

LIMITS = TaskLimits(max_runtime=100.0, output_limit_bytes=20)


class Place:
    """A store with one task, and the clock of its workers."""

    def __init__(self) -> None:
        self.tasks = MemoryTaskStore()
        self.clock = FakeClock()
        self.durable = DurableTasks(self.tasks, MemoryQueue(self.tasks))

    async def take(self, worker: str) -> ClaimedTask:
        if await self.tasks.task("agent-1") is None:
            await self.tasks.save_task(make_row("agent-1", spec(limits=LIMITS), now=0.0))
        row = await self.tasks.claim("agent-1", worker)
        assert row is not None
        task = ClaimedTask(self.tasks, row, clock=self.clock)
        task.start()
        return task

    async def row(self) -> TaskRow:
        row = await self.tasks.task("agent-1")
        assert row is not None
        return row


async def test_time_before_a_park_counts_and_the_time_in_it_does_not() -> None:
    place = Place()
    first = await place.take("one")
    await place.clock.advance(60)
    first.report(
        PermissionRequest(
            request_id="q", tool_name="Bash", target="ls", risk=Risk.EXECUTE, reason="why"
        )
    )
    await place.clock.advance(1_000)
    first.stop(StopCause.PARKED)
    await first.settle(None)
    await place.clock.advance(1_000)
    assert (await place.row()).state.worked_seconds == 60

    second = await place.take("two")
    await place.clock.advance(39)
    second.check_limits()
    assert second.stop_reason is None
    await place.clock.advance(1)
    second.check_limits()
    await second.settle(None)

    ended = (await place.row()).state
    assert (ended.status, ended.worked_seconds) == (TaskStatus.FAILED, 100)
    assert ended.timeout_reason is TimeoutReason.MAX_RUNTIME


async def test_time_on_a_worker_that_dies_counts_although_the_task_was_silent() -> None:
    place = Place()
    first = await place.take("dead")
    for _ in range(90):
        await first.save()
        await place.clock.advance(1)
    await release(place.tasks, await place.row())

    second = await place.take("two")
    await place.clock.advance(25)
    second.check_limits()

    assert 75 <= (await place.row()).state.worked_seconds <= 90
    assert second.stop_reason is StopCause.LIMIT


async def test_output_before_a_takeover_counts() -> None:
    place = Place()
    first = await place.take("dead")
    first.report(TextDelta(text="0123456789 0123456789"[:15]))
    await first.save()
    await release(place.tasks, await place.row())

    second = await place.take("two")
    second.report(TextDelta(text="abcdef"))

    assert second.stop_reason is StopCause.LIMIT


async def test_a_message_to_a_task_that_reached_a_limit_is_counted_anew() -> None:
    place = Place()
    first = await place.take("one")
    await place.clock.advance(100)
    first.check_limits()
    await first.settle(None)
    await place.durable.send("agent-1", "go on")

    second = await place.take("two")
    await place.clock.advance(99)
    second.check_limits()

    assert second.stop_reason is None
    assert second.state.worked_seconds == 0
