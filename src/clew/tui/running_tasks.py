"""The background tasks of a session as a terminal follows them: subagents and processes."""

from collections.abc import Sequence

from msgspec.structs import replace

from clew.core.events import Event, PermissionRequest, PermissionResolved, ToolStarted, Warned
from clew.core.task_events import (
    BackgroundJobGroupEvent,
    BackgroundTaskEvent,
    JobGroupStage,
    TaskStage,
)
from clew.core.tasks import TaskKind, TaskState, TaskStatus
from clew.core.text import one_line, pluralize
from clew.core.tool_states import first_argument
from clew.tui.blocks import Block, Notice, RunningTaskBlock, TaskNote

GENERAL_PURPOSE = "general-purpose"
"""The agent that does what no other agent is made for."""
_MAX_NAME = 40
_ENDS = {
    TaskStage.COMPLETED: "completed",
    TaskStage.FAILED: "failed",
    TaskStage.CANCELLED: "cancelled",
}

_LISTED = (*_ENDS, TaskStage.CREATED, TaskStage.CLOSED)


def changes_list(event: Event) -> bool:
    """Return whether an event changes which tasks there are, and which of them have ended."""
    return isinstance(event, BackgroundTaskEvent) and event.stage in _LISTED


def describe_attention(event: Event) -> str:
    """Return what a user who reads nothing at the moment should know; mostly nothing."""
    match event:
        case BackgroundTaskEvent(stage=stage, state=TaskState(mode="background")):
            if stage is TaskStage.WAITING:
                return "a background task asks for permission"
            return "a background task has ended" if stage in _ENDS else ""
        case _:
            return ""


class TaskLines:
    """The tasks that have not ended, and what to tell about their changes."""

    def __init__(self) -> None:
        self._tasks: dict[str, RunningTaskBlock] = {}
        self._in_background: set[str] = set()
        """Tasks in the background, including those that have ended."""

    @property
    def running(self) -> tuple[RunningTaskBlock, ...]:
        """The tasks, in the order in which they started."""
        return tuple(self._tasks.values())

    def sign(self, request: PermissionRequest, task_id: str) -> PermissionRequest:
        """Return the request of a task with the name of the task."""
        if request.asker or not task_id:
            return request
        task = self._tasks.get(task_id)
        return replace(request, asker=f"{task.name} ({task_id})" if task is not None else task_id)

    def join(self, event: BackgroundTaskEvent, at: float) -> None:
        """Take a task that runs when the terminal opens the session; the user is not told."""
        self.change(event, at)

    def change(self, event: BackgroundTaskEvent, at: float) -> Sequence[Block]:
        """Take a change of a task; returns the note about it, if it needs one."""
        match event.stage:
            case TaskStage.CREATED:
                self._tasks[event.task_id] = _make_task(event, at)
            case TaskStage.STARTED:
                task = self._tasks[event.task_id] = _make_task(event, at)
                if task.is_background:
                    self._in_background.add(event.task_id)
                return [_note(event, task, "started", event.text)]
            case TaskStage.UPDATED | TaskStage.RESUMED:
                if event.task_id in self._tasks:
                    self._update_state(event.task_id, event.state)
            case TaskStage.WAITING:
                task = self._mark(event, at)
                return [_note(event, task, "asks", event.text)] if task.is_background else []
            case TaskStage.COMPLETED | TaskStage.FAILED | TaskStage.CANCELLED:
                return [self._end(event, at)]
            case TaskStage.CLOSED:
                pass
        return []

    def change_group(self, event: BackgroundJobGroupEvent) -> Sequence[Block]:
        """Take a change of a job group; returns the note about one in the background."""
        group = event.state
        if event.stage is not JobGroupStage.COMPLETED:
            return []
        if self._in_background.isdisjoint(group.task_ids):
            return []
        label = f" {one_line(group.label, _MAX_NAME)}" if group.label else ""
        results = [result.status for result in group.results]
        counts = [
            f"{results.count(status)} {status}"
            for status in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)
            if status in results
        ]
        total = pluralize(len(group.task_ids), "task")
        said = ", ".join(counts) or "nothing has ended"
        return [Notice(f"the group{label} ({group.group_id}) of {total} is complete: {said}")]

    def update(self, task_id: str, event: Event) -> Sequence[Block]:
        """Take an event of a task; returns its warning, if it is one."""
        task = self._tasks.get(task_id)
        match event:
            case ToolStarted(name=name, arguments=arguments) if task is not None:
                line = f"{name} {first_argument(arguments)}".rstrip()
                self._tasks[task_id] = replace(task, calls=task.calls + 1, line=line)
            case PermissionRequest() if task is not None:
                self._tasks[task_id] = replace(task, is_asking=True)
            case PermissionResolved() if task is not None:
                self._tasks[task_id] = replace(task, is_asking=False)
            case Warned(text=text):
                return [Notice(f"{task.name if task else task_id}: {text}", "warning")]
            case _:
                pass
        return []

    def _update_state(self, task_id: str, state: TaskState | None) -> None:
        task = replace(self._tasks[task_id], is_asking=False)
        if state is not None:
            task = replace(
                task,
                line=state.action or state.preview or task.line,
                percentage=state.context.used_percentage if state.context else task.percentage,
                is_asking=state.status is TaskStatus.WAITING_PERMISSION,
            )
        self._tasks[task_id] = task

    def _mark(self, event: BackgroundTaskEvent, at: float) -> RunningTaskBlock:
        task = self._tasks.get(event.task_id) or _make_task(event, at)
        self._tasks[event.task_id] = replace(task, is_asking=True)
        return task

    def _end(self, event: BackgroundTaskEvent, at: float) -> Block:
        task = self._tasks.pop(event.task_id, None) or _make_task(event, at)
        note = _note(event, task, _ENDS[event.stage], event.text)
        return replace(note, calls=task.calls, seconds=max(0.0, at - task.since))


def _make_task(event: BackgroundTaskEvent, at: float) -> RunningTaskBlock:
    state = event.state
    if state is None:
        return RunningTaskBlock(task_id=event.task_id, name=event.agent, since=at)
    return RunningTaskBlock(
        task_id=event.task_id,
        name=_name(state),
        since=state.started_at or at,
        line=state.action or state.preview,
        percentage=state.context.used_percentage if state.context else None,
        is_agent=state.kind is TaskKind.AGENT,
        is_background=state.mode == "background",
        is_queued=event.stage is TaskStage.CREATED,
        is_asking=state.status is TaskStatus.WAITING_PERMISSION,
    )


def _name(state: TaskState) -> str:
    """Return the label of a task, with the agent that does it if that says something."""
    label = one_line(state.label or state.prompt, _MAX_NAME)
    if state.agent in ("", GENERAL_PURPOSE):
        return label
    return one_line(f"{state.agent}: {label}", 2 * _MAX_NAME)


def _note(event: BackgroundTaskEvent, task: RunningTaskBlock, stage: str, text: str) -> TaskNote:
    if stage == "started" and event.state is not None:
        # The label of a task is often the beginning of its prompt.
        is_said = one_line(text, _MAX_NAME) == one_line(event.state.label, _MAX_NAME)
        text = "" if is_said else text
    return TaskNote(
        name=task.name,
        stage=stage,  # type: ignore[arg-type]
        text=text,
        task_id=event.task_id if task.is_background else "",
        is_agent=task.is_agent,
    )
