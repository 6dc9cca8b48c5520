"""The task list of a conversation, from the tools with which a model keeps it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from clew.context.digest.steps.tool_steps import ToolStep
from clew.context.todo_list import WHOLE_LISTS

_CREATED = re.compile(r"Task #?(\w+) created")
_FINISHED = frozenset({"completed", "done", "cancelled", "deleted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskItem:
    """One task."""

    text: str
    status: str
    """In the words of the tool: `pending`, `in_progress`, `completed` …"""

    @property
    def is_open(self) -> bool:
        """True if work on it remains."""
        return self.status not in _FINISHED


def list_tasks(steps: Iterable[ToolStep]) -> list[TaskItem]:
    """Return the tasks after the last step, in their order.

    A tool that writes the whole list replaces it. Calls that create and update single tasks
    are merged by id; a deleted task is omitted.
    """
    tasks: dict[str, TaskItem] = {}
    for step in steps:
        if step.failed:
            continue
        if step.name in WHOLE_LISTS:
            key, wordings = WHOLE_LISTS[step.name]
            listed = _read_list(step.arguments.get(key), wordings)
            if listed is not None:
                tasks = {f"list {place}": task for place, task in enumerate(listed)}
        elif step.name == "taskcreate":
            found = _CREATED.search(step.result)
            key = found.group(1) if found else f"new {len(tasks)}"
            tasks[key] = TaskItem(text=step.get_text("subject"), status="pending")
        elif step.name == "taskupdate":
            _update(tasks, step)
    return [task for task in tasks.values() if task.text and task.status != "deleted"]


def _read_list(value: object, wordings: tuple[str, ...]) -> list[TaskItem] | None:
    if not isinstance(value, list):
        return None
    tasks: list[TaskItem] = []
    for task in value:
        if isinstance(task, dict):
            text = next((str(task[key]) for key in wordings if key in task), "")
            tasks.append(TaskItem(text=text, status=str(task.get("status", "pending"))))
    return tasks


def _update(tasks: dict[str, TaskItem], step: ToolStep) -> None:
    key = step.get_text("taskId") or step.get_text("task_id") or step.get_text("id")
    known = tasks.get(key, TaskItem(text=f"task {key}" if key else "", status="pending"))
    tasks[key] = TaskItem(
        text=step.get_text("subject") or known.text, status=step.get_text("status") or known.status
    )
