"""What a journal says about the background tasks and job groups of its session."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from clew.core.entries import Entry, JobGroupChanged, TaskChanged
from clew.core.tasks import JobGroupState, TaskState
from clew.stores.stored_entries import select_entries


class TaskRecords(Struct, frozen=True, kw_only=True):
    """The background tasks and job groups in a journal, oldest first."""

    tasks: tuple[TaskState, ...] = ()
    """The last known state of each task that is not closed."""
    closed: tuple[TaskState, ...] = ()
    """The last state of each task that is closed."""
    reported: frozenset[str] = frozenset()
    """The ids of the tasks whose end was reported to the model."""
    groups: tuple[JobGroupState, ...] = ()
    """The last known state of each group."""
    task_changes: tuple[Entry, ...] = ()
    """The entries of all tasks."""
    group_changes: tuple[Entry, ...] = ()
    """The entries of all groups."""


def read_task_records(entries: Sequence[Entry]) -> TaskRecords:
    """Return the background tasks and job groups in a journal.

    Only their own entries are read, so that a long session still opens quickly.
    """
    tasks: dict[str, TaskState] = {}
    closed: dict[str, TaskState] = {}
    reported: set[str] = set()
    groups: dict[str, JobGroupState] = {}
    task_changes = select_entries(entries, "task")
    group_changes = select_entries(entries, "job_group")
    for entry in task_changes:
        match entry.body:
            case TaskChanged(state=task, reported=True):
                # An agent may continue before the model reads how it ended.
                if task.task_id in tasks and tasks[task.task_id].status.is_terminal:
                    reported.add(task.task_id)
            case TaskChanged(state=task, closed=True):
                tasks.pop(task.task_id, None)
                closed[task.task_id] = task
            case TaskChanged(state=task):
                tasks[task.task_id] = task
                closed.pop(task.task_id, None)
                reported.discard(task.task_id)
            case _:
                pass
    for entry in group_changes:
        if isinstance(entry.body, JobGroupChanged):
            groups[entry.body.state.group_id] = entry.body.state
    return TaskRecords(
        tasks=tuple(tasks.values()),
        closed=tuple(closed.values()),
        reported=frozenset(reported),
        groups=tuple(groups.values()),
        task_changes=tuple(task_changes),
        group_changes=tuple(group_changes),
    )


def list_record_fields(records: TaskRecords) -> dict[str, list[object]]:
    """Return the records as the fields of an exported session; empty ones are left out."""
    fields = {
        "backgroundTasks": [msgspec.to_builtins(one) for one in records.tasks],
        "backgroundTaskEvents": [_event(one) for one in records.task_changes],
        "backgroundJobGroups": [msgspec.to_builtins(one) for one in records.groups],
        "backgroundJobGroupEvents": [_event(one) for one in records.group_changes],
    }
    return {name: values for name, values in fields.items() if values}


def _event(entry: Entry) -> object:
    return {"entry": entry.id, "at": entry.at, **msgspec.to_builtins(entry.body)}
