"""Durable agents on a worker in this process, with a model over HTTP."""

import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest
from msgspec import to_builtins

from clew.core.entries import MessageAdded
from clew.core.ids import SessionId
from clew.core.messages import Role
from clew.core.permissions import Access, Approval, Decision, PermissionAnswer, Risk, Verdict
from clew.core.tasks import Isolation, TaskKind, TaskStatus
from clew.runtime.claimed_task import ClaimedTask, StopCause
from clew.runtime.durable_tasks import DurableTasks, make_row, make_spec
from clew.runtime.protocol import TaskRequest, TaskResult
from clew.runtime.worker import Worker
from clew.sdk.durable_agent import DurableAgent
from clew.sdk.durable_questions import TaskQuestions
from clew.sdk.durable_store import find_tasks
from clew.sdk.permission_requests import make_request
from clew.sdk.session_details import SessionDetails, read_details
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import ProjectStore, project_store
from clew.stores.memory_tasks import MemoryTaskStore
from clew.stores.task_protocol import TaskRow
from clew.stores.worktree_snapshot import WorktreeSnapshot
from clew.testing.fake_openai import fake_openai, text_response, tool_call_response
from clew.testing.server import ResponseScript, ScriptedResponse
from tests.runtime.memory_queue import MemoryQueue
from tests.runtime.worker_world import QUICK, spec

pytestmark = [pytest.mark.anyio, pytest.mark.req("DST-1")]


class Place:
    """A store with a worker that serves it."""

    def __init__(self, folder: Path, place: ProjectStore, url: str, home: Path) -> None:
        self._folder = folder
        self._place = place
        self._url = url
        self.tasks = find_tasks(place)
        self.queue = MemoryQueue(self.tasks)
        self.durable = DurableTasks(self.tasks, self.queue)
        self.environ = {"HOME": str(home), "PATH": "/usr/bin:/bin"}

    async def spawn(self, prompt: str, isolation: Isolation = "none") -> str:
        session = SessionSpec(
            cwd=str(self._folder),
            base_url=self._url,
            model="scripted",
            window=32_000,
            permission_mode="bypassPermissions",
            sandbox="off",
        )
        request = TaskRequest(
            kind=TaskKind.AGENT,
            prompt=prompt,
            cwd=str(self._folder),
            durable=True,
            isolation=isolation,
        )
        return (await self.durable.spawn(make_spec(request, to_builtins(session)))).task_id

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        worker = Worker(self.tasks, self.queue, self._run, name="worker-w1", times=QUICK)
        async with anyio.create_task_group() as group:
            await group.start(worker.serve)
            group.start_soon(self.queue.serve, worker)
            yield
            worker.stop()
            await worker.stopped.wait()
            group.cancel_scope.cancel()

    async def _run(self, task: ClaimedTask) -> TaskResult:
        return await DurableAgent(task, self.tasks, self._place, environ=self.environ).start()

    async def wait_for(self, task_id: str, is_there: Callable[[TaskRow], object]) -> TaskRow:
        with anyio.fail_after(60):
            while not is_there(row := await self.durable.get(task_id)):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        return row

    async def read_prompts(self, task_id: str) -> list[str]:
        _, entries = await self._place.store.load(SessionId(task_id))
        return [
            one.body.message.text
            for one in entries
            if isinstance(one.body, MessageAdded) and one.body.message.role is Role.USER
        ]

    async def read_details(self, task_id: str) -> SessionDetails:
        record, entries = await self._place.store.load(SessionId(task_id))
        return await read_details(self._place, record, entries)


@asynccontextmanager
async def open_place(
    folder: Path, *answers: ResponseScript, home: Path | None = None
) -> AsyncIterator[Place]:
    home = home or folder
    environ = {"HOME": str(home), "CLEW_STORE": str(home / "sessions.db")}
    place = project_store(folder, environ)
    try:
        async with fake_openai(*answers) as model:
            yield Place(folder, place, model.url, home)
    finally:
        await place.store.aclose()


async def test_a_message_to_a_cancelled_agent_does_not_continue_what_was_cancelled(
    tmp_path: Path,
) -> None:
    bodies: list[list[dict[str, object]]] = []

    def answer(body: bytes) -> ScriptedResponse:
        bodies.append(msgspec.json.decode(body)["messages"])
        if len(bodies) == 1:
            return tool_call_response("Bash", '{"command": "sleep 600"}')
        return text_response("understood")

    async with open_place(tmp_path, answer) as place, place.serving():
        task_id = await place.spawn("delete everything")
        await place.wait_for(task_id, lambda row: row.state.action.startswith("Bash"))
        await place.durable.cancel(task_id)
        await place.wait_for(task_id, lambda row: row.state.status is TaskStatus.CANCELLED)
        await place.durable.send(task_id, "delete nothing")
        row = await place.wait_for(task_id, lambda row: row.state.status.is_terminal)
        prompts = await place.read_prompts(task_id)

    assert (row.state.status, row.state.result) == (TaskStatus.COMPLETED, "understood")
    assert [text.endswith("delete nothing") for text in prompts] == [False, True]
    assert len(bodies) == 2
    assert "delete nothing" in str(bodies[1][-1])


async def test_a_message_to_an_agent_that_never_began_comes_with_its_prompt(
    tmp_path: Path,
) -> None:
    async with open_place(tmp_path, text_response("understood")) as place:
        task_id = await place.spawn("delete everything")
        row = await place.durable.get(task_id)
        ended = msgspec.structs.replace(row.state, status=TaskStatus.FAILED)
        await place.tasks.save_task(msgspec.structs.replace(row, state=ended))
        await place.durable.send(task_id, "but keep a copy")
        async with place.serving():
            row = await place.wait_for(task_id, lambda row: row.state.status.is_terminal)
        [prompt] = await place.read_prompts(task_id)

    assert row.state.result == "understood"
    assert prompt.endswith("delete everything\n\nbut keep a copy")


@pytest.mark.req("AGT-3")
async def test_files_that_a_running_call_has_written_are_handed_back_with_the_agent(
    tmp_path: Path,
) -> None:
    project, begun = tmp_path / "project", tmp_path / "begun"
    project.mkdir()
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    git(project, "init", "-q")
    git(project, *who, "commit", "-q", "--allow-empty", "-m", "first")
    command = f"echo work > new.txt; touch {begun}; sleep 600"
    call = tool_call_response("Bash", msgspec.json.encode({"command": command}).decode())

    async with open_place(project, call, home=tmp_path) as place:
        async with place.serving():
            task_id = await place.spawn("write a file", isolation="worktree")
            await place.wait_for(task_id, lambda row: begun.exists())
        row = await place.durable.get(task_id)
        data = await place.tasks.get_blob(row.snapshot)

    assert row.state.status is TaskStatus.QUEUED
    commit = msgspec.json.decode(data or b"{}", type=WorktreeSnapshot).commit
    assert git(project, "ls-tree", "-r", "--name-only", commit).split() == ["new.txt"]


@pytest.mark.req("AGT-2")
async def test_an_agent_in_a_worker_cannot_start_others(tmp_path: Path) -> None:
    offered = set[str]()

    def answer(body: bytes) -> ScriptedResponse:
        offered.update(tool["function"]["name"] for tool in msgspec.json.decode(body)["tools"])
        return text_response("done")

    async with open_place(tmp_path, answer) as place, place.serving():
        task_id = await place.spawn("do it")
        await place.wait_for(task_id, lambda row: row.state.status.is_terminal)

    assert {"Read", "Bash"} <= offered
    assert offered.isdisjoint({"Agent", "BackgroundProcess"})


@pytest.mark.req("STO-1")
async def test_a_new_snapshot_of_a_worktree_replaces_the_one_before(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    git(project, "init", "-q")
    git(project, *who, "commit", "-q", "--allow-empty", "-m", "first")
    saved = list[str]()

    def answer(body: bytes) -> ScriptedResponse:
        step = sum(one["role"] == "tool" for one in msgspec.json.decode(body)["messages"])
        if step == 3:
            return text_response("done")
        wait = f"until [ -e {tmp_path}/{step} ]; do sleep 0.05; done"
        command = msgspec.json.encode({"command": f"{wait}; echo {step} > {step}.txt"}).decode()
        return tool_call_response("Bash", command, call_id=f"c{step}")

    async with open_place(project, answer, home=tmp_path) as place:
        async with place.serving():
            task_id = await place.spawn("write files", isolation="worktree")
            for step in range(3):
                (tmp_path / str(step)).touch()
                row = await place.wait_for(
                    task_id, lambda row: row.snapshot and row.snapshot not in saved
                )
                saved.append(row.snapshot)
            ended = await place.wait_for(task_id, lambda row: row.state.status.is_terminal)
        unused = await place.tasks.find_unused_blobs(older_than=-3_600.0)
        details = await place.read_details(task_id)
        first = await place.tasks.get_blob(saved[0])
        last = await place.tasks.get_blob(ended.snapshot)

    assert (unused, first) == ([], None)
    assert details.sandbox_snapshot_id == ended.snapshot
    assert len(msgspec.json.decode(last or b"{}", type=WorktreeSnapshot).bundles) >= 2


@pytest.mark.parametrize("place", ["test", "production"])
async def test_an_answer_counts_only_for_the_question_that_was_asked(place: str) -> None:
    tasks = MemoryTaskStore()
    await tasks.save_task(make_row("agent-1", spec(), now=0.0))
    row = await tasks.claim("agent-1", "worker-w1")
    assert row is not None
    access = Access(tool="deploy", risk=Risk.EXECUTE, call_id="c", arguments={"to": "test"})
    decision = Decision(Verdict.ASK, "deploy?")
    asked = make_request(access, decision)
    await tasks.ask("agent-1", asked)
    await tasks.answer("agent-1", asked.request_id, PermissionAnswer(approval=Approval.ONCE))

    task, answers = ClaimedTask(tasks, row), list[Approval]()
    task.start()
    questions = TaskQuestions(task, tasks, lambda _: True, park_after=0.0)
    with task.scope:
        again = msgspec.structs.replace(access, arguments={"to": place})
        answers.append((await questions.ask(again, decision)).approval)

    is_same = place == "test"
    assert answers == ([Approval.ONCE] if is_same else [])
    assert task.stop_reason is (None if is_same else StopCause.PARKED)


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode()
