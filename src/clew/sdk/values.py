"""What clients of an interactive session are given: tool states, usage, results."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.access import Risk
from clew.core.context_state import ContextState
from clew.sdk.history import HistoryEntry

Outcome: TypeAlias = Literal["success", "error", "denied"]


class DiffLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of what an edit changed."""

    type: Literal["hunk", "context", "remove", "add"]
    text: str
    line: int | None = None
    """Its number in the file: the new one, or the old one of a line that is gone."""


class ToolState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool call as a screen shows it."""

    tool_name: str
    first_arg: str = ""
    is_running: bool = False
    call_id: str = ""
    result: Outcome | None = None
    error_code: str = ""
    """Why it failed: `denied`, `hook_blocked`, `unknown_tool`, `crashed`, `timed_out` …"""
    diff_file: str = ""
    diff_lines: tuple[DiffLine, ...] = ()
    tool_result_data: str = ""
    """The result for a screen, cut to a bounded length."""


class UsageSnapshot(Struct, frozen=True, kw_only=True):
    """What one turn consumed, and how full the window is after it."""

    kind: Literal["exact", "estimated"]
    """`exact` when the provider counted every call of the turn.
    Otherwise the counts are of those calls that were counted, and the total is at least the
    context.
    """
    scope: Literal["turn"] = "turn"
    total_tokens: int
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    context_used_tokens: int
    context_max_tokens: int
    context_used_percentage: float
    cost_status: Literal["unknown", "estimated"]
    """`unknown` when the price of a call is missing, which `cost_usd` then leaves out.
    Else `estimated`: tokens times list prices, or what the provider says that it charged.
    """
    cost_usd: float = 0.0


class ExecutionResult(Struct, frozen=True, kw_only=True):
    """How a prompt ended."""

    response: str
    tool_summaries: tuple[ToolState, ...] = ()
    context_state: ContextState
    usage: UsageSnapshot | None = None
    interrupted: bool = False
    stop_reason: str = ""
    tell_history: Callable[[], Sequence[HistoryEntry]] = tuple
    """Reads the history when it is asked for: it grows with the session."""

    @property
    def history(self) -> list[HistoryEntry]:
        """The whole history up to here: what was said, and what happened beside it."""
        return list(self.tell_history())


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """A question for a person: may this call run?"""

    request_id: str
    tool_name: str
    target: str
    risk: Risk
    reason: str
    call_id: str = ""
    arguments: dict[str, Any] = {}
    """What the call would run with."""
    session_scope: str = ""
    """The calls that an approval for the session covers, such as `Write in this folder`."""
    project_rules: tuple[str, ...] = ()
    """The rules that an approval for the project adds to its settings; none if it cannot."""


class TaskStage(StrEnum):
    """The points in the life of a subagent that are told of."""

    STARTED = "started"
    TEXT_DELTA = "text_delta"
    TOOL_START = "tool_start"
    TOOL_END = "tool_end"
    COMPLETED = "completed"
    FAILED = "failed"


class TaskEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something happened in a subagent."""

    task_id: str
    agent: str
    stage: TaskStage
    text: str = ""
    tool: ToolState | None = None
    transcript_path: str = ""
