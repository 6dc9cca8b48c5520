"""A runner whose tasks do what a test tells them, and a log of what was published."""

from collections.abc import Callable

import anyio
from msgspec import Struct, field

from clew.core.errors import BackgroundTaskError
from clew.core.events import BackgroundTaskEvent, Event, TaskStage
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind, TaskState
from clew.runtime.protocol import LOG_PAGE_LINES, RunningTask, TaskRequest, TaskResult


class _Running:
    def __init__(self, task: RunningTask) -> None:
        self.task = task
        self.outcome: TaskResult | Exception | None = None
        self.done = anyio.Event()


class ScriptedRunner:
    """Runs a task until the test completes or fails it."""

    def __init__(self, kind: TaskKind = TaskKind.AGENT) -> None:
        self.kind = kind
        self.running: dict[str, _Running] = {}
        self.ended: list[str] = []
        self.left: list[str] = []
        self.sent: list[tuple[str, str]] = []
        self.hold: anyio.Event | None = None
        """What a cancelled task waits for before it ends."""
        self.on_cancel: Callable[[], Exception] | None = None

    async def run(self, task: RunningTask) -> TaskResult:
        running = self.running[task.task_id] = _Running(task)
        try:
            await running.done.wait()
        except BaseException:
            if self.hold is not None:
                with anyio.CancelScope(shield=True):
                    await self.hold.wait()
            if task.is_left:
                self.left.append(task.task_id)
            if self.on_cancel is not None:
                raise self.on_cancel() from None
            raise
        finally:
            del self.running[task.task_id]
            self.ended.append(task.task_id)
        if isinstance(running.outcome, TaskResult):
            return running.outcome
        assert running.outcome is not None
        raise running.outcome

    async def send(self, task_id: str, text: str) -> None:
        self.sent.append((task_id, text))

    async def read_log(
        self, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        if task_id not in self.running and task_id not in self.ended:
            raise BackgroundTaskError("there is no log", category=TaskErrorCategory.VALIDATION)
        lines = tuple(f"line {number}" for number in range(offset, min(offset + limit, 500)))
        return LogPage(task_id=task_id, lines=lines, offset=offset, next_offset=offset + limit)

    def complete(self, task_id: str, text: str = "done") -> None:
        self.end(task_id, TaskResult(text=text))

    def end(self, task_id: str, outcome: TaskResult | Exception) -> None:
        running = self.running[task_id]
        running.outcome = outcome
        running.done.set()

    def report(self, task_id: str, *events: Event) -> None:
        for event in events:
            self.running[task_id].task.report(event)


class Published(Struct):
    """Collects what a manager publishes."""

    events: list[tuple[Event, str]] = field(default_factory=list)

    def __call__(self, event: Event, *, task_id: str = "") -> None:
        self.events.append((event, task_id))

    def changes(self, task_id: str) -> list[TaskStage]:
        return [
            event.stage
            for event, _ in self.events
            if isinstance(event, BackgroundTaskEvent) and event.task_id == task_id
        ]

    def states(self, stage: TaskStage) -> list[TaskState]:
        return [
            event.state
            for event, _ in self.events
            if isinstance(event, BackgroundTaskEvent)
            and event.stage is stage
            and event.state is not None
        ]

    def reported(self, task_id: str) -> list[Event]:
        return [event for event, of in self.events if of == task_id]


def agent(prompt: str = "look around", **fields: object) -> TaskRequest:
    return TaskRequest(kind=TaskKind.AGENT, prompt=prompt, **fields)  # type: ignore[arg-type]
