"""The notice that a model gets when a background task has ended."""

from clew.core.events import BackgroundTaskEvent
from clew.core.tasks import TaskKind, TaskState, TaskStatus, TimeoutReason
from clew.core.text import one_line, truncate_middle

_RESULT = 4_000
"""Characters of a result that a notice has."""
_LABEL = 80


def find_end(event: BackgroundTaskEvent) -> TaskState | None:
    """Return the task if the event is its end and the model must know; None otherwise.

    The model waits for tasks in the foreground itself. Tasks that died with an earlier process
    are reported when their session is resumed.
    """
    state = event.state
    if state is None or state.mode != "background" or str(event.stage) != str(state.status):
        return None
    return state if state.status.is_terminal and not is_stale(state) else None


def is_stale(state: TaskState) -> bool:
    """Return whether a task died with an earlier process of its session."""
    return state.timeout_reason is TimeoutReason.STALE_WORKER and not state.durable


def tells_of(text: str, state: TaskState) -> bool:
    """Return whether a message to the model has the notice about the end of a task."""
    return f"{_name(state)} " in text


def describe_task_end(state: TaskState) -> str:
    """Return how a background task ended, its result, and how to read all of it."""
    is_agent = state.kind is TaskKind.AGENT
    what = f"{_name(state)} ({state.agent})" if is_agent and state.agent else _name(state)
    lines = [f"{what} {_describe_status(state)}: {one_line(state.label, _LABEL)}"]
    if is_stale(state) and state.worktree_path:
        branch = f", branch {state.branch_name}" if state.branch_name else ""
        lines.append(f"Its work so far is in the git worktree {state.worktree_path}{branch}.")
    if state.result.strip():
        where = _HOW_TO_READ[state.kind].format(id=state.task_id)
        text = truncate_middle(state.result.strip(), _RESULT, where=where)
        lines.append(f"{'Its result' if is_agent else 'The end of its output'}:\n{text}")
    return "\n".join(lines)


def _name(state: TaskState) -> str:
    return f"The background {state.kind} {state.task_id}"


_HOW_TO_READ = {
    TaskKind.AGENT: "; `agent read {id}` shows its work",
    TaskKind.PROCESS: "; BackgroundProcess with the action `read` and task_id {id} shows all",
}


def _describe_status(state: TaskState) -> str:
    match state.status:
        case TaskStatus.FAILED if is_stale(state):
            return "ended without a result, because the process of this session ended"
        case TaskStatus.COMPLETED:
            return "has completed"
        case TaskStatus.CANCELLED:
            return f"was cancelled ({state.error})"
        case _:
            code = f"exit code {state.exit_code}" if state.exit_code else ""
            more = f", {code}" if code and code not in state.error else ""
            return f"has failed ({state.error}{more})"
