"""Background tasks as lines of text; the commands that list tasks share them."""

from collections.abc import Sequence

from clew.core.tasks import TaskState, TaskStatus
from clew.core.text import one_line

_LABEL = 40
_DETAIL = 60
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def list_tasks(tasks: Sequence[TaskState], *, now: float, details: bool = True) -> list[str]:
    """Return a line for each task: id, status, age, name, and what it does or how it ended.

    Args:
        tasks: The tasks.
        now: The current time, in seconds since the epoch.
        details: False to leave out what it does or how it ended.
    """
    widest = max((len(task.task_id) for task in tasks), default=0)
    lines = []
    for task in tasks:
        detail = _find_detail(task) if details else ""
        said = f": {one_line(detail, _DETAIL)}" if detail else ""
        lines.append(_describe(task, now, widest) + said)
    return lines


def format_age(seconds: float) -> str:
    """Return a duration in its largest unit, such as `90 s`, `12 min`, `5 h` or `3 d`."""
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < 2 * _HOUR:
        return f"{whole // _MINUTE} min"
    return f"{whole // _HOUR} h" if whole < 2 * _DAY else f"{whole // _DAY} d"


def _describe(task: TaskState, now: float, widest: int) -> str:
    name = one_line(f"{task.agent}: {task.label}" if task.agent else task.label, _LABEL)
    status = "asks" if task.status is TaskStatus.WAITING_PERMISSION else str(task.status)
    began = task.started_at or task.created_at
    age = format_age((task.ended_at or now) - began) if began else ""
    percent = f", context {task.context.used_percentage:.0f}%" if task.context else ""
    return f"  {task.task_id:<{widest}}  {status:<9}  {age:>6}  {name}{percent}"


def _find_detail(task: TaskState) -> str:
    """Return what a task does or asks, or how it ended; empty if nothing is known."""
    if task.status.is_terminal:
        return task.error or next((line for line in task.result.splitlines() if line.strip()), "")
    return task.question or task.action or task.preview
