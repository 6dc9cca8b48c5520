"""Random lives of tasks and groups against a simple model; a shutdown in any state."""

import asyncio
from collections import defaultdict

import anyio
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from clew.core.errors import BackgroundTaskError
from clew.core.events import PermissionRequest, PermissionResolved, TextDelta
from clew.core.permissions import Risk
from clew.core.tasks import (
    JobGroupStatus,
    JobWaitPolicy,
    TaskErrorCategory,
    TaskKind,
    TaskMode,
    TaskStatus,
)
from clew.runtime.groups import JobGroups
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.protocol import TaskLimits, TaskRequest
from clew.testing.clock import FakeClock, settle
from tests.runtime.runners import ScriptedRunner

PLACES = 1
LANES: list[tuple[TaskKind, TaskMode]] = [
    (TaskKind.AGENT, "background"),
    (TaskKind.AGENT, "foreground"),
    (TaskKind.PROCESS, "background"),
]
IDLE = 100
Q, R, W = TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.WAITING_PERMISSION
OPEN = (Q, R, W)


class ModelTask:
    """What the model knows of a task."""

    def __init__(self, kind: TaskKind, mode: TaskMode) -> None:
        self.lane = (kind, mode)
        self.status = Q
        self.idle = 0


class ModelGroup:
    """What the model knows of a group."""

    def __init__(self, policy: JobWaitPolicy, members: list[str]) -> None:
        self.policy = policy
        self.members = members
        self.complete = False


class Tasks(RuleBasedStateMachine):
    """Tasks of both kinds and modes, with one place each. The end is a shutdown in any state."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.clock = FakeClock()
        self.runners = {kind: ScriptedRunner(kind) for kind in TaskKind}
        self.tasks: dict[str, ModelTask] = {}
        self.results: dict[str, TaskStatus] = {}
        """How tasks ended, also those that were closed."""
        self.groups: dict[str, ModelGroup] = {}
        self.count = 0

    @initialize()
    def start(self) -> None:
        async def make() -> None:
            self.manager = BackgroundTaskManager(
                self.runners.values(), max_concurrent=PLACES, clock=self.clock
            )
            self.job_groups = JobGroups(self.manager, clock=self.clock)

        self.loop.run(make())

    # Rules

    @rule(lanes=st.lists(st.sampled_from(LANES), min_size=1, max_size=3))
    def spawn(self, lanes: list[tuple[TaskKind, TaskMode]]) -> None:
        for kind, mode in lanes:
            self.count += 1
            self._spawn(f"t{self.count}", kind, mode)

    @rule(data=st.data())
    def continue_task(self, data: st.DataObject) -> None:
        if task_id := self._pick(data, *(s for s in TaskStatus if s.is_terminal)):
            self._spawn(task_id, *self.tasks[task_id].lane)

    @rule(data=st.data(), text=st.text(max_size=3))
    def complete(self, data: st.DataObject, text: str) -> None:
        if task_id := self._pick(data, R, W):
            self._runner(task_id).complete(task_id, text)
            self._end(task_id, TaskStatus.COMPLETED)

    @rule(data=st.data(), is_crash=st.booleans())
    def fail(self, data: st.DataObject, is_crash: bool) -> None:  # noqa: FBT001
        if task_id := self._pick(data, R, W):
            known = BackgroundTaskError("no", category=TaskErrorCategory.RUNNER)
            self._runner(task_id).end(task_id, ValueError("no") if is_crash else known)
            self._end(task_id, TaskStatus.FAILED)

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        if task_id := self._pick(data, R, W):
            question = PermissionRequest(
                request_id="q", tool_name="Bash", target="ls", risk=Risk.EXECUTE, reason=""
            )
            self._runner(task_id).report(task_id, question)
            self.tasks[task_id].status, self.tasks[task_id].idle = W, 0

    @rule(data=st.data(), approved=st.booleans())
    def answer(self, data: st.DataObject, approved: bool) -> None:  # noqa: FBT001
        if task_id := self._pick(data, R, W):
            resolved = PermissionResolved(request_id="q", approved=approved)
            self._runner(task_id).report(task_id, resolved)
            self.tasks[task_id].status, self.tasks[task_id].idle = R, 0

    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        if task_id := self._pick(data, R):
            self._runner(task_id).report(task_id, TextDelta("working\n"))
            self.tasks[task_id].idle = 0

    @rule(seconds=st.sampled_from([30, 60, 90]))
    def pass_time(self, seconds: int) -> None:
        self.loop.run(self.clock.advance(seconds))
        running = [task_id for task_id, task in self.tasks.items() if task.status is R]
        for task_id in running:
            self.tasks[task_id].idle += seconds
            if self.tasks[task_id].idle >= IDLE:
                self._end(task_id, TaskStatus.FAILED)
        for task_id, task in self.tasks.items():
            if task.status is R and task_id not in running:
                # It got its place in between: from now on the model knows how long it is idle.
                self._runner(task_id).report(task_id, TextDelta("started\n"))

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if task_id := self._pick(data, *TaskStatus):
            if self.tasks[task_id].status in OPEN:
                self.loop.run(self.manager.cancel(task_id))
                self._end(task_id, TaskStatus.CANCELLED)
            else:
                with pytest.raises(BackgroundTaskError, match="already ended"):
                    self.loop.run(self.manager.cancel(task_id))

    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        if task_id := self._pick(data, *TaskStatus):
            if self.tasks[task_id].status in OPEN:
                with pytest.raises(BackgroundTaskError, match="before you close it"):
                    self.manager.close(task_id)
            else:
                self.manager.close(task_id)
                del self.tasks[task_id]

    @rule(data=st.data(), policy=st.sampled_from(JobWaitPolicy))
    def make_group(self, data: st.DataObject, policy: JobWaitPolicy) -> None:
        if not self.tasks:
            return
        some = st.lists(st.sampled_from(sorted(self.tasks)), min_size=1, max_size=4, unique=True)
        members = data.draw(some)
        group = self.job_groups.create(members, policy=policy)
        self.groups[group.group_id] = ModelGroup(policy, members)
        self._update_groups()

    @rule(data=st.data())
    def wait_for_group(self, data: st.DataObject) -> None:
        if not self.groups:
            return
        group_id = data.draw(st.sampled_from(list(self.groups)))

        async def wait() -> bool:
            with anyio.move_on_after(0 if not self.groups[group_id].complete else 60):
                await self.job_groups.wait(group_id)
                return True
            return False

        assert self.loop.run(wait()) is self.groups[group_id].complete

    # What must hold

    @invariant()
    def the_manager_agrees_with_the_model(self) -> None:
        if self.count:
            self.loop.run(settle())
            found = {state.task_id: state.status for state in self.manager.list()}
            assert found == {task_id: task.status for task_id, task in self.tasks.items()}

    @invariant()
    def what_runs_is_what_the_runners_run(self) -> None:
        running = {task_id for task_id, task in self.tasks.items() if task.status in (R, W)}
        assert running == {key for runner in self.runners.values() for key in runner.running}

    @invariant()
    def groups_agree_with_the_model(self) -> None:
        for group_id, group in self.groups.items():
            state = self.job_groups.get(group_id)
            assert (state.status is JobGroupStatus.COMPLETED) is group.complete
            ended = [one for one in group.members if one in self.results]
            assert [result.task_id for result in state.results] == ended
            assert [result.status for result in state.results] == [self.results[e] for e in ended]
            summary = self.job_groups.summarize(group_id)
            assert summary.total - summary.running == len(ended)

    def teardown(self) -> None:
        async def shut_down() -> None:
            with anyio.fail_after(60):
                await self.manager.shutdown()
                self.job_groups.close()
                assert asyncio.all_tasks() == {asyncio.current_task()}

        self.loop.run(shut_down())
        for task_id, task in self.tasks.items():
            if task.status in OPEN:
                task.status = self.results[task_id] = TaskStatus.CANCELLED
        self._update_groups()
        self.the_manager_agrees_with_the_model()
        self.groups_agree_with_the_model()
        self.loop.close()
        assert not any(runner.running for runner in self.runners.values())

    # The model

    def _spawn(self, task_id: str, kind: TaskKind, mode: TaskMode) -> None:
        limits = TaskLimits(idle_timeout=IDLE)
        request = TaskRequest(kind=kind, prompt="x", task_id=task_id, mode=mode, limits=limits)
        self.loop.run(self.manager.spawn(request))
        self.loop.run(settle())
        self.tasks.pop(task_id, None)
        self.results.pop(task_id, None)
        self.tasks[task_id] = ModelTask(kind, mode)
        self._start_waiting()

    def _end(self, task_id: str, status: TaskStatus) -> None:
        self.loop.run(settle())
        self.tasks[task_id].status = self.results[task_id] = status
        self._start_waiting()
        self._update_groups()

    def _start_waiting(self) -> None:
        busy: defaultdict[object, int] = defaultdict(int)
        for task in self.tasks.values():
            busy[task.lane] += task.status in (R, W)
        for task in self.tasks.values():
            if task.status is Q and busy[task.lane] < PLACES:
                task.status = R
                busy[task.lane] += 1

    def _update_groups(self) -> None:
        for group in self.groups.values():
            results = [self.results.get(member) for member in group.members]
            is_any = group.policy is JobWaitPolicy.WAIT_ANY and TaskStatus.COMPLETED in results
            if group.policy is not JobWaitPolicy.MANUAL and (is_any or None not in results):
                group.complete = True

    def _pick(self, data: st.DataObject, *statuses: TaskStatus) -> str | None:
        known = [task_id for task_id, task in self.tasks.items() if task.status in statuses]
        return data.draw(st.sampled_from(sorted(known))) if known else None

    def _runner(self, task_id: str) -> ScriptedRunner:
        return self.runners[self.tasks[task_id].lane[0]]


@pytest.mark.req("BGT-1", "BGT-3")
def test_tasks_and_groups_live_as_the_model_says_and_a_shutdown_leaves_nothing() -> None:
    run_state_machine_as_test(
        Tasks,
        settings=settings(
            max_examples=60, stateful_step_count=30, deadline=None, phases=(Phase.generate,)
        ),
    )
