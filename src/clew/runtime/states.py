"""The life of a task: which status follows which, and how its state follows its events.

All functions are pure; `clew.runtime.manager` carries them out.
"""

from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import AbortError, BackgroundTaskError, ClewError, ProviderError
from clew.core.events import (
    ContextUpdated,
    Event,
    PermissionRequest,
    ReasoningDelta,
    TaskStage,
    TextDelta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
)
from clew.core.tasks import TaskErrorCategory, TaskState, TaskStatus, TimeoutReason
from clew.core.text import one_line, truncate
from clew.core.tool_states import first_argument
from clew.runtime.protocol import TaskFacts, TaskRequest, TaskResult
from clew.runtime.watchdogs import Activity

_MAX_LABEL = 60
_MAX_LINE = 120


class TaskChange(StrEnum):
    """What can happen to a task."""

    START = "start"
    ASK = "ask"
    """It asks for permission."""
    RESUME = "resume"
    """All its questions are answered, whatever the answers: a denied call does not end a task."""
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"


TRANSITIONS = MappingProxyType(
    {
        (TaskStatus.QUEUED, TaskChange.START): TaskStatus.RUNNING,
        (TaskStatus.QUEUED, TaskChange.FAIL): TaskStatus.FAILED,
        (TaskStatus.QUEUED, TaskChange.CANCEL): TaskStatus.CANCELLED,
        (TaskStatus.RUNNING, TaskChange.ASK): TaskStatus.WAITING_PERMISSION,
        (TaskStatus.RUNNING, TaskChange.COMPLETE): TaskStatus.COMPLETED,
        (TaskStatus.RUNNING, TaskChange.FAIL): TaskStatus.FAILED,
        (TaskStatus.RUNNING, TaskChange.CANCEL): TaskStatus.CANCELLED,
        (TaskStatus.WAITING_PERMISSION, TaskChange.RESUME): TaskStatus.RUNNING,
        (TaskStatus.WAITING_PERMISSION, TaskChange.FAIL): TaskStatus.FAILED,
        (TaskStatus.WAITING_PERMISSION, TaskChange.CANCEL): TaskStatus.CANCELLED,
    }
)
"""Every transition that exists. A queued task fails when the process that had it in its queue
ended."""

STAGES = MappingProxyType(
    {
        TaskChange.START: TaskStage.STARTED,
        TaskChange.ASK: TaskStage.WAITING,
        TaskChange.RESUME: TaskStage.RESUMED,
        TaskChange.COMPLETE: TaskStage.COMPLETED,
        TaskChange.FAIL: TaskStage.FAILED,
        TaskChange.CANCEL: TaskStage.CANCELLED,
    }
)
"""How a `BackgroundTaskEvent` names each change."""


def transition(status: TaskStatus, change: TaskChange) -> TaskStatus:
    """Return the status after a change.

    Raises:
        BackgroundTaskError: The change is not possible in this status (category `validation`).
    """
    after = TRANSITIONS.get((status, change))
    if after is None:
        raise BackgroundTaskError(
            f"a task that is {status} cannot {change}", category=TaskErrorCategory.VALIDATION
        )
    return after


class Stop(Struct, frozen=True, kw_only=True):
    """Why the manager ends a task before its runner does."""

    change: TaskChange
    """`CANCEL` or `FAIL`."""
    error: str
    timeout_reason: TimeoutReason | None = None


def create_state(request: TaskRequest, *, task_id: str, at: float) -> TaskState:
    """Return the state of a task that was just accepted."""
    return TaskState(
        task_id=task_id,
        kind=request.kind,
        label=one_line(request.label or request.prompt, _MAX_LABEL),
        session_id=request.session_id,
        prompt=request.prompt,
        agent=request.agent,
        model=request.model,
        cwd=request.cwd,
        mode=request.mode,
        isolation=request.isolation,
        allowed_tools=request.allowed_tools,
        max_turns=request.max_turns,
        fork_worker=request.fork_worker,
        fires_hooks=request.fires_hooks,
        group_id=request.group_id,
        durable=request.durable,
        created_at=at,
        last_activity_at=at,
    )


def recreate_request(state: TaskState) -> TaskRequest:
    """Return the request of a task of an earlier process, to follow or to continue it."""
    return TaskRequest(
        kind=state.kind,
        prompt=state.prompt,
        label=state.label,
        session_id=state.session_id,
        task_id=state.task_id,
        cwd=state.cwd,
        mode=state.mode,
        group_id=state.group_id,
        durable=state.durable,
        agent=state.agent,
        model=state.model,
        isolation=state.isolation,
        allowed_tools=state.allowed_tools,
        max_turns=state.max_turns,
        fork_worker=state.fork_worker,
        fires_hooks=state.fires_hooks,
    )


def change_state(state: TaskState, change: TaskChange, *, at: float) -> TaskState:
    """Return the state after a change that does not end the task."""
    status = transition(state.status, change)
    changed = replace(state, status=status, last_activity_at=at)
    match change:
        case TaskChange.START:
            return replace(changed, started_at=at)
        case TaskChange.RESUME:
            return replace(changed, question="")
        case _:
            return changed


def follow_event(state: TaskState, event: Event, activity: Activity, *, at: float) -> TaskState:
    """Return the state after an event that the task reported.

    Args:
        state: The state before.
        event: The event.
        activity: What was observed of the task, with this event.
        at: When it came.
    """
    state = replace(state, last_activity_at=at)
    match event:
        case TextDelta():
            return replace(
                state,
                action="",
                preview=_last_line(activity.recent) or state.preview,
                output_bytes=activity.output_bytes,
                text_deltas=activity.text_deltas,
            )
        case ReasoningDelta():
            return state if state.action else replace(state, action="thinking")
        case ToolStarted(name=name, arguments=arguments):
            action = one_line(f"{name} {first_argument(arguments)}", _MAX_LINE)
            return replace(state, action=action)
        case ToolProgress(line=line):
            return replace(state, preview=one_line(line, _MAX_LINE))
        case ToolEnded(name=name, failed=failed):
            return replace(state, action=f"{name} failed" if failed else "")
        case ContextUpdated(state=context):
            return replace(state, context=context)
        case PermissionRequest(tool_name=name, target=target):
            return replace(state, question=one_line(f"{name} {target}", _MAX_LINE))
        case _:
            return state


def add_facts(state: TaskState, facts: TaskFacts) -> TaskState:
    """Return the state with the facts that are known."""
    given = {name: getattr(facts, name) for name in facts.__struct_fields__}
    return replace(state, **{name: value for name, value in given.items() if value is not None})


def end_state(
    state: TaskState, outcome: TaskResult | Exception | None, stop: Stop | None, *, at: float
) -> TaskState:
    """Return the state of a task whose runner has ended.

    Args:
        state: The state before.
        outcome: What the runner returned or raised; None if it was cancelled.
        stop: Why the manager ended it; counts whatever the runner says.
        at: When it ended.
    """
    if stop is None:
        stop = _find_reason(outcome)
    change = stop.change if stop else TaskChange.COMPLETE
    if change is TaskChange.COMPLETE and state.status is TaskStatus.WAITING_PERMISSION:
        state = change_state(state, TaskChange.RESUME, at=at)
    ended = replace(
        state,
        status=transition(state.status, change),
        ended_at=at,
        last_activity_at=at,
        action="",
        question="",
        error=stop.error if stop else "",
    )
    if isinstance(outcome, TaskResult):
        ended = replace(
            add_facts(ended, TaskFacts(exit_code=outcome.exit_code)),
            result=outcome.text,
            worktree_path=outcome.worktree_path or ended.worktree_path,
            branch_name=outcome.branch_name or ended.branch_name,
        )
    elif isinstance(outcome, BackgroundTaskError):
        ended = replace(ended, result=outcome.partial)
    if change is not TaskChange.FAIL:
        return ended
    return replace(
        ended,
        error_category=_categorize(outcome, stop),
        timeout_reason=_find_timeout_reason(outcome, stop),
    )


def fail_stale(state: TaskState, *, at: float) -> TaskState:
    """Return the state of a task whose process ended before the task did."""
    return replace(
        end_state(
            state,
            None,
            Stop(
                change=TaskChange.FAIL,
                error="the process that ran it ended",
                timeout_reason=TimeoutReason.STALE_WORKER,
            ),
            at=at,
        ),
        error_category=TaskErrorCategory.CRASH,
        pid=None,
    )


def _find_reason(outcome: TaskResult | Exception | None) -> Stop | None:
    match outcome:
        case TaskResult():
            return None
        case AbortError():
            return Stop(change=TaskChange.CANCEL, error=str(outcome))
        case ClewError():
            return Stop(change=TaskChange.FAIL, error=str(outcome))
        case Exception():
            return Stop(change=TaskChange.FAIL, error=f"its runner crashed: {outcome!r}")
        case None:
            return Stop(change=TaskChange.FAIL, error="its runner ended without a result")


def _categorize(outcome: TaskResult | Exception | None, stop: Stop | None) -> TaskErrorCategory:
    if stop is not None and stop.timeout_reason is not None:
        return TaskErrorCategory.TIMEOUT
    match outcome:
        case BackgroundTaskError(category=category):
            return category
        case ProviderError():
            return TaskErrorCategory.PROVIDER
        case ClewError():
            return TaskErrorCategory.RUNNER
        case _:
            return TaskErrorCategory.CRASH


def _find_timeout_reason(
    outcome: TaskResult | Exception | None, stop: Stop | None
) -> TimeoutReason | None:
    if stop is not None and stop.timeout_reason is not None:
        return stop.timeout_reason
    return outcome.timeout_reason if isinstance(outcome, BackgroundTaskError) else None


def _last_line(text: str) -> str:
    line = text.rstrip().rpartition("\n")[2]
    return truncate(one_line(line), _MAX_LINE)
