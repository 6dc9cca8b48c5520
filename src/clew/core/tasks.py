"""Background tasks and job groups as values: what a list of tasks shows, and what is stored."""

from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.context_state import ContextState
from clew.core.ids import SessionId

Isolation: TypeAlias = Literal["none", "worktree"]
TaskMode: TypeAlias = Literal["foreground", "background"]
"""`foreground`: the caller waits for the result. `background`: the caller continues."""


class TaskKind(StrEnum):
    """What a task is."""

    AGENT = "agent"
    """A subagent: a session of its own, whose id is the id of the task."""
    PROCESS = "process"
    """A shell command."""


class TaskStatus(StrEnum):
    """Where a task is in its life; `clew.runtime.states` has the transitions."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_PERMISSION = "waiting_permission"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """True when the task has ended."""
        return self in _TERMINAL


_TERMINAL = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED})


class TimeoutReason(StrEnum):
    """Which watchdog ended a task."""

    IDLE = "idle"
    MAX_RUNTIME = "max_runtime"
    OUTPUT_LIMIT = "output_limit"
    TEXT_DELTAS = "text_deltas"
    REPETITION = "repetition"
    STALE_WORKER = "stale_worker"
    """The process that ran the task ended or lost its lease."""


class TaskErrorCategory(StrEnum):
    """Why a task failed, or why it cannot do what was asked of it."""

    VALIDATION = "validation"
    CAPACITY = "capacity"
    PERMISSION = "permission"
    TIMEOUT = "timeout"
    RUNNER = "runner"
    CRASH = "crash"
    PROVIDER = "provider"
    PROCESS = "process"


class TaskState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task at one moment; encodes to JSON."""

    task_id: str
    """For an agent, also the id of its session."""
    kind: TaskKind
    label: str
    """A short name for lists."""
    status: TaskStatus = TaskStatus.QUEUED
    session_id: SessionId = SessionId("")
    """The session that started it."""
    prompt: str = ""
    """The task of an agent, the command line of a process."""
    agent: str = ""
    """The name of the agent's definition."""
    model: str = ""
    cwd: str = ""
    mode: TaskMode = "background"
    isolation: Isolation = "none"
    allowed_tools: tuple[str, ...] | None = None
    """The tools that an agent may use; None for all that its definition allows."""
    max_turns: int | None = None
    """How many turns an agent may take; None for what its definition says."""
    fork_worker: bool = False
    """True for an agent that carries out a skill with `context: fork`."""
    fires_hooks: bool = True
    """False for an agent that a hook runs."""
    group_id: str = ""
    durable: bool = False
    """True for a task that `clew worker` runs, so that it survives the death of any process."""
    created_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    last_activity_at: float = 0.0
    worked_seconds: float = 0.0
    """How long it has worked since it was started or continued with a message, also in processes
    that ended. Waiting for a place, a worker or an answer does not count."""
    action: str = ""
    """What it does now, such as `Bash make test`."""
    preview: str = ""
    """The newest line of its output."""
    result: str = ""
    """The answer of an agent, the end of a process's output. In a failed or cancelled task: what
    there was of it."""
    error: str = ""
    error_category: TaskErrorCategory | None = None
    timeout_reason: TimeoutReason | None = None
    question: str = ""
    """What it asks the user while it waits for permission."""
    exit_code: int | None = None
    pid: int | None = None
    output_bytes: int = 0
    text_deltas: int = 0
    context: ContextState | None = None
    """How full the window of an agent is."""
    cost_usd: float = 0.0
    worktree_path: str = ""
    """A worktree that was kept because it has work in it."""
    branch_name: str = ""
    log_path: str = ""
    """The log of a process, or the transcript of an agent."""


class LogPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a task's log."""

    task_id: str
    lines: tuple[str, ...] = ()
    offset: int = 0
    """The number of the first line here; lines are counted from 0."""
    next_offset: int | None = None
    """Where the next page begins; None when this is the end of the log so far."""


class JobWaitPolicy(StrEnum):
    """When a job group is complete."""

    DETACHED = "detached"
    """When all tasks have ended; nothing waits for it."""
    WAIT_ALL = "wait_all"
    WAIT_ANY = "wait_any"
    """When the first task has completed, or all have ended."""
    MANUAL = "manual"
    """Never by itself."""


class JobGroupStatus(StrEnum):
    """Where a job group is in its life."""

    RUNNING = "running"
    COMPLETED = "completed"


class JobResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one task of a group."""

    task_id: str
    label: str
    status: TaskStatus
    summary: str = ""
    """The answer, at most 1,000 characters."""
    error: str = ""
    log_path: str = ""


class JobGroupState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A group of tasks at one moment; encodes to JSON."""

    group_id: str
    policy: JobWaitPolicy
    label: str = ""
    session_id: SessionId = SessionId("")
    """The session that made the group."""
    status: JobGroupStatus = JobGroupStatus.RUNNING
    task_ids: tuple[str, ...] = ()
    results: tuple[JobResult, ...] = ()
    """Of the tasks that have ended, in the order of `task_ids`."""
    created_at: float = 0.0
    ended_at: float | None = None


class JobGroupSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Counts of a group's tasks, and one line for each."""

    group_id: str
    total: int
    running: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    lines: tuple[str, ...] = ()
    """`[status] label task-id: detail`."""
