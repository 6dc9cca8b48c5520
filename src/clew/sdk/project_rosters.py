"""The list of agents of a project, or of all projects of the user: what `clew agents` shows."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from clew.core.errors import SessionError, StoreError
from clew.core.tasks import TaskKind, TaskState
from clew.sdk.folders import Homes
from clew.sdk.roster import SHOWN_ENDED, Roster, RosterEntry, RosterGroup, make_roster
from clew.sdk.session_store import VARIABLE, ProjectStore, project_store
from clew.stores import open_store


class ProjectRosters:
    """The lists of agents of several projects as one."""

    def __init__(self, places: Sequence[tuple[ProjectStore, str]]) -> None:
        self._places = [(place, make_roster(place, project=project)) for place, project in places]
        self.problems: list[str] = []
        """Stores that could not be read, one sentence each."""

    async def list(
        self, *, kind: TaskKind | None = TaskKind.AGENT, ended: int = SHOWN_ENDED
    ) -> list[RosterEntry]:
        """Return the tasks of all projects; see `Roster.list`."""
        entries: list[RosterEntry] = []
        self.problems = []
        for roster in self._list_rosters():
            try:
                entries += await roster.list(kind=kind, ended=ended)
            except StoreError as error:
                self.problems.append(str(error))
        entries.sort(key=lambda entry: -_last_change(entry.task))
        open_ones = [one for one in entries if not _has_ended(one)]
        ended_ones = [one for one in entries if _has_ended(one)]
        order = list(RosterGroup)
        return sorted((*open_ones, *ended_ones[:ended]), key=lambda entry: order.index(entry.group))

    async def find(self, wanted: str) -> Roster:
        """Return the list that has a task.

        Raises:
            SessionError: No task matches, or more than one does.
        """
        error: SessionError | None = None
        found: list[Roster] = []
        for roster in self._list_rosters():
            try:
                await roster.find(wanted)
                found.append(roster)
            except SessionError as missing:
                error = missing
            except StoreError as broken:
                self.problems.append(str(broken))
        if len(found) == 1:
            return found[0]
        if found:
            raise SessionError(
                f"agents of {len(found)} projects match {wanted!r}; use the whole id"
            )
        raise error or SessionError(f"no agent matches {wanted!r}; `clew agents` lists them")

    def _list_rosters(self) -> Sequence[Roster]:
        """Return the lists whose stores exist: looking for agents creates no file."""
        return [
            roster
            for place, roster in self._places
            if not place.is_empty or Path(place.address).exists()
        ]


@asynccontextmanager
async def open_rosters(
    cwd: Path, *, everywhere: bool = False, environ: Mapping[str, str] | None = None
) -> AsyncGenerator[ProjectRosters, None]:
    """Open the list of agents of a project, or of all projects of the user.

    Raises:
        ConfigError: The store of the project keeps no tasks.
    """
    environ = os.environ if environ is None else environ
    async with AsyncExitStack() as closing:
        places = _list_places(cwd, environ, everywhere=everywhere)
        for place, _ in places:
            closing.push_async_callback(place.store.aclose)
        yield ProjectRosters(places)


def _list_places(
    cwd: Path, environ: Mapping[str, str], *, everywhere: bool
) -> list[tuple[ProjectStore, str]]:
    if not everywhere or environ.get(VARIABLE):
        place = project_store(cwd, environ)
        return [(replace(place, folder=None) if everywhere else place, "")]
    files = sorted((Homes.of(environ).clew / "projects").glob("*/sessions.db"))
    return [
        (ProjectStore(store=open_store(file), folder=None, address=str(file)), file.parent.name)
        for file in files
    ]


def _has_ended(entry: RosterEntry) -> bool:
    return entry.task.status.is_terminal and not entry.is_gone


def _last_change(task: TaskState) -> float:
    return task.ended_at or task.last_activity_at or task.created_at
