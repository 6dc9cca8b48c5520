"""The list of agents in a store: what `clew.runtime.roster.Roster` needs of sessions."""

from functools import partial
from pathlib import Path

from anyio import to_thread

from clew.core.errors import BackgroundTaskError, ConfigError
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind, TaskState
from clew.extensions.commands.roster import format_roster
from clew.runtime.log_pages import read_page
from clew.runtime.roster import (
    SHOWN_ENDED,
    Roster,
    RosterEntry,
    RosterGroup,
    describe_status,
    parse_answer,
)
from clew.sdk.agent_transcript import read_transcript
from clew.sdk.durable_store import open_durable
from clew.sdk.session_store import ProjectStore
from clew.stores.protocol import Store

__all__ = [
    "SHOWN_ENDED",
    "Roster",
    "RosterEntry",
    "RosterGroup",
    "describe_status",
    "format_roster",
    "make_roster",
    "parse_answer",
]


def make_roster(place: ProjectStore, *, project: str = "") -> Roster:
    """Return the list of agents in a store; the caller closes the store.

    Args:
        place: The store, and the folder whose agents are listed; None for all folders. Without an
            address, durable agents can only be listed and read.
        project: Named in the entries.

    Raises:
        ConfigError: The store keeps no tasks.
    """
    tasks = place.tasks
    if tasks is None:
        raise ConfigError("this session store keeps no list of agents")
    return Roster(
        tasks,
        read_log=_LogReader(place.store),
        durable=partial(open_durable, place) if place.address else None,
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
        if not task.log_path:
            raise BackgroundTaskError(
                f"{task.task_id} has no log yet", category=TaskErrorCategory.VALIDATION
            )
        read = partial(read_page, Path(task.log_path), task.task_id, offset=offset, limit=limit)
        return await to_thread.run_sync(read)
