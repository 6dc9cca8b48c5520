"""What the terminal shows of a session: finished blocks, and one block that is still live.

`transcript.Transcript` makes them from events; `rendering` turns them into text. Their texts are
those of models, tools and files: rendering sanitizes them.
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.context_state import ContextState, LossReport
from clew.core.todos import TodoItem, TodoStatus
from clew.core.tool_states import ToolOutcome

EXIT_PLAN_MODE = "ExitPlanMode"
"""The tool with which a model presents a plan."""
_OPEN = frozenset({TodoStatus.PENDING, TodoStatus.IN_PROGRESS})

Level: TypeAlias = Literal["info", "warning", "error"]


class UserPrompt(Struct, frozen=True):
    """A prompt that started a run."""

    text: str


class Answer(Struct, frozen=True, kw_only=True):
    """A part of an answer: one or more complete Markdown blocks.

    A long answer is finished part by part. The parts of an answer, rendered one after the other,
    are the rendered answer.
    """

    text: str
    part: int = 0
    """0 for the first part of an answer."""


class ThinkingBlock(Struct, frozen=True, kw_only=True):
    """The model's reasoning before an answer or a tool call."""

    text: str
    seconds: float | None
    """None for reasoning of the past."""
    number: int = 0


class ToolCallBlock(Struct, frozen=True, kw_only=True):
    """A tool call that has its result."""

    number: int = 0
    name: str
    arguments: str
    """As the model wrote them: JSON."""
    outcome: ToolOutcome
    error_code: str = ""
    display: str = ""
    """The result for display; some tools say in a line what it is."""
    text: str = ""
    """The result that the model reads, if `display` says something else."""
    data: dict[str, Any] = {}
    """Facts about the result; a `FileChange` is shown as a diff."""
    seconds: float = 0.0
    remedy: str = ""
    """What would allow a call that was denied."""
    truncated: str = ""
    """What the model did not get of a long result."""


class ServerToolBlock(Struct, frozen=True, kw_only=True):
    """A tool that the provider ran itself, such as a web search."""

    number: int = 0
    name: str
    arguments: str = ""
    text: str = ""
    failed: bool = False
    seconds: float = 0.0


class TaskNote(Struct, frozen=True, kw_only=True):
    """A subagent or another background task started, asks, or has ended."""

    number: int = 0
    name: str
    """The name of an agent, the label of a process."""
    stage: Literal["started", "asks", "completed", "failed", "cancelled"]
    text: str = ""
    """The task when it starts, the answer when it completes, the reason when it fails."""
    calls: int = 0
    """How many tools it has called."""
    seconds: float = 0.0
    task_id: str = ""
    """Set for a task in the background: the user can read it by this id."""
    is_agent: bool = True


class Notice(Struct, frozen=True):
    """A sentence of Clew itself: a warning, how a run ended, why it failed."""

    text: str
    level: Level = "info"


class Compaction(Struct, frozen=True, kw_only=True):
    """A compaction and its loss report."""

    number: int = 0
    trigger: str
    before: ContextState
    after: ContextState
    report: LossReport
    summary: str = ""


class ClearedBlock(Struct, frozen=True, kw_only=True):
    """Tool results that left the context."""

    trigger: str
    report: LossReport


class CommandReply(Struct, frozen=True, kw_only=True):
    """The reply of a `/command`."""

    text: str
    style: Literal["text", "markdown", "diff"] = "text"
    failed: bool = False


class ShellOutput(Struct, frozen=True, kw_only=True):
    """The output of a command that the user ran with `!`."""

    number: int = 0
    command: str
    text: str
    failed: bool = False


class Plan(Struct, frozen=True, kw_only=True):
    """A plan that the model presents for approval."""

    text: str
    """Markdown."""


class Todos(Struct, frozen=True):
    """The model's todo list after a change."""

    items: tuple[TodoItem, ...]

    @property
    def is_open(self) -> bool:
        """True if an item is still to do."""
        return any(item.status in _OPEN for item in self.items)


Block: TypeAlias = (
    UserPrompt
    | Answer
    | ThinkingBlock
    | ToolCallBlock
    | ServerToolBlock
    | TaskNote
    | Notice
    | Compaction
    | ClearedBlock
    | CommandReply
    | ShellOutput
    | Plan
    | Todos
)

Foldable: TypeAlias = (
    ThinkingBlock | ToolCallBlock | ServerToolBlock | TaskNote | Compaction | ShellOutput
)
"""Blocks with a `number`: the terminal shows them folded, and expands them on request."""


class RunningTool(Struct, frozen=True, kw_only=True):
    """A tool call without a result."""

    call_id: str
    name: str
    arguments: str
    since: float
    """When it started, in seconds since the epoch."""
    line: str = ""
    """The newest line of its output."""
    is_asking: bool = False
    """True while the user is asked to allow it."""


class RunningTaskBlock(Struct, frozen=True, kw_only=True):
    """A subagent or another background task that has not ended."""

    task_id: str
    name: str
    """The name of an agent, the label of a process."""
    since: float
    calls: int = 0
    line: str = ""
    """What it does: its newest tool call, or the newest line of its output."""
    percentage: float | None = None
    """How full the window of an agent is."""
    is_agent: bool = True
    is_background: bool = False
    is_queued: bool = False
    """True while it waits for other tasks to end."""
    is_asking: bool = False
    """True while it waits for an answer of the user."""


class RetryWait(Struct, frozen=True, kw_only=True):
    """The pause before a request is sent again."""

    reason: str
    """Such as `rate limited`."""
    until: float
    """When it is sent again, in seconds since the epoch."""
    attempt: int
    attempts: int


class LiveBlock(Struct, frozen=True, kw_only=True):
    """What is unfinished: shown in the live area, and replaced by every event."""

    since: float
    """When the run or the work began, in seconds since the epoch."""
    is_running: bool = True
    """False if only tasks in the background are unfinished."""
    answer: str = ""
    """The end of the answer that is no complete Markdown block yet."""
    answer_part: int = 0
    thinking: str = ""
    thinking_since: float = 0.0
    tools: tuple[RunningTool, ...] = ()
    tasks: tuple[RunningTaskBlock, ...] = ()
    compaction: str = ""
    """How far a compaction is; empty if there is none."""
    retry: RetryWait | None = None
    todos: tuple[TodoItem, ...] = ()
    """The todo list, while it has an item that is still to do."""
