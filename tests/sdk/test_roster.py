"""The list of agents: of all sessions and machines that share a store."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from clew.core.context_state import Basis, Breakdown, ContextState, Status
from clew.core.errors import BackgroundTaskError, SessionError, StoreUnavailable
from clew.core.events import PermissionRequest, TaskStage
from clew.core.permissions import Approval, PermissionAnswer
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind, TaskState, TaskStatus
from clew.providers.scripted import ScriptedReply, call_reply
from clew.runtime.task_events import describe_change
from clew.sdk.host import Host
from clew.sdk.project_rosters import ProjectRosters, open_rosters
from clew.sdk.roster import (
    Roster,
    RosterEntry,
    RosterGroup,
    format_roster,
    make_roster,
    parse_answer,
)
from clew.sdk.roster_writer import RosterWriter
from clew.sdk.session_store import ProjectStore
from clew.stores.memory import MemoryStore
from clew.stores.memory_tasks import MemoryTaskStore
from clew.stores.sqlite import SqliteStore
from clew.stores.task_protocol import TaskRow
from clew.testing.tasks import a_question, a_task
from tests.forked_clew import run_clew
from tests.sdk.places import Place
from tests.sdk.test_agents import open_session

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent


@contextmanager
def child(root: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run a process with a session that has two agents."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.sdk.roster_child", str(root)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            yield process
        finally:
            process.kill()


async def clew(place: Place, *arguments: str, code: int = 0, is_quiet: bool = False) -> str:
    """Run a command in the project, and return what it prints; its messages if it is quiet."""
    env = {"PATH": os.environ["PATH"], "HOME": str(place.home), "COLUMNS": "80"}
    with anyio.fail_after(60):
        done = await run_clew(
            arguments, env={**env, "CLEW_HOME": str(place.clew_home)}, cwd=place.project
        )
    assert done.returncode == code, done.stderr
    return (done.stderr if is_quiet else done.stdout).decode()


@asynccontextmanager
async def rosters(place: Place) -> AsyncIterator[ProjectRosters]:
    environ = {"CLEW_HOME": str(place.clew_home)}
    async with open_rosters(place.project, environ=environ) as opened:
        yield opened


async def wait_for(
    list_of_agents: ProjectRosters, label: str, condition: Callable[[RosterEntry], bool]
) -> RosterEntry:
    """Wait until an agent of another process is in a state."""
    with anyio.fail_after(60):
        while True:
            for entry in await list_of_agents.list():
                if entry.task.label == label and condition(entry):
                    return entry
            await anyio.lowlevel.checkpoint()


@pytest.mark.req("AGT-3", "BGT-5")
@pytest.mark.slow("starts processes")
async def test_agents_of_another_process_are_listed_answered_stopped_and_read(
    place: Place,
) -> None:
    with child(place.root) as process:
        async with rosters(place) as agents:
            asking = await wait_for(
                agents, "write a file", lambda one: one.group is RosterGroup.NEEDS_INPUT
            )
            working = await wait_for(
                agents, "work for ever", lambda one: one.task.preview == "Thinking."
            )
            assert asking.question is not None
            assert asking.question.tool_name == "Write"
            assert asking.host == working.host != ""

            shown = await clew(place, "agents")
            assert shown.index("needs input (1)") < shown.index("working (1)")
            assert "asks: Write" in shown
            assert all(len(line) <= 80 for line in shown.splitlines())
            listed = [
                json.loads(line)
                for line in (await clew(place, "agents", "--json")).split("\n")
                if line
            ]
            assert [one["group"] for one in listed] == ["needs input", "working"]

            short = asking.task.task_id.removeprefix("agent-")[:6]
            await clew(place, "agents", "answer", short, "y")
            done = await wait_for(agents, "write a file", lambda one: one.group is RosterGroup.DONE)
            assert done.task.result == "The file is there."
            assert (place.project / "a.txt").read_text() == "one"
            read = await clew(place, "agents", "read", asking.task.task_id)
            assert "[user] write a file" in read
            assert "[agent] The file is there." in read

            await clew(place, "agents", "stop", working.task.task_id)
            stopped = await wait_for(
                agents, "work for ever", lambda one: one.task.status is TaskStatus.CANCELLED
            )
            assert stopped.group is RosterGroup.DONE
            roster = await agents.find(short)
            with pytest.raises(SessionError, match="has no open question"):
                await roster.answer(short, PermissionAnswer(approval=Approval.NO))
        assert process.poll() is None


@pytest.mark.req("AGT-3")
@pytest.mark.slow("starts processes")
async def test_an_agent_whose_process_was_killed_is_shown_as_failed(place: Place) -> None:
    with child(place.root) as process:
        async with rosters(place) as agents:
            working = await wait_for(
                agents, "work for ever", lambda one: one.group is RosterGroup.WORKING
            )
            process.kill()
            process.wait()
            failed = await wait_for(
                agents, "work for ever", lambda one: one.group is RosterGroup.FAILED
            )
            assert failed.task.error == "the process that ran it ended"
            assert failed.is_gone
            roster = await agents.find(working.task.task_id)
            with pytest.raises(SessionError, match="clew --resume"):
                await roster.send(working.task.task_id, "go on")

            await roster.cancel(working.task.task_id)

            assert not (await roster.find(working.task.task_id)).is_gone


@pytest.mark.req("AGT-3")
async def test_agents_are_grouped_by_what_they_need() -> None:
    store = MemoryStore()
    roster = make_roster(ProjectStore(store=store, folder="/work"))
    await store.tasks.beat("w")
    for task_id, status in (
        ("failed", TaskStatus.FAILED),
        ("stopped", TaskStatus.CANCELLED),
        ("queued", TaskStatus.QUEUED),
        ("asking", TaskStatus.WAITING_PERMISSION),
        ("answered", TaskStatus.WAITING_PERMISSION),
    ):
        await store.tasks.save_task(
            replace(a_task(task_id, status=status, cwd="/work"), worker="w")
        )
    for task_id in ("asking", "answered"):
        await store.tasks.ask(task_id, a_question())
    await store.tasks.answer("answered", "q", PermissionAnswer(approval=Approval.ONCE))
    await store.tasks.save_task(a_task("elsewhere", cwd="/else"))
    process = a_task("process", status=TaskStatus.RUNNING, cwd="/work")
    process = replace(process, state=replace(process.state, kind=TaskKind.PROCESS), worker="w")
    await store.tasks.save_task(process)

    listed = [(entry.task.task_id, entry.group) for entry in await roster.list()]

    assert listed == [
        ("asking", "needs input"),
        ("answered", "working"),
        ("queued", "working"),
        ("stopped", "done"),
        ("failed", "failed"),
    ]
    assert "process" in {entry.task.task_id for entry in await roster.list(kind=None)}
    assert len(await roster.list(ended=1)) == 4
    with pytest.raises(SessionError, match="no agent matches"):
        await roster.find("nobody")
    with pytest.raises(SessionError, match="cannot be allowed for the project"):
        await roster.answer("asking", PermissionAnswer(approval=Approval.PROJECT))


@pytest.mark.req("AGT-3")
async def test_a_durable_agent_without_a_worker_still_counts_as_working() -> None:
    store = MemoryStore()
    roster = make_roster(ProjectStore(store=store, folder=None))
    row = a_task("agent-1", status=TaskStatus.RUNNING)
    await store.tasks.save_task(replace(row, state=replace(row.state, durable=True), worker="gone"))

    (entry,) = await roster.list()

    assert (entry.group, entry.host) == (RosterGroup.WORKING, "")
    with pytest.raises(SessionError, match="durable agent"):
        await roster.cancel("agent-1")


@pytest.mark.req("DST-2", "AGT-3")
async def test_a_durable_agent_is_woken_by_what_others_do_to_it() -> None:
    done: list[tuple[str, ...]] = []

    class Actions:
        async def answer(self, task_id: str, request_id: str, answer: PermissionAnswer) -> None:
            done.append(("answer", task_id, request_id, answer.approval))

        async def send(self, task_id: str, text: str) -> None:
            done.append(("send", task_id, text))

        async def cancel(self, task_id: str) -> None:
            done.append(("cancel", task_id))

    @asynccontextmanager
    async def open_actions() -> AsyncIterator[Actions]:
        yield Actions()

    tasks = MemoryTaskStore()
    row = a_task("agent-1", status=TaskStatus.WAITING_PERMISSION)
    await tasks.save_task(replace(row, state=replace(row.state, durable=True)))
    await tasks.ask("agent-1", a_question())

    async def read_nothing(task: TaskState, *, offset: int, limit: int) -> LogPage:
        return LogPage(task_id=f"{task.task_id} {offset} {limit}")

    roster = Roster(tasks, read_log=read_nothing, durable=open_actions)

    await roster.answer("agent-1", parse_answer(["y"]))
    await roster.send("agent-1", "and b.txt")
    await roster.cancel("agent-1")

    assert done == [
        ("answer", "agent-1", "q", "once"),
        ("send", "agent-1", "and b.txt"),
        ("cancel", "agent-1"),
    ]
    assert (await roster.read("agent", offset=2, limit=9))[1].task_id == "agent-1 2 9"


def an_entry(row: TaskRow, group: RosterGroup = RosterGroup.WORKING) -> RosterEntry:
    return RosterEntry(task=row.state, group=group, worker="w", host="host")


def test_a_list_fits_into_its_width_whatever_the_names_are() -> None:
    context = ContextState(
        used_tokens=3_400,
        max_tokens=10_000,
        status=Status.OK,
        basis=Basis.EXACT,
        breakdown=Breakdown(),
    )
    state = TaskState(
        task_id="agent-1a2b3c4d",
        kind=TaskKind.AGENT,
        label="計算機科学の" * 20,
        status=TaskStatus.RUNNING,
        agent="reviewer",
        model="a-model-with-a-long-name-2026-01-01",
        session_id="4f2a9c0d1e2f",  # type: ignore[arg-type]
        action="Bash make test \x1b[2J " + "x" * 300,
        context=context,
        cost_usd=12.345,
        created_at=1.0,
        started_at=10.0,
    )
    entries = [an_entry(TaskRow(state=state)), an_entry(a_task(), RosterGroup.DONE)]

    for width in (60, 80, 120):
        lines = format_roster(entries, now=100.0, width=width)
        assert all(columns(line) <= width for line in lines)
        assert not any("\x1b" in line for line in lines)
    worked = replace(entries[0], task=replace(state, worked_seconds=25.0))
    _, head, *_ = format_roster([worked, *entries[1:]], now=100.0)
    assert head.endswith("25 s of 90 s")
    heading, head, *_ = format_roster(entries, now=100.0)
    assert heading == "working (1)"
    assert head.startswith("  agent-1a2b3c4d    reviewer: 計算機")
    assert head.endswith("34%  $12.35       90 s")


def columns(line: str) -> int:
    return sum(2 if sign > "\u2fff" else 1 for sign in line)


def test_an_answer_may_be_a_letter_or_a_word_with_more_words() -> None:
    assert parse_answer(["y"]) == PermissionAnswer(approval=Approval.ONCE)
    assert parse_answer(["Session"]) == PermissionAnswer(approval=Approval.SESSION)
    assert parse_answer(["n", "use", "b.txt"]) == PermissionAnswer(
        approval=Approval.NO, reply="use b.txt"
    )
    for words in ([], ["maybe"]):
        with pytest.raises(SessionError, match="answer y"):
            parse_answer(words)


@pytest.mark.req("AGT-3", "BGT-5")
async def test_an_agent_is_answered_and_gets_messages_from_another_session(place: Place) -> None:
    store = SqliteStore(place.root / "s.db")
    other = SqliteStore(place.root / "s.db")
    elsewhere = make_roster(ProjectStore(store=other, folder=None))
    write = call_reply(("Write", {"file_path": "a.txt", "content": "one"}))
    scripts: Mapping[str, Sequence[ScriptedReply]] = {
        "write a file": [write, "Not written.", "Named b.txt."]
    }
    session, provider = open_session(place, scripts, store=store, wait_for_answers=True)
    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.execute_command, "agent", "run write a file")
        with anyio.fail_after(60):
            while not (entries := await elsewhere.list()) or entries[0].question is None:
                await anyio.lowlevel.checkpoint()
            (entry,) = entries
            await elsewhere.send(entry.task.task_id, "call it b.txt")
            await elsewhere.answer(entry.task.task_id, parse_answer(["n", "wrong", "name"]))
            while (await elsewhere.list())[0].group is not RosterGroup.DONE:
                await anyio.lowlevel.checkpoint()
        listed = await session.execute_command("agents")
        read = await session.execute_command("agents", f"read {entry.task.task_id}")
        refused = await session.execute_command("agents", f"stop {entry.task.task_id}")
    sent = provider.requests("write a file")[-1].messages
    assert "wrong name" in sent[2].results[0].text
    assert any("call it b.txt" in message.text for message in sent)
    assert listed is not None
    assert listed.message.startswith("done (1)")
    assert listed.data["agents"][0]["task"]["task_id"] == entry.task.task_id  # type: ignore[index]
    assert read is not None
    assert "[user] write a file" in read.message
    assert refused is not None
    assert not refused.success
    assert "has ended already" in refused.message
    assert await other.tasks.workers() == []
    await store.aclose()
    await other.aclose()


@pytest.mark.req("AGT-3")
async def test_a_session_goes_on_when_its_agents_cannot_be_listed(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(MemoryTaskStore):
        async def beat(self, worker: str) -> None:
            raise StoreUnavailable(f"no place for {worker}")

    store = MemoryStore()
    store.tasks = Broken()
    session, _ = open_session(place, {"look": ["It is there."]}, store=store)
    async with session:
        result = await session.execute_command("agent", "run look")

    assert result is not None
    assert result.message == "It is there."
    assert await store.tasks.tasks() == []
    assert "the list of agents was not updated" in caplog.text


class Control:
    """Takes messages for tasks; refuses those that say so."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.got_last = anyio.Event()

    async def cancel(self, task_id: str, reason: str = "") -> None:
        raise AssertionError(f"{task_id} was cancelled: {reason}")

    async def send(self, task_id: str, text: str) -> None:
        self.sent.append(text)
        if text == "last":
            self.got_last.set()
        if text == "refused":
            raise BackgroundTaskError(
                f"the input of {task_id} is closed", category=TaskErrorCategory.VALIDATION
            )
        if text == "early" and self.sent.count(text) == 1:
            raise BackgroundTaskError(
                f"{task_id} has not started yet",
                category=TaskErrorCategory.VALIDATION,
                recoverable=True,
            )


async def no_answer(request_id: str, answer: PermissionAnswer) -> None:
    raise AssertionError(f"{request_id} was answered: {answer}")


@pytest.mark.req("AGT-3")
async def test_a_message_that_cannot_be_delivered_does_not_hold_up_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks, control = MemoryTaskStore(), Control()
    row = a_task("agent-1", status=TaskStatus.RUNNING)

    with anyio.fail_after(60):
        async with Host() as host:
            writer = RosterWriter(tasks, host=host, control=control, answer=no_answer)
            writer.follow(describe_change(row.state, TaskStage.STARTED))
            await writer.flush()
            for text in ("refused", "early", "last"):
                await tasks.send("agent-1", text)
            while not control.got_last.is_set():
                writer.follow(describe_change(row.state, TaskStage.RESUMED))
                await anyio.lowlevel.checkpoint()

    assert control.sent == ["refused", "early", "early", "last"]
    assert "a message to agent-1 was not delivered: the input of agent-1 is closed" in caplog.text


@pytest.mark.req("AGT-3")
async def test_a_question_is_listed_once_the_store_works_again() -> None:
    class Failing(MemoryTaskStore):
        fails = True

        async def ask(
            self, task_id: str, question: PermissionRequest | None, *, epoch: int | None = None
        ) -> None:
            if self.fails:
                raise StoreUnavailable("not now")
            await super().ask(task_id, question, epoch=epoch)

    tasks = Failing()
    row = a_task("agent-1", status=TaskStatus.RUNNING)
    writer = RosterWriter(tasks, host=Host(), control=Control(), answer=no_answer)
    writer.follow(describe_change(row.state, TaskStage.STARTED))
    writer.follow(a_question(), task_id="agent-1")
    await writer.flush()
    tasks.fails = False
    await writer.flush()

    (listed,) = await tasks.tasks()
    assert listed.question == a_question()


@pytest.mark.req("AGT-3")
async def test_a_store_without_tasks_has_no_list_of_agents(place: Place) -> None:
    class Plain(MemoryStore):
        tasks = None  # type: ignore[assignment]

    session, _ = open_session(place, {"look": ["It is there."]}, store=Plain())
    async with session:
        answer = await session.execute_command("agent", "run look")
        listed = await session.execute_command("agents")

    assert answer is not None
    assert answer.message == "It is there."
    assert listed is not None
    assert listed.message == "this session store keeps no list of agents"


@pytest.mark.req("AGT-3")
async def test_agents_of_all_projects_are_one_list(place: Place) -> None:
    for name, status in (("one", TaskStatus.COMPLETED), ("two", TaskStatus.FAILED)):
        path = place.clew_home / "projects" / f"{name}-0123" / "sessions.db"
        store = SqliteStore(path)
        await store.tasks.save_task(a_task(f"agent-{name}", status=status))
        await store.aclose()

    assert "there are no agents" in await clew(place, "agents", is_quiet=True)
    shown = await clew(place, "agents", "list", "--all")
    changes = await clew(place, "agents", "--all", "--json")

    assert [line.split()[0] for line in shown.splitlines() if "agent-" in line] == [
        "agent-one",
        "agent-two",
    ]
    assert "one-0123" in shown
    assert [json.loads(line)["project"] for line in changes.splitlines()] == [
        "one-0123",
        "two-0123",
    ]
    failed = await clew(place, "agents", "stop", "--all", "agent-two", code=1, is_quiet=True)
    assert "has ended already" in failed
