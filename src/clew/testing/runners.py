"""Conformance checks for runners of background tasks: run them on a runner of your own.

@pytest.mark.anyio
@pytest.mark.parametrize("check", RUNNER_CHECKS)
async def test_my_runner_keeps_the_contract(check, tmp_path):
    await check(
        RunnerHarness(
            runner=MyRunner(tmp_path),
            short=TaskRequest(kind=TaskKind.PROCESS, prompt="echo done"),
            endless=TaskRequest(kind=TaskKind.PROCESS, prompt="echo begun; sleep 1000"),
            failing=TaskRequest(kind=TaskKind.PROCESS, prompt="exit 3"),
        )
    )

Every check runs its tasks with a `BackgroundTaskManager`, as a session does.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio
from msgspec import Struct

from clew.core.errors import BackgroundTaskError
from clew.core.events import BackgroundTaskEvent, Event
from clew.core.tasks import TaskErrorCategory, TaskStatus
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.protocol import TaskRequest, TaskRunner

_SECONDS = 60


def _find_nothing() -> Collection[object]:
    return ()


class RunnerHarness(Struct, frozen=True, kw_only=True):
    """A runner, and requests for it."""

    runner: TaskRunner
    short: TaskRequest
    """Completes soon, with a text as its result."""
    endless: TaskRequest
    """Reports something, then works until it is cancelled."""
    failing: TaskRequest | None = None
    """Fails; None if no request can."""
    find_leftovers: Callable[[], Collection[object]] = _find_nothing
    """Returns what the runner has started and not ended, such as processes or open files."""


RunnerCheck: TypeAlias = Callable[[RunnerHarness], Awaitable[None]]


class _Tasks:
    """A manager with one runner, and what it publishes."""

    def __init__(self, runner: TaskRunner) -> None:
        self.manager = BackgroundTaskManager([runner], publish=self._publish)
        self._reported: dict[str, anyio.Event] = {}

    def _publish(self, event: Event, *, task_id: str = "") -> None:
        if task_id and not isinstance(event, BackgroundTaskEvent):
            self._signal(task_id).set()

    async def start(self, request: TaskRequest) -> str:
        """Start a task and wait until it has reported something; returns its id."""
        task_id = (await self.manager.spawn(request)).task_id
        await self._signal(task_id).wait()
        return task_id

    def _signal(self, task_id: str) -> anyio.Event:
        return self._reported.setdefault(task_id, anyio.Event())


@asynccontextmanager
async def _open(harness: RunnerHarness) -> AsyncIterator[_Tasks]:
    tasks = _Tasks(harness.runner)
    with anyio.fail_after(_SECONDS):
        try:
            yield tasks
        finally:
            await tasks.manager.shutdown()
    assert not harness.find_leftovers(), "something is left after the shutdown"


async def completes_with_a_result(harness: RunnerHarness) -> None:
    """A task that succeeds is completed, with a text and the kind of its runner."""
    async with _open(harness) as tasks:
        state = await tasks.manager.run(harness.short)

        assert state.status is TaskStatus.COMPLETED, state.error
        assert state.result
        assert state.kind is harness.runner.kind
        assert not harness.find_leftovers()


async def fails_with_a_reason(harness: RunnerHarness) -> None:
    """A task that fails says why; its runner does not crash."""
    if harness.failing is None:
        return
    async with _open(harness) as tasks:
        state = await tasks.manager.run(harness.failing)

        assert state.status is TaskStatus.FAILED
        assert state.error
        assert state.error_category is not TaskErrorCategory.CRASH


async def reports_while_it_works(harness: RunnerHarness) -> None:
    """What a task does is seen before it ends."""
    async with _open(harness) as tasks:
        task_id = await tasks.start(harness.endless)

        assert tasks.manager.get(task_id).status is TaskStatus.RUNNING


async def ends_when_it_is_cancelled(harness: RunnerHarness) -> None:
    """A cancelled task has ended, with all that it started, when `cancel` returns."""
    async with _open(harness) as tasks:
        task_id = await tasks.start(harness.endless)

        state = await tasks.manager.cancel(task_id)

        assert state.status is TaskStatus.CANCELLED
        assert not harness.find_leftovers()


async def ends_when_it_is_cancelled_at_once(harness: RunnerHarness) -> None:
    """A task can be cancelled before its runner has done anything."""
    async with _open(harness) as tasks:
        started = await tasks.manager.spawn(harness.endless)

        state = await tasks.manager.cancel(started.task_id)

        assert state.status is TaskStatus.CANCELLED
        assert not harness.find_leftovers()


async def runs_several_tasks_at_once(harness: RunnerHarness) -> None:
    """Tasks do not depend on each other: one that is cancelled leaves the others alone."""
    async with _open(harness) as tasks:
        first, second = await tasks.start(harness.endless), await tasks.start(harness.endless)

        await tasks.manager.cancel(first)
        short = await tasks.manager.run(harness.short)

        assert short.status is TaskStatus.COMPLETED
        assert tasks.manager.get(second).status is TaskStatus.RUNNING


async def reads_its_log_in_pages(harness: RunnerHarness) -> None:
    """Pages follow each other without a gap, and a negative offset counts from the end."""
    async with _open(harness) as tasks:
        task_id = (await tasks.manager.run(harness.short)).task_id
        whole = await tasks.manager.read_log(task_id, limit=1_000)
        lines: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = await tasks.manager.read_log(task_id, offset=offset, limit=1)
            assert len(page.lines) <= 1
            assert (page.task_id, page.offset) == (task_id, offset)
            lines += page.lines
            offset = page.next_offset
        last = await tasks.manager.read_log(task_id, offset=-1)

        assert whole.next_offset is None
        assert tuple(lines) == whole.lines
        assert last.lines == whole.lines[-1:]


async def refuses_what_it_does_not_know(harness: RunnerHarness) -> None:
    """Messages to a task that does not run, and logs that do not exist, are typed errors."""
    async with _open(harness) as tasks:
        ended = (await tasks.manager.run(harness.short)).task_id
        for task_id in ("task-unknown", ended):
            await _expect_refusal(harness.runner.send(task_id, "hello"))
        await _expect_refusal(harness.runner.read_log("task-unknown"))


async def _expect_refusal(call: Awaitable[object]) -> None:
    try:
        await call
    except BackgroundTaskError:
        return
    raise AssertionError("no BackgroundTaskError")


RUNNER_CHECKS: tuple[RunnerCheck, ...] = (
    completes_with_a_result,
    fails_with_a_reason,
    reports_while_it_works,
    ends_when_it_is_cancelled,
    ends_when_it_is_cancelled_at_once,
    runs_several_tasks_at_once,
    reads_its_log_in_pages,
    refuses_what_it_does_not_know,
)
