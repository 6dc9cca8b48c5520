"""The BackgroundProcess tool in a session: what the model gets, and what it may do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from clew.core.entries import TaskChanged
from clew.core.events import BackgroundTaskEvent, PermissionRequest, TaskStage, ToolEnded
from clew.core.messages import ToolResult
from clew.core.permissions import Access, Approval, Decision, PermissionMode
from clew.core.tasks import LogPage, TaskKind, TaskState, TaskStatus
from clew.providers.scripted import ScriptedReply, call_reply
from clew.runtime.process_tool import BACKGROUND_PROCESS, _describe_page
from clew.sdk.session import InteractiveSession
from clew.sdk.task_notices import describe_task_end
from clew.session.task_records import read_task_records
from clew.tools.sandbox import Sandbox
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-2", "TOL-2")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def call(**arguments: object) -> ScriptedReply:
    return call_reply((BACKGROUND_PROCESS, arguments))


def results(place: Place) -> list[ToolResult]:
    """Return what the model read of its calls."""
    request = place.provider.requests[-1]
    return [
        part
        for message in request.messages
        for part in message.parts
        if isinstance(part, ToolResult) and part.name == BACKGROUND_PROCESS
    ]


class Watcher:
    """Knows the newest task, and waits for what it does."""

    def __init__(self) -> None:
        self.task_id = ""
        self.ended: list[ToolEnded] = []
        self._last: BackgroundTaskEvent | None = None
        self._changed = anyio.Event()

    def attach(self, session: InteractiveSession) -> None:
        session.on("background_task_event", self._follow)
        session.on("tool_end", self.ended.append)

    def _follow(self, event: BackgroundTaskEvent) -> None:
        self.task_id, self._last = event.task_id, event
        self._changed.set()

    async def until(self, line: str = "", stage: TaskStage | None = None) -> None:
        while not self._is_there(line, stage):
            self._changed = anyio.Event()
            await self._changed.wait()

    def _is_there(self, line: str, stage: TaskStage | None) -> bool:
        last = self._last
        if last is None or last.state is None:
            return False
        return line in last.state.preview if line else last.stage is stage


async def allow(access: Access, decision: Decision) -> Approval:
    return Approval.ONCE


async def test_the_model_starts_reads_writes_to_and_stops_a_process(place: Place) -> None:
    watcher = Watcher()

    def replies() -> Iterator[ScriptedReply]:
        yield call(command='printf "name? "; read n; echo "hi $n"; exec sleep 1000')
        yield "started"
        yield call(action="read", task_id=watcher.task_id)
        yield call(action="send", task_id=watcher.task_id, text="Ada")
        yield "sent"
        yield call(action="read", task_id=watcher.task_id, offset=0)
        yield call(action="list")
        yield call(action="stop", task_id=watcher.task_id)
        yield "stopped"

    with anyio.fail_after(60):
        async with place.session(replies(), agents=True, permission_handler=allow) as session:
            watcher.attach(session)
            await session.run("start it")
            await watcher.until("name?")
            await session.run("answer it")
            await watcher.until("hi Ada")
            await session.run("stop it")
            (state,) = await session.tasks.list()

    started, asked, sent, read, listed, stopped = (one.text for one in results(place))
    task_id = watcher.task_id
    assert f"Started as {task_id} (running)" in started
    assert watcher.ended[0].data == {
        "success": True,
        "background": True,
        "task_id": task_id,
        "status": "running",
        "command": state.prompt,
    }
    assert asked.split("\n")[1:] == [
        "[no output yet]",
        "[unfinished line: name?]",
        "[new lines will start at offset=0]",
    ]
    assert sent.startswith(f"Sent to {task_id}")
    assert "[lines 0-0]\n[stdout] name? hi Ada\n[new lines will start at offset=1]" in read
    assert listed.startswith(f"{task_id} [running] printf")
    assert stopped.startswith(f"{task_id} [cancelled, exit code -15]")
    assert state.status is TaskStatus.CANCELLED
    assert state.session_id == session.get_session_id()


async def test_the_model_is_told_when_a_process_ends(place: Place) -> None:
    watcher = Watcher()
    with anyio.fail_after(60):
        command = "until [ -e go ]; do sleep 0.02; done; echo broken; exit 3"
        replies = [call(command=command), "started", "I see"]
        async with place.session(replies, agents=True, permission_handler=allow) as session:
            watcher.attach(session)
            await session.run("start it")
            (place.project / "go").touch()
            await watcher.until(stage=TaskStage.FAILED)
            await session.run("what now?")

    told = place.provider.requests[-1].messages[-1].text
    assert f"process {watcher.task_id} has failed (exit code 3" in told
    assert "broken" in told


async def test_the_output_of_a_process_that_died_with_its_session_can_be_read(
    place: Place,
) -> None:
    watcher = Watcher()
    with anyio.fail_after(60):
        replies = [call(command="echo important; exec sleep 1000"), "started"]
        async with place.session(replies, agents=True, permission_handler=allow) as session:
            watcher.attach(session)
            await session.run("start it")
            await watcher.until("important")
            await session.parts.tasks.flush()
            # What is on disk when the process dies now; and a process that still had to wait.
            (last,) = read_task_records(session.session.journal.entries).tasks
            queued = replace(last, task_id="task-queued", status=TaskStatus.QUEUED, started_at=None)
            await session.parts.tasks.aclose()
            for state in (last, queued):
                await session.session.journal.append(TaskChanged(state=state))
        replies = [
            call(action="read", task_id=watcher.task_id),
            call(action="read", task_id="task-queued"),
            "I see",
        ]
        async with place.session(
            replies, agents=True, resume_session_id=session.get_session_id()
        ) as resumed:
            await resumed.run("what did it say?")

    *_, read, waited = results(place)
    assert f"{watcher.task_id} [failed: the process that ran it ended]" in read.text
    assert "[stdout] important" in read.text
    assert waited.text.startswith("task-queued [failed: the process that ran it ended]")
    assert not waited.failed


async def test_a_process_starts_where_the_last_command_ended(place: Place) -> None:
    (place.project / "sub").mkdir()
    watcher = Watcher()
    with anyio.fail_after(60):
        waits = call(command="until [ -e ../go ]; do sleep 0.02; done; pwd")
        replies = [call_reply(("Bash", {"command": "cd sub"})), waits, "ok"]
        async with place.session(replies, agents=True, permission_handler=allow) as session:
            watcher.attach(session)
            await session.run("go")
            (place.project / "go").touch()
            await watcher.until(stage=TaskStage.COMPLETED)
            (state,) = await session.tasks.list()

    assert state.result.strip() == str(place.project / "sub")


SETTINGS = {
    "permissions": {
        "allow": ["Bash(echo *)", "Bash(cat)"],
        "deny": ["Bash(rm *)"],
        "ask": ["Bash(git push *)"],
    }
}


@pytest.mark.parametrize(
    ("arguments", "asked", "denied"),
    [
        ({"command": "echo hi"}, [], False),
        ({"command": "ls"}, [], False),
        ({"command": "make"}, [(BACKGROUND_PROCESS, "make")], True),
        ({"command": "echo hi; make"}, [(BACKGROUND_PROCESS, "echo hi; make")], True),
        ({"command": "git push origin"}, [(BACKGROUND_PROCESS, "git push origin")], True),
        ({"command": "echo hi && rm -rf x"}, [], True),
        ({"action": "send", "task_id": "t", "text": "rm x"}, [], True),
        (
            {"action": "send", "task_id": "t", "text": "echo hi"},
            [(f"{BACKGROUND_PROCESS}.send", "echo hi")],
            True,
        ),
        (
            {"action": "send", "task_id": "t", "text": "ls"},
            [(f"{BACKGROUND_PROCESS}.send", "ls")],
            True,
        ),
        ({"action": "read", "task_id": "t"}, [], False),
        ({"action": "stop", "task_id": "t"}, [], False),
        ({"action": "list"}, [], False),
    ],
)
async def test_a_process_is_judged_by_the_rules_of_bash(
    arguments: dict[str, Any],
    asked: list[tuple[str, str]],
    denied: bool,  # noqa: FBT001
    place: Place,
) -> None:
    place.write("../.clew/settings.json", json.dumps(SETTINGS))
    questions: list[tuple[str, str]] = []

    async def refuse(access: Access, decision: Decision) -> Approval:
        questions.append((access.tool, access.target))
        return Approval.NO

    watcher = Watcher()
    with anyio.fail_after(60):
        async with place.session(
            [call(**arguments), "ok"], agents=True, permission_handler=refuse
        ) as session:
            watcher.attach(session)
            await session.run("go")

    assert questions == asked
    (ended,) = watcher.ended
    assert ended.denied is denied


async def test_plan_mode_starts_no_process(place: Place) -> None:
    watcher = Watcher()
    with anyio.fail_after(60):
        async with place.session(
            [call(command="make"), "ok"], agents=True, permission_mode=PermissionMode.PLAN
        ) as session:
            watcher.attach(session)
            await session.run("go")
            assert await session.tasks.list() == ()

    assert watcher.ended[0].failed
    first = place.provider.requests[0]
    assert BACKGROUND_PROCESS not in {spec.name for spec in first.tools}
    assert BACKGROUND_PROCESS not in first.messages[-1].text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "`command` is missing"),
        ({"command": " "}, "`command` is missing"),
        ({"command": 3}, "`command` must be a text"),
        ({"action": "fly"}, "There is no action 'fly'"),
        ({"action": "read"}, "`task_id` is missing"),
        ({"action": "send", "task_id": "t"}, "`text` is missing"),
        ({"action": "read", "task_id": "t", "offset": "x"}, "`offset` must be"),
        ({"action": "read", "task_id": "t"}, "there is no task t"),
        ({"action": "stop", "task_id": "t"}, "there is no task t"),
    ],
)
async def test_a_wrong_call_fails_without_a_question(
    arguments: dict[str, Any], words: str, place: Place
) -> None:
    async with place.session([call(**arguments), "ok"], agents=True) as session:
        asked: list[PermissionRequest] = []
        session.on("permission_request", asked.append)
        await session.run("go")

    (result,) = results(place)
    assert result.failed
    assert words in result.text
    assert asked == []


async def test_the_hooks_of_bash_see_processes_too(place: Place) -> None:
    hook = {"type": "command", "command": "echo no servers here >&2; exit 2"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}
    place.write("../.clew/settings.json", json.dumps(settings))
    with anyio.fail_after(60):
        async with place.session(
            [call(command="echo hi"), "ok"], agents=True, permission_handler=allow
        ) as session:
            await session.run("go")

    (result,) = results(place)
    assert "no servers here" in result.text


@pytest.mark.parametrize(
    ("options", "is_offered"),
    [
        ({}, False),
        ({"agents": True}, True),
        ({"background_processes": True}, True),
        ({"agents": True, "background_processes": False}, False),
        ({"agents": True, "tools": []}, False),
        ({"agents": True, "disallowed_tools": ["Bash"]}, False),
        ({"agents": True, "disallowed_tools": ["BackgroundProcess"]}, False),
    ],
)
async def test_the_tool_is_offered_where_processes_can_run(
    options: dict[str, Any],
    is_offered: bool,  # noqa: FBT001
    place: Place,
) -> None:
    async with place.session(["hi"], **options) as session:
        await session.run("hello")

    names = {tool.name for tool in place.provider.requests[0].tools}
    assert (BACKGROUND_PROCESS in names) is is_offered


@pytest.mark.slow("tries out the sandbox")
async def test_a_process_runs_in_the_sandbox_of_the_session(place: Place) -> None:
    sandbox = Sandbox()
    if not sandbox.active:
        pytest.skip(f"no sandbox works here: {sandbox.problem}")
    place.write("key.txt", "top secret")
    settings = {"permissions": {"deny": ["Read(key.txt)"]}}
    place.write("../.clew/settings.json", json.dumps(settings))
    watcher = Watcher()
    with anyio.fail_after(60):
        command = "cat k*y.t?t; echo x > /usr/clew-was-here; echo done"
        async with place.session(
            [call(command=command), "ok"],
            agents=True,
            permission_handler=allow,
            sandbox=sandbox,
        ) as session:
            watcher.attach(session)
            await session.run("go")
            await watcher.until(stage=TaskStage.COMPLETED)
            (state,) = await session.tasks.list()

    assert "top secret" not in state.result
    assert "done" in state.result
    assert not Path("/usr/clew-was-here").exists()


async def test_closing_the_session_ends_its_processes(place: Place) -> None:
    watcher = Watcher()
    with anyio.fail_after(60):
        async with place.session(
            [call(command="echo $$; exec sleep 1000"), "ok"],
            agents=True,
            permission_handler=allow,
        ) as session:
            watcher.attach(session)
            await session.run("go")
            await watcher.until(stage=TaskStage.UPDATED)
            (state,) = await session.tasks.list()

    assert state.pid
    assert not Path(f"/proc/{state.pid}").exists()


def test_a_process_without_output_has_no_unfinished_line() -> None:
    state = TaskState(
        task_id="t", kind=TaskKind.PROCESS, label="make", status=TaskStatus.RUNNING, started_at=1.0
    )

    assert _describe_page(LogPage(task_id="t"), state) == [
        "[no output yet]",
        "[new lines will start at offset=0]",
    ]


@pytest.mark.parametrize(
    ("error", "said"),
    [("exit code 3", "has failed (exit code 3): make"), ("idle", "has failed (idle, exit code 3)")],
)
def test_the_exit_code_of_a_process_is_told_once(error: str, said: str) -> None:
    state = TaskState(
        task_id="t",
        kind=TaskKind.PROCESS,
        label="make",
        status=TaskStatus.FAILED,
        error=error,
        exit_code=3,
    )

    assert said in describe_task_end(state)
