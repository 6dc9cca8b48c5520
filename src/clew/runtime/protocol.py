"""The contract between the task manager and the runners that do the work."""

from typing import Protocol

from msgspec import Struct

from clew.core.events import Event
from clew.core.ids import SessionId
from clew.core.tasks import Isolation, LogPage, TaskKind, TaskMode, TaskStatus

LOG_PAGE_LINES = 200


class TaskLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a watchdog ends a task; None disables a limit. Waiting for permission does not count."""

    idle_timeout: float | None = None
    """Seconds without any activity."""
    tool_idle_timeout: float | None = None
    """The same while a tool call runs, where that is longer: a build may be silent for minutes."""
    max_runtime: float | None = None
    """Seconds of work."""
    output_limit_bytes: int | None = None
    max_text_deltas: int | None = None
    repetition_window: int = 800
    """Characters of the newest output in which repetition is looked for."""
    repetition_threshold: int | None = None
    """How often in a row the same text or the same sentence may come."""


AGENT_LIMITS = TaskLimits(
    idle_timeout=240.0,
    tool_idle_timeout=660.0,
    output_limit_bytes=256_000,
    max_text_deltas=20_000,
    repetition_threshold=8,
)
"""The limits of an agent unless its request says otherwise. A process has none."""


class TaskRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to run; encodes to JSON, so that another process can run it."""

    kind: TaskKind
    prompt: str
    """The task of an agent, the command line of a process."""
    label: str = ""
    """A short name for lists; empty for the beginning of `prompt`."""
    session_id: SessionId = SessionId("")
    """The session that asks for it."""
    task_id: str = ""
    """The id to use; empty for a new one. An agent that ended can be continued under its id."""
    cwd: str = ""
    mode: TaskMode = "background"
    group_id: str = ""
    limits: TaskLimits | None = None
    """None for the limits of its kind."""
    depth: int = 1
    """1 for a task of a session that a person uses. Tasks cannot start tasks of their own."""
    durable: bool = False
    """Run it in `clew worker`, so that it survives the end of this process."""
    follows: bool = False
    """Only follow the durable task `task_id`, which has its prompt already."""
    # Of agents only:
    agent: str = ""
    """The name of the agent's definition; empty for `general-purpose`."""
    model: str = ""
    isolation: Isolation = "none"
    allowed_tools: tuple[str, ...] | None = None
    """The tools it may use; None for all that its definition allows."""
    max_turns: int | None = None
    fork_worker: bool = False
    """True for a skill with `context: fork`: asks for a short answer."""
    fires_hooks: bool = True
    """False for an agent that a hook runs, so that it does not trigger itself."""


class TaskResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a task completed. A runner raises `BackgroundTaskError` where it failed."""

    text: str
    exit_code: int | None = None
    worktree_path: str = ""
    """A worktree that was kept because it has work in it."""
    branch_name: str = ""


class TaskFacts(Struct, frozen=True, kw_only=True):
    """Facts of a task that its runner knows; None leaves one as it is."""

    pid: int | None = None
    exit_code: int | None = None
    log_path: str | None = None
    model: str | None = None
    cwd: str | None = None
    cost_usd: float | None = None
    worked_seconds: float | None = None
    result: str | None = None
    """What there is of the result, for a task that is cancelled."""
    worktree_path: str | None = None
    branch_name: str | None = None
    preview: str | None = None
    """The newest line of its output, even while it is not complete."""


class RunningTask(Protocol):
    """A task as its runner sees it."""

    @property
    def task_id(self) -> str:
        """The id of the task."""
        ...

    @property
    def request(self) -> TaskRequest:
        """What to run."""
        ...

    @property
    def is_left(self) -> bool:
        """True when this process stops following a durable task, which continues elsewhere.

        A runner that is cancelled asks this to know whether the task itself is cancelled.
        """
        ...

    def report(self, event: Event) -> None:
        """Publish an event of the task, such as `TextDelta`, `ToolStarted` or `ContextUpdated`.

        The watchdogs count it, and the state of the task follows it: `PermissionRequest` makes it
        wait, `PermissionResolved` makes it run again. Only the manager ends a task.
        """
        ...

    def describe(self, facts: TaskFacts) -> None:
        """Set facts of the task's state."""
        ...


class TaskRunner(Protocol):
    """Runs tasks of one kind. It is cancelled by cancellation, and leaves nothing behind."""

    @property
    def kind(self) -> TaskKind:
        """The kind of tasks that it runs."""
        ...

    async def run(self, task: RunningTask) -> TaskResult:
        """Do the work and return its result.

        When it is cancelled, it ends what it started before it lets the cancellation pass. With
        `RunningTask.describe` it can hand over what there was of the result.

        Raises:
            BackgroundTaskError: It failed; `partial` has what there was of the result.
            ClewError: It failed as a session may.
        """
        ...

    async def send(self, task_id: str, text: str) -> None:
        """Pass a message to a running task.

        Raises:
            BackgroundTaskError: The task does not take messages, or does not run.
        """
        ...

    async def read_log(
        self, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        """Return a page of the log of a task, also of one that has ended.

        A negative `offset` counts from the end; `clew.runtime.log_pages` finds the lines.

        Raises:
            BackgroundTaskError: There is no log.
        """
        ...


class Scheduler(Protocol):
    """Has tasks run that are stored in a `TaskStore`, by any worker that serves the same queue."""

    async def submit(self, task_id: str) -> None:
        """Put a stored task into the queue; does nothing when it is there or runs already."""
        ...

    async def cancel(self, task_id: str) -> None:
        """End a task: interrupt it at once where it runs, or remove it from the queue."""
        ...

    async def status(self, task_id: str) -> TaskStatus:
        """Return where the task stands."""
        ...

    async def aclose(self) -> None:
        """Stop using the engine; the tasks stay in the queue."""
        ...
