"""`SubagentManager`: the agents among the background tasks."""

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError
from clew.core.tasks import LogPage, TaskKind, TaskState, TaskStatus
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.protocol import LOG_PAGE_LINES, RunningTask, TaskLimits, TaskRequest, TaskResult
from clew.runtime.subagents import SubagentManager
from clew.testing.clock import settle
from tests.runtime.runners import ScriptedRunner, agent

pytestmark = pytest.mark.anyio


class Echo:
    """Repeats its prompt, and what it is sent before it may end."""

    def __init__(self, kind: TaskKind) -> None:
        self.kind = kind
        self.may_end = anyio.Event()
        self.sent: list[str] = []

    async def run(self, task: RunningTask) -> TaskResult:
        await self.may_end.wait()
        return TaskResult(text=" ".join([task.request.prompt, *self.sent]))

    async def send(self, task_id: str, text: str) -> None:
        self.sent.append(f"{text} to {task_id}")

    async def read_log(
        self, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        return LogPage(task_id=task_id, lines=(f"{offset} {limit}",))


@pytest.mark.req("BGT-4", "AGT-3")
async def test_agents_are_started_followed_and_continued() -> None:
    echo = Echo(TaskKind.AGENT)
    manager = BackgroundTaskManager([echo, Echo(TaskKind.PROCESS)])
    agents = SubagentManager(manager)
    with anyio.fail_after(60):
        state = await agents.spawn(TaskRequest(kind=TaskKind.AGENT, prompt="look", agent="Plan"))
        process = await manager.spawn(TaskRequest(kind=TaskKind.PROCESS, prompt="make"))

        assert [one.task_id for one in agents.list()] == [state.task_id]
        assert agents.background_task_manager is manager
        while agents.get(state.task_id).status is TaskStatus.QUEUED:
            await anyio.lowlevel.checkpoint()
        await agents.send(state.task_id, "more")
        echo.may_end.set()
        assert (await agents.wait(state.task_id)).result == f"look more to {state.task_id}"

        again = await agents.send(state.task_id, "and now?")
        assert (again.task_id, again.agent, again.prompt) == (state.task_id, "Plan", "and now?")
        assert (await agents.wait(state.task_id)).result.startswith("and now?")
        page = await agents.read_log(state.task_id, offset=3, limit=4)
        assert page.lines == ("3 4",)
        agents.close(state.task_id)
        assert agents.list() == ()

        with pytest.raises(BackgroundTaskError, match="is not an agent"):
            agents.get(process.task_id)
        with pytest.raises(BackgroundTaskError, match="is not an agent"):
            await agents.cancel(process.task_id)
        with pytest.raises(BackgroundTaskError, match="is not an agent"):
            await agents.run(TaskRequest(kind=TaskKind.PROCESS, prompt="make"))
        await manager.shutdown()


async def test_an_agent_that_continues_keeps_the_limits_of_its_request() -> None:
    runner = ScriptedRunner()
    manager = BackgroundTaskManager([runner])
    limits = TaskLimits(max_runtime=5.0)
    request = agent(
        allowed_tools=("Read",), max_turns=3, fork_worker=True, fires_hooks=False, limits=limits
    )
    with anyio.fail_after(60):
        ended = await _run(manager, runner, request)
        again = await _continue(manager, runner, ended)
        await manager.shutdown()
        resumed = BackgroundTaskManager([runner])
        await resumed.restore([msgspec.json.decode(msgspec.json.encode(ended), type=TaskState)])
        later = await _continue(resumed, runner, ended)
        await resumed.shutdown()

    assert again == replace(request, prompt="go on", task_id=ended.task_id, label=ended.label)
    # The limits of time and output are those of the session that continues it.
    assert later == replace(again, limits=TaskLimits(max_runtime=9.0))


async def _run(
    manager: BackgroundTaskManager, runner: ScriptedRunner, request: TaskRequest
) -> TaskState:
    state = await manager.spawn(request)
    await settle()
    runner.complete(state.task_id)
    return await manager.wait(state.task_id)


async def _continue(
    manager: BackgroundTaskManager, runner: ScriptedRunner, ended: TaskState
) -> TaskRequest:
    limits = TaskLimits(max_runtime=9.0)
    await SubagentManager(manager).send(ended.task_id, "go on", limits=limits)
    await settle()
    request = runner.running[ended.task_id].task.request
    runner.complete(ended.task_id)
    await manager.wait(ended.task_id)
    return request
