"""`SubagentManager`: the agents among the background tasks."""

import anyio
import pytest

from clew.core.errors import BackgroundTaskError
from clew.core.tasks import LogPage, TaskKind, TaskStatus
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.protocol import LOG_PAGE_LINES, RunningTask, TaskRequest, TaskResult
from clew.runtime.subagents import SubagentManager

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
