"""The background tasks of one session: their manager, their records in the journal, their end.

The manager is made when it is first used: most sessions run nothing in the background.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from clew.core.entries import Body, JobGroupChanged, TaskChanged
from clew.core.errors import BackgroundTaskError, ConfigError, StoreError
from clew.core.events import (
    BackgroundJobGroupEvent,
    BackgroundTaskEvent,
    Event,
    JobGroupStage,
    TaskStage,
    Warned,
)
from clew.core.tasks import JobGroupState, TaskKind, TaskState
from clew.core.text import one_line
from clew.sdk.host import Host
from clew.sdk.task_notices import find_end, is_stale
from clew.sdk.task_reports import TaskReports
from clew.session.config import ExtraFacts
from clew.session.event_bus import EventBus
from clew.session.session import Session
from clew.session.task_records import read_task_records

if TYPE_CHECKING:
    from clew.runtime.groups import JobGroups
    from clew.runtime.manager import BackgroundTaskManager
    from clew.runtime.protocol import TaskLimits, TaskRunner
    from clew.sdk.roster_writer import RosterWriter

_MOST_FACTS = 12
_LABEL = 80


class SessionTasks:
    """Makes the manager of a session's background tasks, and records what happens to them.

    Every change but progress is an entry of the journal, so a resumed session knows its tasks.

    Raises:
        ConfigError: `max_concurrent` is not positive.

    Args:
        session: The session that starts the tasks.
        bus: Where events are published.
        host: Where entries are written.
        make_runners: Returns what runs the tasks; called once.
        max_concurrent: How many tasks of one kind run at once; None for the default.
    """

    def __init__(
        self,
        session: Callable[[], Session],
        *,
        bus: EventBus,
        host: Host,
        make_runners: Callable[[], Iterable["TaskRunner"]],
        max_concurrent: int | None = None,
    ) -> None:
        if max_concurrent is not None and max_concurrent < 1:
            raise ConfigError("max_background_tasks must be at least 1")
        self._session = session
        self._bus, self._host = bus, host
        self._make_runners = make_runners
        self._max_concurrent = max_concurrent
        self._manager: BackgroundTaskManager | None = None
        self._groups: JobGroups | None = None
        self._recorder = _Recorder(session, bus, host)
        self._reports = TaskReports(session, bus, self._recorder.add)
        self.agent_limits: TaskLimits | None = None
        """When agents are ended whose requests say nothing about it; None for the default."""
        self.make_roster: Callable[[BackgroundTaskManager], RosterWriter | None] | None = None
        """Makes what lists the tasks for other processes."""
        self._roster: RosterWriter | None = None
        self.make_durable: Callable[[], TaskRunner | None] | None = None
        """Makes what follows durable tasks; called once."""

    @property
    def manager(self) -> "BackgroundTaskManager":
        """The manager of the tasks."""
        if self._manager is None:
            # Imported here because most sessions run nothing in the background.
            from clew.runtime.manager import (  # noqa: PLC0415
                MAX_CONCURRENT,
                BackgroundTaskManager,
            )

            self._manager = BackgroundTaskManager(
                self._make_runners(),
                publish=self._publish,
                durable=self.make_durable() if self.make_durable is not None else None,
                max_concurrent=self._max_concurrent or MAX_CONCURRENT,
            )
            if self.make_roster is not None:
                self._roster = self.make_roster(self._manager)
        return self._manager

    @property
    def groups(self) -> "JobGroups":
        """The groups of tasks."""
        if self._groups is None:
            from clew.runtime.groups import JobGroups  # noqa: PLC0415 - see above

            session_id = self._session().session_id
            self._groups = JobGroups(self.manager, publish=self._publish, session_id=session_id)
        return self._groups

    def list_tasks(self) -> tuple[TaskState, ...]:
        """Return all tasks, oldest first, without making a manager."""
        return self._manager.list() if self._manager is not None else ()

    def list_groups(self) -> tuple[JobGroupState, ...]:
        """Return all groups, oldest first, without making a manager."""
        return self._groups.list() if self._groups is not None else ()

    def list_open(self) -> tuple[TaskState, ...]:
        """Return the tasks that have not ended."""
        return tuple(task for task in self.list_tasks() if not task.status.is_terminal)

    async def restore(self) -> None:
        """Restore the tasks of a resumed session.

        With the next prompt the model is told which of them died, and how those ended of whose
        end it did not read before.
        """
        session = self._session()
        records = read_task_records(session.journal.entries)
        # A fork has the entries of the original, but not its tasks.
        own = [task for task in records.tasks if task.session_id in ("", session.session_id)]
        groups = [group for group in records.groups if group.session_id == session.session_id]
        if own:
            await self.manager.restore(own)
        if groups:
            self.groups.restore(groups, closed=records.closed)
        for task in (self.manager.get(task.task_id) for task in own):
            is_owed = task.mode == "background" or is_stale(task)
            if task.status.is_terminal and is_owed and task.task_id not in records.reported:
                self._reports.remind(task)

    def find_facts(self) -> list[str]:
        """Return what a summary of the conversation must say about running tasks."""
        return describe_running(self.list_open())

    def abort(self) -> None:
        """Cancel the tasks whose result a run waits for; those in the background continue."""
        for task in self.list_open():
            if task.mode == "foreground":
                self._host.start_soon(self._cancel, task.task_id)

    async def flush(self) -> None:
        """Write the entries of all changes so far."""
        await self._recorder.flush()

    async def aclose(self) -> None:
        """Cancel all tasks, wait for their end, and write the last entries."""
        with anyio.CancelScope(shield=True):
            if self._manager is not None:
                await self._manager.shutdown()
            if self._groups is not None:
                self._groups.close()
            await self._recorder.flush()
            if self._roster is not None:
                await self._roster.aclose()

    async def _cancel(self, task_id: str) -> None:
        try:
            await self.manager.cancel(task_id, "the run was aborted")
        except BackgroundTaskError:
            # It has ended in the meantime.
            return

    def _publish(self, event: Event, *, task_id: str = "") -> None:
        self._recorder.follow(event)
        if isinstance(event, BackgroundTaskEvent) and (ended := find_end(event)) is not None:
            self._reports.notify(ended)
        self._bus.publish(event, task_id=task_id)
        if self._roster is not None:
            self._roster.follow(event, task_id=task_id)


_RECORDED = {
    TaskStage.CREATED,
    TaskStage.STARTED,
    TaskStage.WAITING,
    TaskStage.COMPLETED,
    TaskStage.FAILED,
    TaskStage.CANCELLED,
    TaskStage.CLOSED,
}


class _Recorder:
    """Writes the changes of tasks and groups to the journal, in their order."""

    def __init__(self, session: Callable[[], Session], bus: EventBus, host: Host) -> None:
        self._session, self._bus, self._host = session, bus, host
        self._waiting: list[Body] = []
        self._places: dict[str, set[str]] = {}
        """The logs and worktrees of running tasks that are recorded."""
        self._lock: anyio.Lock | None = None

    def follow(self, event: Event) -> None:
        """Record the event, unless it only tells of progress."""
        match event:
            case BackgroundTaskEvent(stage=stage, state=TaskState() as task):
                # After a crash, its log and its worktree are all that is left of a task.
                if self._note_places(task) or stage in _RECORDED:
                    self.add(TaskChanged(state=_shorten(task), closed=stage is TaskStage.CLOSED))
            case BackgroundJobGroupEvent(stage=stage, state=group):
                # The results so far are those of its tasks, which are recorded.
                if stage is not JobGroupStage.UPDATED:
                    self.add(JobGroupChanged(state=group))
            case _:
                pass

    def _note_places(self, task: TaskState) -> bool:
        """Note where the work of a task is; returns whether there is a new place."""
        if task.status.is_terminal:
            self._places.pop(task.task_id, None)
            return False
        known = self._places.setdefault(task.task_id, set())
        fresh = {task.log_path, task.worktree_path} - known - {""}
        known |= fresh
        return bool(fresh)

    def add(self, body: Body) -> None:
        """Write an entry as soon as possible."""
        self._waiting.append(body)
        if self._host.is_running:
            self._host.start_soon(self.flush)

    async def flush(self) -> None:
        """Write what waits."""
        self._lock = self._lock or anyio.Lock()
        async with self._lock:
            while self._waiting:
                try:
                    with anyio.CancelScope(shield=True):
                        await self._session().journal.append(self._waiting[0])
                except StoreError as error:
                    self._bus.publish(Warned(f"a background task was not recorded: {error}"))
                self._waiting.pop(0)


def _shorten(task: TaskState) -> TaskState:
    """Return a task without what only running tasks have."""
    return replace(task, action="", preview="") if task.status.is_terminal else task


def join_facts(given: ExtraFacts | None, own: ExtraFacts) -> ExtraFacts:
    """Return the facts of the caller, if there are any, and those of the session itself."""
    return own if given is None else lambda: [*given(), *own()]


def describe_running(tasks: Sequence[TaskState]) -> list[str]:
    """Return lines about running tasks for a model that has forgotten their start."""
    if not tasks:
        return []
    lines = ["", "## Running in the background", ""]
    lines += [_describe(task) for task in tasks[:_MOST_FACTS]]
    if len(tasks) > _MOST_FACTS:
        lines.append(f"- and {len(tasks) - _MOST_FACTS} more")
    return lines


def _describe(task: TaskState) -> str:
    label, prompt = one_line(task.label, _LABEL), one_line(task.prompt, 2 * _LABEL)
    about = label if label == prompt else f"{label}: {prompt}"
    if task.kind is TaskKind.PROCESS:
        how = f"read its output with BackgroundProcess (action `read`, task_id `{task.task_id}`)"
        return f"- `{task.task_id}`, a process, {task.status}: {about}; {how}"
    name = f"the agent {task.agent}" if task.agent else "an agent"
    return f"- `{task.task_id}`, {name}, {task.status}: {about}; you get its result when it ends"
