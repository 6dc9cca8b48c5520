"""Job groups: several tasks that belong together, and when their results are complete."""

import os
from collections.abc import Collection, Iterable

import anyio

from clew.core.errors import BackgroundTaskError, TaskNotFound
from clew.core.events import BackgroundJobGroupEvent, BackgroundTaskEvent, JobGroupStage
from clew.core.ids import SessionId
from clew.core.tasks import (
    JobGroupState,
    JobGroupStatus,
    JobGroupSummary,
    JobResult,
    JobWaitPolicy,
    TaskErrorCategory,
    TaskState,
    TaskStatus,
)
from clew.core.text import one_line, truncate
from clew.runtime.clock import Clock, SystemClock
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.task_events import Publish

MAX_SUMMARY = 1_000
_MAX_DETAIL = 200


def is_complete(policy: JobWaitPolicy, statuses: Collection[TaskStatus]) -> bool:
    """Return whether a group with tasks in these statuses is complete."""
    match policy:
        case JobWaitPolicy.MANUAL:
            return False
        case JobWaitPolicy.WAIT_ANY if TaskStatus.COMPLETED in statuses:
            return True
        case _:
            return all(status.is_terminal for status in statuses)


def summarize_result(state: TaskState) -> JobResult:
    """Return the result of a task that has ended."""
    return JobResult(
        task_id=state.task_id,
        label=state.label,
        status=state.status,
        summary=truncate(state.result.strip(), MAX_SUMMARY),
        error=state.error,
        log_path=state.log_path,
    )


class _Group:
    """A group, with the newest states of its tasks. It knows when it is complete."""

    def __init__(self, state: JobGroupState) -> None:
        self._given = state
        self._tasks: dict[str, TaskState] = {}
        self._results = {result.task_id: result for result in state.results}
        self._ended_at = state.ended_at
        self.is_complete = state.status is JobGroupStatus.COMPLETED
        self.settled = anyio.Event()
        """Set when the group is complete, or when it is no longer followed."""
        if self.is_complete:
            self.settled.set()

    @property
    def state(self) -> JobGroupState:
        """The group as it is now."""
        given = self._given
        return JobGroupState(
            group_id=given.group_id,
            policy=given.policy,
            label=given.label,
            session_id=given.session_id,
            status=JobGroupStatus.COMPLETED if self.is_complete else JobGroupStatus.RUNNING,
            task_ids=given.task_ids,
            results=tuple(self._results[one] for one in given.task_ids if one in self._results),
            created_at=given.created_at,
            ended_at=self._ended_at,
        )

    def update(self, task: TaskState) -> bool:
        """Note the newest state of a task; returns whether it is a new result."""
        self._tasks[task.task_id] = task
        if not task.status.is_terminal:
            # An agent that ended may be continued.
            self._results.pop(task.task_id, None)
            return False
        result = summarize_result(task)
        is_new = self._results.get(task.task_id) != result
        self._results[task.task_id] = result
        return is_new

    def restore(self, task_id: str, task: TaskState | None) -> None:
        """Note the state of a task after a restart; None when it is not in the list."""
        if task is not None:
            self.update(task)
        elif task_id not in self._results:
            self._results[task_id] = JobResult(
                task_id=task_id, label="task", status=TaskStatus.FAILED, error="its result is lost"
            )

    def is_due(self) -> bool:
        """Return whether the group becomes complete now."""
        return not self.is_complete and is_complete(self._given.policy, self._statuses())

    def complete(self, at: float) -> None:
        """Make the group complete."""
        self._ended_at = at
        self.is_complete = True
        self.settled.set()

    def summarize(self) -> JobGroupSummary:
        """Count the tasks, and describe each in one line."""
        statuses = self._statuses()
        return JobGroupSummary(
            group_id=self._given.group_id,
            total=len(statuses),
            running=sum(not status.is_terminal for status in statuses),
            completed=statuses.count(TaskStatus.COMPLETED),
            failed=statuses.count(TaskStatus.FAILED),
            cancelled=statuses.count(TaskStatus.CANCELLED),
            lines=tuple(self._describe(task_id) for task_id in self._given.task_ids),
        )

    def _statuses(self) -> list[TaskStatus]:
        return [self._status(task_id) for task_id in self._given.task_ids]

    def _status(self, task_id: str) -> TaskStatus:
        known = self._results.get(task_id) or self._tasks[task_id]
        return known.status

    def _describe(self, task_id: str) -> str:
        if (result := self._results.get(task_id)) is not None:
            label, detail = result.label, result.error or result.summary
        else:
            task = self._tasks[task_id]
            label, detail = task.label, task.question or task.action or task.preview
        head = f"[{self._status(task_id)}] {label} {task_id}"
        return f"{head}: {one_line(detail, _MAX_DETAIL)}" if detail else head


class JobGroups:
    """The job groups of a session; they follow the tasks of its manager.

    Close it before or after the manager is shut down: it starts nothing of its own.

    Args:
        manager: Runs the tasks.
        publish: Gets a `BackgroundJobGroupEvent` for each change of a group.
        session_id: The session that makes the groups.
        clock: The clock for timestamps.
    """

    def __init__(
        self,
        manager: BackgroundTaskManager,
        *,
        publish: Publish | None = None,
        session_id: SessionId = SessionId(""),  # noqa: B008 - a plain text
        clock: Clock | None = None,
    ) -> None:
        self._manager = manager
        self._publish = publish
        self._session_id = session_id
        self._clock = clock or SystemClock()
        self._groups: dict[str, _Group] = {}
        self._of_task: dict[str, set[str]] = {}
        self._is_closed = False
        self._unsubscribe = manager.subscribe(self._follow)

    def create(
        self,
        task_ids: Iterable[str],
        *,
        policy: JobWaitPolicy = JobWaitPolicy.WAIT_ALL,
        label: str = "",
        group_id: str = "",
    ) -> JobGroupState:
        """Make a group of tasks that exist; it may be complete at once.

        Args:
            task_ids: Its tasks; at least one.
            policy: When it is complete.
            label: A short name for lists.
            group_id: Its id; empty for a new one.

        Raises:
            BackgroundTaskError: There are no tasks, one of them does not exist, or the id is used.
        """
        ids = tuple(dict.fromkeys(task_ids))
        tasks = [self._manager.get(task_id) for task_id in ids]
        if not tasks:
            raise _invalid("a group needs at least one task")
        group_id = group_id or f"group-{os.urandom(4).hex()}"
        if group_id in self._groups:
            raise _invalid(f"there is a group {group_id} already")
        group = self._add(
            JobGroupState(
                group_id=group_id,
                policy=policy,
                label=label,
                session_id=self._session_id,
                task_ids=ids,
                created_at=self._clock.now(),
            )
        )
        for task in tasks:
            group.update(task)
        self._tell(group, JobGroupStage.CREATED)
        self._complete_if_due(group)
        return group.state

    def list(self) -> tuple[JobGroupState, ...]:
        """Return all groups, oldest first."""
        return tuple(group.state for group in self._groups.values())

    def get(self, group_id: str) -> JobGroupState:
        """Return a group.

        Raises:
            BackgroundTaskError: There is no such group.
        """
        return self._find(group_id).state

    async def wait(self, group_id: str) -> JobGroupState:
        """Return a group once it is complete.

        Raises:
            BackgroundTaskError: There is no such group, or the session was closed before.
        """
        group = self._find(group_id)
        await group.settled.wait()
        if not group.is_complete:
            raise _invalid(f"the session was closed before the group {group_id} was complete")
        return group.state

    def complete(self, group_id: str) -> JobGroupState:
        """Make a group complete, whatever its tasks do; the only end of a manual group.

        Raises:
            BackgroundTaskError: There is no such group.
        """
        group = self._find(group_id)
        if not group.is_complete:
            group.complete(self._clock.now())
            self._tell(group, JobGroupStage.COMPLETED)
        return group.state

    def summarize(self, group_id: str) -> JobGroupSummary:
        """Return how the tasks of a group stand.

        Raises:
            BackgroundTaskError: There is no such group.
        """
        return self._find(group_id).summarize()

    def restore(self, states: Iterable[JobGroupState], *, closed: Iterable[TaskState] = ()) -> None:
        """Put the groups of an earlier process into the list, after their tasks.

        Args:
            states: The groups.
            closed: Tasks that ended and are no longer in the list.
        """
        known = {task.task_id: task for task in (*closed, *self._manager.list())}
        for state in states:
            if state.group_id not in self._groups:
                group = self._add(state)
                for task_id in state.task_ids:
                    group.restore(task_id, known.get(task_id))
                self._complete_if_due(group)

    def close(self) -> None:
        """Stop following the tasks, and end all waits."""
        self._is_closed = True
        self._unsubscribe()
        for group in self._groups.values():
            group.settled.set()

    def _find(self, group_id: str) -> _Group:
        group = self._groups.get(group_id)
        if group is None:
            raise TaskNotFound(f"there is no group {group_id}")
        return group

    def _add(self, state: JobGroupState) -> _Group:
        group = self._groups[state.group_id] = _Group(state)
        for task_id in state.task_ids:
            self._of_task.setdefault(task_id, set()).add(state.group_id)
        if self._is_closed:
            group.settled.set()
        return group

    def _follow(self, event: BackgroundTaskEvent) -> None:
        for group_id in sorted(self._of_task.get(event.task_id, ())):
            group = self._groups[group_id]
            if event.state is None or not group.update(event.state):
                continue
            if not self._complete_if_due(group):
                self._tell(group, JobGroupStage.UPDATED)

    def _complete_if_due(self, group: _Group) -> bool:
        if is_due := group.is_due():
            group.complete(self._clock.now())
            self._tell(group, JobGroupStage.COMPLETED)
        return is_due

    def _tell(self, group: _Group, stage: JobGroupStage) -> None:
        state = group.state
        if self._publish is not None:
            self._publish(
                BackgroundJobGroupEvent(group_id=state.group_id, stage=stage, state=state)
            )


def _invalid(message: str) -> BackgroundTaskError:
    return BackgroundTaskError(message, category=TaskErrorCategory.VALIDATION)
