"""The life of background tasks through `BackgroundTaskManager`."""

import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from clew.core.errors import AbortError, BackgroundTaskError, ProviderBusy, SessionNotFound
from clew.core.events import (
    BackgroundTaskEvent,
    PermissionRequest,
    PermissionResolved,
    TaskStage,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from clew.core.ids import CallId
from clew.core.permissions import Risk
from clew.core.tasks import TaskErrorCategory, TaskKind, TaskState, TaskStatus, TimeoutReason
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.protocol import TaskFacts, TaskLimits, TaskRequest, TaskResult
from clew.testing.clock import FakeClock, settle
from tests.runtime.runners import Published, ScriptedRunner, agent

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-1")]

C, S, U = TaskStage.CREATED, TaskStage.STARTED, TaskStage.UPDATED


class World:
    """A manager with scripted runners and a clock of its own."""

    def __init__(self, max_concurrent: int) -> None:
        self.clock = FakeClock()
        self.published = Published()
        self.agents = ScriptedRunner()
        self.processes = ScriptedRunner(TaskKind.PROCESS)
        self.durable = ScriptedRunner()
        numbers = itertools.count(1)
        self.manager = BackgroundTaskManager(
            [self.agents, self.processes],
            publish=self.published,
            durable=self.durable,
            max_concurrent=max_concurrent,
            task_id_factory=lambda request: f"t{next(numbers)}",
            clock=self.clock,
        )

    async def spawn(self, request: TaskRequest | None = None) -> str:
        task_id = (await self.manager.spawn(request or agent())).task_id
        await settle()
        return task_id


@asynccontextmanager
async def world(*, max_concurrent: int = 4) -> AsyncIterator[World]:
    made = World(max_concurrent)
    with anyio.fail_after(60):
        try:
            yield made
        finally:
            await made.manager.shutdown()
    assert made.agents.running == made.processes.running == {}


def question(request_id: str) -> PermissionRequest:
    return PermissionRequest(
        request_id=request_id, tool_name="Bash", target="make", risk=Risk.EXECUTE, reason="asks"
    )


def answer(request_id: str) -> PermissionResolved:
    return PermissionResolved(request_id=request_id, approved=True)


async def test_a_task_runs_to_its_result() -> None:
    async with world() as w:
        task_id = await w.spawn(agent("count the files", label="counter", agent="Explore"))
        assert w.manager.get(task_id).status is TaskStatus.RUNNING
        w.agents.complete(task_id, "42")

        ended = await w.manager.wait(task_id)

        assert (ended.status, ended.result, ended.label) == (TaskStatus.COMPLETED, "42", "counter")
        assert w.published.changes(task_id) == [C, S, TaskStage.COMPLETED]
        assert [event.text for event, _ in w.published.events] == ["count the files"] * 2 + ["42"]  # type: ignore[union-attr]


async def test_ids_tell_agents_from_processes() -> None:
    runners = [ScriptedRunner(), ScriptedRunner(TaskKind.PROCESS)]
    manager = BackgroundTaskManager(runners)

    first = await manager.spawn(agent())
    second = await manager.spawn(TaskRequest(kind=TaskKind.PROCESS, prompt="ls"))
    await manager.shutdown()

    assert re.fullmatch(r"agent-[0-9a-f]{8}", first.task_id)
    assert re.fullmatch(r"task-[0-9a-f]{8}", second.task_id)


async def test_further_tasks_wait_in_the_order_in_which_they_came() -> None:
    async with world(max_concurrent=2) as w:
        ids = [await w.spawn() for _ in range(4)]
        assert list(w.agents.running) == ids[:2]
        assert w.manager.get(ids[3]).status is TaskStatus.QUEUED

        w.agents.complete(ids[1])
        await settle()
        assert list(w.agents.running) == [ids[0], ids[2]]
        w.agents.complete(ids[0])
        await settle()

        assert list(w.agents.running) == ids[2:]


async def test_background_agents_keep_neither_the_foreground_nor_processes_waiting() -> None:
    async with world(max_concurrent=1) as w:
        await w.spawn()
        await w.spawn()

        front = await w.spawn(agent(mode="foreground"))
        process = await w.spawn(TaskRequest(kind=TaskKind.PROCESS, prompt="npm start"))
        durable = [await w.spawn(agent(durable=True)) for _ in range(3)]

        assert front in w.agents.running
        assert process in w.processes.running
        assert list(w.durable.running) == durable


async def test_a_task_cannot_start_tasks_of_its_own() -> None:
    async with world() as w:
        with pytest.raises(BackgroundTaskError, match="cannot start tasks") as caught:
            await w.manager.spawn(agent(depth=2))

        assert caught.value.category is TaskErrorCategory.VALIDATION
        assert w.manager.list() == ()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (agent("  "), "the prompt is empty"),
        (TaskRequest(kind=TaskKind.PROCESS, prompt="ls"), "cannot run process tasks"),
        (agent(durable=True), "cannot run durable tasks"),
    ],
)
async def test_a_request_that_cannot_run_is_refused(request_: TaskRequest, words: str) -> None:
    manager = BackgroundTaskManager([ScriptedRunner()])

    with pytest.raises(BackgroundTaskError, match=words):
        await manager.spawn(request_)


@pytest.mark.parametrize(
    ("error", "category", "text"),
    [
        (
            BackgroundTaskError("exit code 2", category=TaskErrorCategory.PROCESS, partial="half"),
            TaskErrorCategory.PROCESS,
            "exit code 2",
        ),
        (ProviderBusy("try later", provider="x"), TaskErrorCategory.PROVIDER, "try later"),
        (SessionNotFound("no such session"), TaskErrorCategory.RUNNER, "no such session"),
        (ZeroDivisionError("oops"), TaskErrorCategory.CRASH, "its runner crashed"),
    ],
)
async def test_an_error_of_the_runner_fails_the_task_and_keeps_what_there_was(
    error: Exception, category: TaskErrorCategory, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        task_id = await w.spawn()
        w.agents.report(task_id, TextDelta("ha"), TextDelta("lf\n"))
        w.agents.end(task_id, error)

        ended = await w.manager.wait(task_id)

        assert (ended.status, ended.error_category) == (TaskStatus.FAILED, category)
        assert text in ended.error
        assert ended.result == "half"
        assert bool(caplog.records) is (category is TaskErrorCategory.CRASH)


async def test_an_aborted_agent_is_cancelled() -> None:
    async with world() as w:
        task_id = await w.spawn()
        w.agents.end(task_id, AbortError("aborted"))

        assert (await w.manager.wait(task_id)).status is TaskStatus.CANCELLED


async def test_cancel_waits_until_the_runner_has_ended() -> None:
    async with world() as w:
        w.agents.hold = anyio.Event()
        task_id = await w.spawn()
        states: list[TaskState] = []

        async def cancel() -> None:
            states.append(await w.manager.cancel(task_id, "not needed"))

        async with anyio.create_task_group() as group:
            group.start_soon(cancel)
            group.start_soon(cancel)
            await settle()
            assert states == []
            w.agents.hold.set()

        assert [state.status for state in states] == [TaskStatus.CANCELLED] * 2
        assert states[0].error == "not needed"
        assert w.agents.ended == [task_id]
        assert w.published.changes(task_id) == [C, S, TaskStage.CANCELLED]


async def test_a_cancelled_runner_can_hand_over_what_it_has() -> None:
    async with world() as w:
        w.agents.on_cancel = lambda: BackgroundTaskError(
            "cancelled", category=TaskErrorCategory.RUNNER, partial="two of three"
        )
        task_id = await w.spawn()

        ended = await w.manager.cancel(task_id)

        assert (ended.status, ended.result) == (TaskStatus.CANCELLED, "two of three")
        assert ended.error_category is None


async def test_a_task_that_waits_for_its_turn_can_be_cancelled() -> None:
    async with world(max_concurrent=1) as w:
        first, second, third = [await w.spawn() for _ in range(3)]

        ended = await w.manager.cancel(second)
        w.agents.complete(first)
        await settle()

        assert ended.status is TaskStatus.CANCELLED
        assert ended.started_at is None
        assert list(w.agents.running) == [third]


async def test_what_has_ended_cannot_be_cancelled_but_closed() -> None:
    async with world() as w:
        task_id = await w.spawn()
        with pytest.raises(BackgroundTaskError, match="cancel it before you close it"):
            w.manager.close(task_id)
        w.agents.complete(task_id)
        await w.manager.wait(task_id)

        with pytest.raises(BackgroundTaskError, match="has already ended: it is completed"):
            await w.manager.cancel(task_id)
        w.manager.close(task_id)

        assert w.manager.list() == ()
        assert w.published.changes(task_id)[-1] is TaskStage.CLOSED
        for call in (w.manager.get, w.manager.close):
            with pytest.raises(BackgroundTaskError, match="there is no task t1"):
                call(task_id)


async def test_the_state_follows_what_the_task_reports() -> None:
    async with world() as w:
        task_id = await w.spawn()
        call_id = CallId("c")
        tool = ToolStarted(call_id=call_id, name="Bash", arguments='{"command": "make test"}')

        w.agents.report(task_id, TextDelta("one\ntw"), TextDelta("o"))
        assert w.manager.get(task_id).preview == "two"
        w.agents.report(task_id, tool)
        assert w.manager.get(task_id).action == "Bash make test"
        w.agents.report(task_id, ToolEnded(call_id=call_id, name="Bash", failed=False))
        w.agents.running[task_id].task.describe(TaskFacts(cost_usd=0.5, cwd="/tmp/x"))

        state = w.manager.get(task_id)
        assert (state.action, state.cost_usd, state.cwd) == ("", 0.5, "/tmp/x")
        assert (state.output_bytes, state.text_deltas) == (7, 2)
        assert [type(event) for event in w.published.reported(task_id)] == [
            TextDelta,
            TextDelta,
            ToolStarted,
            ToolEnded,
        ]


async def test_updates_are_announced_at_most_twice_per_second_and_the_last_one_is_not_lost() -> (
    None
):
    async with world() as w:
        task_id = await w.spawn()
        for number in range(100):
            w.agents.report(task_id, TextDelta(f"{number}\n"))
            await w.clock.advance(0.01)
        await w.clock.advance(5)

        updates = w.published.states(U)
        assert len(updates) == 3
        assert updates[-1].preview == "99"


async def test_a_question_makes_the_task_wait_until_all_are_answered() -> None:
    async with world() as w:
        task_id = await w.spawn()

        w.agents.report(task_id, question("a"), question("b"))
        waiting = w.manager.get(task_id)
        w.agents.report(task_id, answer("a"))
        still = w.manager.get(task_id).status
        w.agents.report(task_id, answer("b"))

        assert (waiting.status, waiting.question) == (TaskStatus.WAITING_PERMISSION, "Bash make")
        assert still is TaskStatus.WAITING_PERMISSION
        assert w.manager.get(task_id).status is TaskStatus.RUNNING
        assert w.published.changes(task_id)[2:] == [TaskStage.WAITING, TaskStage.RESUMED]


async def test_a_task_may_complete_while_a_question_is_open() -> None:
    async with world() as w:
        task_id = await w.spawn()
        w.agents.report(task_id, question("a"))
        w.agents.complete(task_id)

        assert (await w.manager.wait(task_id)).status is TaskStatus.COMPLETED


async def test_a_task_without_activity_is_ended() -> None:
    async with world() as w:
        task_id = await w.spawn(agent(limits=TaskLimits(idle_timeout=10)))
        await w.clock.advance(9)
        w.agents.report(task_id, TextDelta("still here"))
        await w.clock.advance(9)
        assert w.manager.get(task_id).status is TaskStatus.RUNNING

        await w.clock.advance(1)
        ended = await w.manager.wait(task_id)

        assert (ended.status, ended.timeout_reason) == (TaskStatus.FAILED, TimeoutReason.IDLE)
        assert ended.error_category is TaskErrorCategory.TIMEOUT
        assert ended.error == "ended: no activity for 10 seconds"
        assert ended.result == "still here"


async def test_the_clocks_stand_still_while_a_question_is_open() -> None:
    async with world() as w:
        task_id = await w.spawn(agent(limits=TaskLimits(idle_timeout=10, max_runtime=20)))
        await w.clock.advance(9)
        w.agents.report(task_id, question("a"))
        await w.clock.advance(10_000)
        w.agents.report(task_id, answer("a"))
        await w.clock.advance(9)
        w.agents.report(task_id, TextDelta("working"))
        assert w.manager.get(task_id).status is TaskStatus.RUNNING
        await w.clock.advance(2)

        assert w.manager.get(task_id).timeout_reason is TimeoutReason.MAX_RUNTIME


async def test_a_tool_call_may_be_silent_for_longer() -> None:
    async with world() as w:
        limits = TaskLimits(idle_timeout=10, tool_idle_timeout=60)
        task_id = await w.spawn(agent(limits=limits))
        w.agents.report(task_id, ToolStarted(call_id=CallId("c"), name="Bash", arguments="{}"))
        await w.clock.advance(59)
        assert w.manager.get(task_id).status is TaskStatus.RUNNING
        await w.clock.advance(1)

        assert w.manager.get(task_id).timeout_reason is TimeoutReason.IDLE


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (TaskLimits(output_limit_bytes=20), TimeoutReason.OUTPUT_LIMIT),
        (TaskLimits(max_text_deltas=7), TimeoutReason.TEXT_DELTAS),
        (TaskLimits(repetition_threshold=8), TimeoutReason.REPETITION),
    ],
)
async def test_a_runaway_task_is_ended_at_once(limits: TaskLimits, reason: TimeoutReason) -> None:
    async with world() as w:
        task_id = await w.spawn(agent(limits=limits))
        w.agents.report(task_id, *[TextDelta("Again ")] * 8)

        ended = await w.manager.wait(task_id)

        assert (ended.status, ended.timeout_reason) == (TaskStatus.FAILED, reason)
        assert ended.result == " ".join(["Again"] * 8)


async def test_messages_and_logs_go_through_the_runner() -> None:
    async with world(max_concurrent=1) as w:
        task_id, waiting = await w.spawn(), await w.spawn()

        await w.manager.send(task_id, "look at b.py too")
        page = await w.manager.read_log(task_id, offset=3, limit=2)
        with pytest.raises(BackgroundTaskError, match="has not started yet") as caught:
            await w.manager.send(waiting, "hello")

        assert w.agents.sent == [(task_id, "look at b.py too")]
        assert page.lines == ("line 3", "line 4")
        assert caught.value.recoverable
        with pytest.raises(BackgroundTaskError, match="at least"):
            await w.manager.read_log(task_id, limit=0)


async def test_run_cancels_the_task_when_its_caller_is_cancelled() -> None:
    async with world() as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.manager.run, agent(mode="foreground"))
            await settle()
            group.cancel_scope.cancel()

        assert [state.status for state in w.manager.list()] == [TaskStatus.CANCELLED]
        assert w.agents.ended == ["t1"]


async def test_a_caller_that_only_waits_leaves_the_task_alone() -> None:
    async with world() as w:
        task_id = await w.spawn()
        async with anyio.create_task_group() as group:
            group.start_soon(w.manager.wait, task_id)
            await settle()
            group.cancel_scope.cancel()

        assert w.manager.get(task_id).status is TaskStatus.RUNNING


async def test_an_agent_that_ended_can_be_continued_under_its_id() -> None:
    async with world() as w:
        task_id = await w.spawn()
        with pytest.raises(BackgroundTaskError, match="is running already"):
            await w.manager.spawn(agent("more", task_id=task_id))
        w.agents.complete(task_id)
        await w.manager.wait(task_id)

        await w.spawn(agent("more", task_id=task_id))
        w.agents.complete(task_id, "more done")

        assert (await w.manager.wait(task_id)).result == "more done"
        assert len(w.manager.list()) == 1


async def test_lists_can_be_narrowed() -> None:
    async with world() as w:
        first = await w.spawn(agent(group_id="g"))
        second = await w.spawn(TaskRequest(kind=TaskKind.PROCESS, prompt="ls"))
        w.agents.complete(first)
        await settle()

        assert [s.task_id for s in w.manager.list(kind=TaskKind.PROCESS)] == [second]
        assert [s.task_id for s in w.manager.list(statuses={TaskStatus.COMPLETED})] == [first]
        assert [s.task_id for s in w.manager.list(group_id="g")] == [first]


async def test_a_listener_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w:
        seen: list[BackgroundTaskEvent] = []

        def fail(event: BackgroundTaskEvent) -> None:
            raise ValueError

        w.manager.subscribe(fail)
        unsubscribe = w.manager.subscribe(seen.append)
        task_id = await w.spawn()
        unsubscribe()
        w.agents.complete(task_id)
        await w.manager.wait(task_id)

        assert [event.stage for event in seen] == [C, S]
        assert "a listener failed" in caplog.text


async def test_shutdown_ends_everything_and_refuses_what_comes_later() -> None:
    async with world(max_concurrent=1) as w:
        running, queued = await w.spawn(), await w.spawn()
        asking = await w.spawn(agent(mode="foreground"))
        w.agents.report(asking, question("a"))

        async with anyio.create_task_group() as group:
            group.start_soon(w.manager.shutdown)
            group.start_soon(w.manager.shutdown)

        assert {state.status for state in w.manager.list()} == {TaskStatus.CANCELLED}
        assert sorted(w.agents.ended) == sorted([running, asking])
        assert w.manager.get(queued).started_at is None
        with pytest.raises(BackgroundTaskError, match="shut down"):
            await w.manager.spawn(agent())


async def test_shutdown_leaves_durable_tasks_to_their_workers() -> None:
    async with world() as w:
        left, cancelled = await w.spawn(agent(durable=True)), await w.spawn(agent(durable=True))
        await w.manager.cancel(cancelled)

        await w.manager.shutdown()

        assert w.durable.left == [left]
        assert w.manager.get(left).status is TaskStatus.RUNNING
        assert w.published.changes(left) == [C, S]


@pytest.mark.req("BGT-5")
async def test_tasks_of_an_earlier_process_come_back_and_the_dead_are_said_to_be_dead() -> None:
    async with world() as before:
        done, died = await before.spawn(), await before.spawn()
        durable = await before.spawn(agent(durable=True))
        before.agents.complete(done, "42")
        await before.manager.wait(done)
        states = before.manager.list()

        async with world() as w:
            await w.manager.restore(states)
            await w.manager.restore(states)
            await settle()

            assert w.manager.get(done) == before.manager.get(done)
            dead = w.manager.get(died)
            assert dead.status is TaskStatus.FAILED
            assert dead.error_category is TaskErrorCategory.CRASH
            assert dead.timeout_reason is TimeoutReason.STALE_WORKER
            assert w.published.changes(died) == [TaskStage.FAILED]
            assert w.published.changes(done) == w.published.changes(durable) == []
            w.durable.complete(durable, "survived")
            assert (await w.manager.wait(durable)).result == "survived"


async def test_a_durable_task_that_cannot_be_followed_here_is_only_listed() -> None:
    async with world() as before:
        task_id = await before.spawn(agent(durable=True))
        states = before.manager.list()
    manager = BackgroundTaskManager([ScriptedRunner()])

    await manager.restore(states)

    assert (await manager.wait(task_id)).status is TaskStatus.RUNNING
    with pytest.raises(BackgroundTaskError, match="runs in `clew worker`"):
        await manager.cancel(task_id)
    await manager.shutdown()


async def test_a_runner_that_is_cancelled_by_something_else_fails_its_task() -> None:
    class Dying(ScriptedRunner):
        async def run(self, task: object) -> TaskResult:
            raise BaseException_

    BaseException_ = anyio.get_cancelled_exc_class()  # noqa: N806
    manager = BackgroundTaskManager([Dying()])

    state = await manager.spawn(agent())
    ended = await manager.wait(state.task_id)
    await manager.shutdown()

    assert (ended.status, ended.error_category) == (TaskStatus.FAILED, TaskErrorCategory.CRASH)


async def test_two_requests_at_once_are_both_run_also_if_they_are_the_first() -> None:
    async with world() as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.manager.spawn, agent(mode="background"))
            group.start_soon(w.manager.spawn, agent(mode="foreground"))
        await settle()

        assert sorted(w.agents.running) == ["t1", "t2"]


async def test_an_agent_of_a_hook_does_not_wait_for_the_agent_that_waits_for_it() -> None:
    async with world(max_concurrent=1) as w:
        await w.spawn(agent(mode="foreground"))
        other = await w.spawn(agent(mode="foreground"))
        of_hook = await w.spawn(agent(mode="foreground", fires_hooks=False))

        assert w.manager.get(other).status is TaskStatus.QUEUED
        assert w.manager.get(of_hook).status is TaskStatus.RUNNING
