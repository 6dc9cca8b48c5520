"""The end of a session, in whatever state its tasks are: nothing of them is left."""

import asyncio
import json
import os
import sqlite3
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from clew import InteractiveSession
from clew.core.permissions import Access, Decision, PermissionAnswer
from clew.core.tasks import TaskKind, TaskStatus
from clew.providers.scripted import Pause, call_reply, text_reply
from clew.runtime.protocol import TaskRequest
from clew.stores.sqlite import SqliteStore
from tests.runtime.repositories import git, make_repository
from tests.sdk.agent_scripts import ScriptedAgents
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-1", "AGT-2", "AGT-3")]

SECONDS = 60
STATES = ("process", "tool", "worktree", "asks", "calls the model", "ended", "queued")


async def wait_for_an_answer(access: Access, decision: Decision) -> PermissionAnswer:
    await anyio.sleep_forever()
    raise AssertionError


class World:
    """A session whose tasks can be brought into any state."""

    def __init__(self, place: Place, store: SqliteStore) -> None:
        self.place = place
        self.store = store
        self.mark = f"{10_000 + int.from_bytes(os.urandom(3))}.{os.getpid()}"
        self.pause = Pause()

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[InteractiveSession, None]:
        endless = call_reply(("Bash", {"command": f"sleep {self.mark}"}))
        provider = ScriptedAgents(
            {
                "tool": [endless] * (2 * len(STATES)),
                "worktree": [endless],
                "asks": [call_reply(("Bash", {"command": "touch new.txt"}))],
                "calls the model": [[self.pause, *text_reply("never")]],
                "ended": ["done"],
                "queued": ["never"],
            }
        )
        async with InteractiveSession(
            provider=provider,
            model="m",
            cwd=self.place.project,
            user_home=self.place.home,
            clew_home=self.place.clew_home,
            environ={"PATH": os.environ["PATH"]},
            store=self.store,
            permission_handler=wait_for_an_answer,
            agents=True,
            background_processes=True,
            max_background_tasks=len(STATES) - 2,
        ) as session:
            yield session

    async def bring(self, session: InteractiveSession, states: set[str]) -> None:
        """Start a task for each state, and wait until it is in it."""
        agents, manager = session.parts.agents, session.parts.tasks.manager
        ids: dict[str, str] = {}
        for state in [one for one in STATES if one in states]:
            if state == "queued":
                await self._fill(session, "tool")
            request = TaskRequest(kind=TaskKind.AGENT, prompt=state)
            if state == "worktree":
                request = TaskRequest(kind=TaskKind.AGENT, prompt=state, isolation="worktree")
            if state == "process":
                shell = TaskRequest(kind=TaskKind.PROCESS, prompt=f"sleep {self.mark}")
                ids[state] = (await manager.spawn(shell)).task_id
            else:
                ids[state] = (await agents.start(request)).task_id
            await self._wait_until(session, state, ids[state])

    async def _fill(self, session: InteractiveSession, prompt: str) -> None:
        """Take all places for agents."""
        for _ in STATES:
            await session.parts.agents.start(TaskRequest(kind=TaskKind.AGENT, prompt=prompt))

    async def _wait_until(self, session: InteractiveSession, state: str, task_id: str) -> None:
        manager = session.parts.tasks.manager
        while True:
            task = manager.get(task_id)
            match state:
                case "process" if task.pid:
                    return
                case "tool" | "worktree" if task.action.startswith("Bash") and self.processes():
                    return
                case "asks" if task.status is TaskStatus.WAITING_PERMISSION:
                    return
                case "calls the model" if self.pause.reached.is_set():
                    return
                case "ended" if task.status is TaskStatus.COMPLETED:
                    return
                case "queued" if task.status is TaskStatus.QUEUED:
                    return
            await anyio.sleep(0.01)

    def processes(self) -> list[int]:
        """Return the processes of this world that run."""
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                data = file.read_bytes()
            except OSError:
                continue
            if self.mark.encode() in data:
                found.append(int(file.parent.name))
        return found


@given(states=st.sets(st.sampled_from(STATES), min_size=1))
@settings(
    max_examples=8,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_a_shutdown_in_any_state_leaves_no_process_task_lease_or_temporary_folder(
    tmp_path_factory: pytest.TempPathFactory, states: set[str]
) -> None:
    root = tmp_path_factory.mktemp("world")
    temporary = root / "tmp"
    temporary.mkdir()
    make_repository(root / "home" / "project")
    place = Place(root)
    place.clew_home.mkdir()
    allowed = {"permissions": {"allow": ["Bash(sleep *)"]}}
    (place.clew_home / "settings.json").write_text(json.dumps(allowed))
    store = SqliteStore(root / "sessions.db")
    world, before = World(place, store), asyncio.all_tasks()
    with pytest.MonkeyPatch.context() as patch, anyio.fail_after(SECONDS):
        patch.setattr(tempfile, "tempdir", str(temporary))
        async with world.session() as session:
            await world.bring(session, states)
            used = world.processes()
        held = read(root, "SELECT count(*) FROM leases WHERE owner <> ''")
        workers = read(root, "SELECT count(*) FROM workers")
        open_tasks = [row.state for row in await store.tasks.tasks() if not row.state.ended_at]
        await store.aclose()

    assert bool(used) is bool(states & {"process", "tool", "worktree", "queued"})
    assert world.processes() == []
    assert asyncio.all_tasks() == before
    assert (held, workers, open_tasks) == (0, 0, [])
    assert list(temporary.iterdir()) == []
    assert len(git(place.project, "worktree", "list").splitlines()) == 1


def read(root: Path, query: str) -> int:
    with closing(sqlite3.connect(root / "sessions.db")) as database:
        return int(database.execute(query).fetchone()[0])
