"""The list of agents in a store: what `clew.runtime.roster.Roster` needs of sessions."""

from pathlib import Path

from anyio import to_thread

from clew.core.errors import BackgroundTaskError, ConfigError
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind, TaskState
from clew.extensions.commands.roster import format_roster
from clew.runtime.roster import (
    SHOWN_ENDED,
    OpenActions,
    Roster,
    RosterEntry,
    RosterGroup,
    describe_status,
    parse_answer,
)
from clew.sdk.agent_transcript import read_transcript
from clew.sdk.session_store import ProjectStore
from clew.stores.protocol import Store
from clew.stores.task_protocol import TaskStore

__all__ = [
    "SHOWN_ENDED",
    "Roster",
    "RosterEntry",
    "RosterGroup",
    "describe_status",
    "find_task_store",
    "format_roster",
    "make_roster",
    "parse_answer",
]


def find_task_store(store: Store) -> TaskStore | None:
    """Return the task store of a session store; None if it keeps no tasks."""
    tasks: TaskStore | None = getattr(store, "tasks", None)
    return tasks


def make_roster(
    place: ProjectStore, *, durable: OpenActions | None = None, project: str = ""
) -> Roster:
    """Return the list of agents in a store; the caller closes the store.

    Args:
        place: The store, and the folder whose agents are listed; None for all folders.
        durable: Opens what acts on durable agents.
        project: Named in the entries.

    Raises:
        ConfigError: The store keeps no tasks.
    """
    tasks = find_task_store(place.store)
    if tasks is None:
        raise ConfigError("this session store keeps no list of agents")
    return Roster(
        tasks,
        read_log=_LogReader(place.store),
        durable=durable,
        cwd=place.folder,
        project=project,
    )


class _LogReader:
    """Reads transcripts from a store, and logs of processes from this machine."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, task: TaskState, *, offset: int, limit: int) -> LogPage:
        """Return a page of a transcript or a log."""
        if task.kind is TaskKind.AGENT:
            return await read_transcript(self._store, task.task_id, offset=offset, limit=limit)
        return await to_thread.run_sync(_read_log, task, offset, limit)


def _read_log(task: TaskState, offset: int, limit: int) -> LogPage:
    try:
        lines = Path(task.log_path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise BackgroundTaskError(
            f"the log of {task.task_id} is not on this machine ({error.strerror})",
            category=TaskErrorCategory.VALIDATION,
        ) from error
    shown = tuple(lines[offset : offset + limit])
    end = offset + len(shown)
    return LogPage(
        task_id=task.task_id,
        lines=shown,
        offset=offset,
        next_offset=end if end < len(lines) else None,
    )
