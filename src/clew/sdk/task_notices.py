"""What the model is told when a background task has ended."""

from clew.core.events import BackgroundTaskEvent
from clew.core.tasks import TaskKind, TaskState, TaskStatus, TimeoutReason
from clew.core.text import one_line, truncate_middle

_RESULT = 4_000
"""Characters of a result that a notice has."""
_LABEL = 80


def make_notice(event: BackgroundTaskEvent) -> str:
    """Return what the model must know of a change; empty if it need not know.

    The model waits for tasks in the foreground itself. Tasks that died with an earlier process
    are reported when their session is resumed.
    """
    state = event.state
    if state is None or state.mode != "background" or str(event.stage) != str(state.status):
        return ""
    is_stale = state.timeout_reason is TimeoutReason.STALE_WORKER
    return describe_task_end(state) if state.status.is_terminal and not is_stale else ""


def describe_task_end(state: TaskState) -> str:
    """Return how a background task ended, its result, and how to read all of it."""
    is_agent = state.kind is TaskKind.AGENT
    what = f"agent {state.task_id} ({state.agent})" if is_agent else f"process {state.task_id}"
    lines = [f"The background {what} {_describe_status(state)}: {one_line(state.label, _LABEL)}"]
    if state.result.strip():
        where = _HOW_TO_READ[state.kind].format(id=state.task_id)
        text = truncate_middle(state.result.strip(), _RESULT, where=where)
        lines.append(f"{'Its result' if is_agent else 'The end of its output'}:\n{text}")
    return "\n".join(lines)


_HOW_TO_READ = {
    TaskKind.AGENT: "; `agent read {id}` shows its work",
    TaskKind.PROCESS: "; BackgroundProcess with the action `read` and task_id {id} shows all",
}


def _describe_status(state: TaskState) -> str:
    match state.status:
        case TaskStatus.COMPLETED:
            return "has completed"
        case TaskStatus.CANCELLED:
            return f"was cancelled ({state.error})"
        case _:
            code = f"exit code {state.exit_code}" if state.exit_code else ""
            more = f", {code}" if code and code not in state.error else ""
            return f"has failed ({state.error}{more})"
