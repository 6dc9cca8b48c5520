"""Results for clients: of a run, with its usage, and of a command in a terminal of the user."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.context_state import ContextState
from clew.core.ids import EntryId, RunId
from clew.core.tool_states import ToolState
from clew.core.usage import Usage

Report: TypeAlias = Callable[[str], None]
"""Takes the output of a command so far."""


class UsageSnapshot(Struct, frozen=True, kw_only=True):
    """What one run consumed, and how full the window is after it."""

    kind: Literal["exact", "estimated"]
    """`exact` when the provider counted every call of the run.
    Otherwise the counts cover the calls that were counted, and the total is at least the
    context size.
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
    """`unknown` when the price of a call is missing; `cost_usd` then leaves it out.
    Otherwise `estimated`: tokens times list prices, or what the provider says it charged.
    """
    cost_usd: float = 0.0


class ExecutionResult(Struct, frozen=True, kw_only=True):
    """How a run ended; encodes to JSON."""

    response: str
    run_id: RunId = RunId("")
    tool_summaries: tuple[ToolState, ...] = ()
    context_state: ContextState
    usage: UsageSnapshot | None = None
    """None when no model was called."""
    last_call: Usage | None = None
    """What the provider counted for the last call of the run."""
    interrupted: bool = False
    stop_reason: str = ""
    """Why the model stopped: `done`, `length` or `refused`; empty when it was interrupted."""
    stop_detail: str = ""
    """What the provider says about it, such as why it refused."""
    first_entry: EntryId = EntryId(0)
    """The first journal entry of the run; the history of the run starts there."""
    last_entry: EntryId = EntryId(0)
    """The last journal entry when the run ended."""


class TerminalResult(Struct, frozen=True, kw_only=True):
    """How a command ended that ran in a terminal of the user, such as that of an editor."""

    output: str
    code: int
    """The exit code; the negative signal number if a signal ended it."""
    timed_out: bool = False
