"""Workers in processes of their own, a model over HTTP, and agents whose work can be counted."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from msgspec import to_builtins

from benchmarks.durable_model import expected_lines
from benchmarks.durable_witness import find_losses, read_requests
from clew.context.render import find_problems, render
from clew.context.view import fold
from clew.core.ids import SessionId
from clew.core.tasks import TaskKind, TaskState, TaskStatus
from clew.runtime.durable_tasks import DurableTasks, make_spec
from clew.runtime.protocol import TaskRequest
from clew.sdk.durable_store import open_durable
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import ProjectStore, project_store
from clew.stores.task_protocol import TaskRow

ROOT = Path(__file__).parent.parent
OPEN = (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.WAITING_PERMISSION)
_POLL = 0.05
_PATIENCE = 60.0
_WITNESS = "requests.jsonl"


async def wait_until(is_true: Callable[[], object]) -> None:
    """Wait for a condition."""
    with anyio.fail_after(_PATIENCE):
        while not is_true():  # noqa: ASYNC110 - other processes make it true
            await anyio.sleep(_POLL)


@dataclass(slots=True)
class WorkerProcess:
    """A `clew worker` that was started."""

    process: subprocess.Popen[bytes]
    log: Path
    name: str = ""

    def lines(self) -> str:
        """Return what it has logged so far."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill it as a crash would, and wait for the end."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@dataclass(slots=True)
class Cluster:
    """A store with its workers and a model server."""

    folder: Path
    address: str
    model: str
    workers: list[WorkerProcess] = field(default_factory=list)
    silent_after: float = 5.0
    park_after: float = 10.0

    @property
    def witness(self) -> Path:
        """The file with everything that the model was sent."""
        return self.folder / _WITNESS

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the workers: nothing of the user's."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(home), "CLEW_STORE": self.address, "PYTHONPATH": str(ROOT)}

    @property
    def project(self) -> Path:
        """The folder in which the agents work."""
        folder = self.folder / "project"
        if not folder.exists():
            folder.mkdir()
            (folder / "shared.txt").write_text("read me\n")
        return folder

    def start_worker(self, *, concurrency: int = 8) -> WorkerProcess:
        """Start a worker; `wait_ready` waits until it takes tasks."""
        log = self.folder / f"worker-{len(self.workers)}.log"
        command = [sys.executable, "-P", "-m", "clew", "worker", "--json"]
        command += ["--concurrency", str(concurrency), "--silent-after", str(self.silent_after)]
        command += ["--park-after", str(self.park_after)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self.project,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        worker = WorkerProcess(process, log)
        self.workers.append(worker)
        return worker

    async def wait_ready(self, workers: Collection[WorkerProcess]) -> None:
        """Wait until workers take tasks."""
        for worker in workers:
            with anyio.fail_after(_PATIENCE):
                while not (found := re.search(r"worker (\S+) is ready", worker.lines())):
                    if worker.process.poll() is not None:
                        raise RuntimeError(f"a worker did not start: {worker.lines()}")
                    await anyio.sleep(_POLL)
            worker.name = found[1]

    def spec(self, permission_mode: str = "bypassPermissions") -> SessionSpec:
        """Return the sessions of the agents."""
        return SessionSpec(
            cwd=str(self.project),
            base_url=self.model,
            model="scripted",
            window=32_000,
            permission_mode=permission_mode,
            sandbox="off",
        )

    def close(self) -> None:
        """End the workers that still run."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGCONT)
                worker.process.kill()
            worker.process.wait()


@contextmanager
def run_cluster(
    folder: Path, address: str, *, silent_after: float = 5.0, park_after: float = 10.0
) -> Iterator[Cluster]:
    """Start a model server, and end it and all workers at the end."""
    with ExitStack() as stack:
        model = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.durable_model", str(folder / _WITNESS)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(model.kill)
        assert model.stdout is not None
        url = model.stdout.readline().strip()
        cluster = Cluster(folder, address, url, silent_after=silent_after, park_after=park_after)
        stack.callback(cluster.close)
        yield cluster


class Agents:
    """The agents of a cluster, as seen from outside."""

    def __init__(self, cluster: Cluster, place: ProjectStore, durable: DurableTasks) -> None:
        self._cluster = cluster
        self._place = place
        self.durable = durable
        self.steps: dict[str, tuple[int, int]] = {}

    def request(
        self, number: int, *, steps: int = 4, more: str = "", folder: str = ""
    ) -> TaskRequest:
        """Return the request for agent `number`, which makes that many tool calls."""
        project = str(self._cluster.project)
        prompt = f"agent {number} of {folder or project}, {steps} steps{more}"
        return TaskRequest(kind=TaskKind.AGENT, prompt=prompt, cwd=project, durable=True)

    async def spawn(self, number: int, *, steps: int = 4, more: str = "") -> TaskState:
        """Start agent `number`, whose work `check` will look at."""
        state = await self.start(self.request(number, steps=steps, more=more))
        self.steps[state.task_id] = number, steps
        return state

    async def start(self, request: TaskRequest, *, permission_mode: str = "") -> TaskState:
        """Start an agent."""
        spec = self._cluster.spec(permission_mode or "bypassPermissions")
        return await self.durable.spawn(make_spec(request, to_builtins(spec)))

    async def wait_for(self, task_id: str, is_there: Callable[[TaskRow], bool]) -> TaskRow:
        """Wait until the row of a task is as wanted."""
        with anyio.fail_after(_PATIENCE):
            while True:
                row = await self.durable.tasks.task(task_id)
                if row is not None and is_there(row):
                    return row
                await anyio.sleep(_POLL)

    async def wait(self, *, seconds: float = 300.0) -> Counter[TaskStatus]:
        """Wait until all have ended; returns how."""
        with anyio.fail_after(seconds):
            while await self.durable.tasks.tasks(statuses=OPEN, limit=1):  # noqa: ASYNC110
                await anyio.sleep(_POLL)
        rows = [await self.durable.get(task_id) for task_id in self.steps]
        return Counter(row.state.status for row in rows)

    async def check(self) -> list[str]:
        """Return what is wrong with the journals and the files; empty if nothing is.

        What the model was sent shows which entries were stored before a worker was killed.
        """
        problems: list[str] = []
        requests = read_requests(self._cluster.witness)
        for task_id, (number, steps) in self.steps.items():
            _, entries = await self._place.store.load(SessionId(task_id))
            if [entry.id for entry in entries] != list(range(1, len(entries) + 1)):
                problems.append(f"{task_id}: entries are missing")
            messages = render(fold(entries))
            found = [*find_problems(messages), *find_losses(requests.get(number, []), messages)]
            problems += [f"{task_id}: {one}" for one in found]
            file = self._cluster.project / f"agent-{number}.txt"
            lines = file.read_text().splitlines() if file.exists() else []
            if lines != expected_lines(number, steps):
                problems.append(f"{task_id}: wrote {lines}")
        return problems


@asynccontextmanager
async def open_agents(cluster: Cluster) -> AsyncGenerator[Agents, None]:
    """Open the store of a cluster, to start agents and look at them."""
    place = project_store(cluster.project, cluster.environ)
    try:
        async with open_durable(place) as durable:
            yield Agents(cluster, place, durable)
    finally:
        await place.store.aclose()
