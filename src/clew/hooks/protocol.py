"""The contract between a session and the user's hooks.

A session fires events at fixed points of its life and acts on the verdict of each. The fields of
the input have the names that Claude Code uses, so a hook written for it reads the same JSON.
"""

from enum import StrEnum
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from clew.core.permissions import Decision, PermissionMode
from clew.core.text import make_encodable


class HookEvent(StrEnum):
    """The points at which a session runs hooks."""

    SESSION_START = "SessionStart"
    SESSION_END = "SessionEnd"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    PRE_COMPACT = "PreCompact"
    POST_COMPACT = "PostCompact"
    STOP = "Stop"
    STOP_FAILURE = "StopFailure"
    SUBAGENT_START = "SubagentStart"
    SUBAGENT_STOP = "SubagentStop"
    WORKTREE_CREATE = "WorktreeCreate"
    WORKTREE_REMOVE = "WorktreeRemove"


class HookInput(Struct, frozen=True, kw_only=True):
    """The input of a hook. A field that is not set is not in the JSON.

    The event is an argument of `Hooks.fire`; it becomes `hook_event_name`.
    """

    session_id: str
    transcript_path: str = ""
    cwd: str
    permission_mode: PermissionMode | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    """Set on every event that a subagent causes."""
    agent_type: str | UnsetType = UNSET

    source: str | UnsetType = UNSET
    """SessionStart: `startup`, `resume`, `clear`, `compact` or `fork`."""
    model: str | UnsetType = UNSET
    """SessionStart: the model's name."""
    reason: str | UnsetType = UNSET
    """SessionEnd: `clear`, `resume`, `logout`, `prompt_input_exit` or `other`; StopFailure: the
    error message."""
    prompt: str | UnsetType = UNSET
    """UserPromptSubmit: the user's prompt."""

    tool_name: str | UnsetType = UNSET
    """PreToolUse and PostToolUse, as are the next two."""
    tool_input: dict[str, Any] | UnsetType = UNSET
    tool_use_id: str | UnsetType = UNSET
    tool_response: Any = UNSET
    """PostToolUse: the output of the tool."""
    duration_ms: int | UnsetType = UNSET
    """PostToolUse: how long the tool ran."""

    trigger: str | UnsetType = UNSET
    """PreCompact and PostCompact: `manual` or `auto`."""
    custom_instructions: str | UnsetType | None = UNSET
    """PreCompact: the user's instructions for the summary; None without any."""
    compact_summary: str | UnsetType = UNSET
    """PostCompact: the summary."""

    stop_hook_active: bool | UnsetType = UNSET
    """Stop and SubagentStop: whether a hook has already continued this run."""
    last_assistant_message: str | UnsetType = UNSET
    """Stop, SubagentStop, and StopFailure, where it is the text of the error."""
    response: str | UnsetType = UNSET
    """Stop: the beginning of the answer."""
    error: str | UnsetType = UNSET
    """StopFailure: the kind of error, such as `rate_limit` or `unknown`."""
    error_details: str | UnsetType = UNSET
    """StopFailure: the error message."""
    agent_transcript_path: str | UnsetType = UNSET
    """SubagentStop: the subagent's own transcript."""

    name: str | UnsetType = UNSET
    """WorktreeCreate: a short name for the new worktree."""
    worktree_path: str | UnsetType = UNSET
    """WorktreeRemove: the folder to remove; WorktreeCreate where it is known."""

    def encode(self, event: HookEvent) -> bytes:
        """Return the JSON that a hook of `event` reads."""
        fields = msgspec.to_builtins(make_encodable(self))
        return msgspec.json.encode({"hook_event_name": event.value, **fields})


class HookVerdict(Struct, frozen=True, kw_only=True):
    """The merged verdict of all hooks of one event.

    `stop` counts before everything else, and `block` before `context`.
    """

    decision: Decision | None = None
    """PreToolUse: whether the call may run. A hook that blocks the call denies it."""
    updated_input: dict[str, Any] | None = None
    """PreToolUse: new arguments; permissions are checked for these."""
    updated_output: Any = None
    """PostToolUse: replaces the output of the tool for the model."""
    block: str | None = None
    """Why the event is blocked; None if it may proceed.

    PreToolUse: the call is denied. UserPromptSubmit: the prompt is dropped, and the user reads
    this. PreCompact: nothing is compacted. Stop, SubagentStop: the run continues, and the model
    reads this. PostToolUse: the model reads this with the result. WorktreeCreate: no worktree is
    created.
    """
    stop: str | None = None
    """Why the whole run ends here, for the user; None if it may continue."""
    context: tuple[str, ...] = ()
    """Texts for the model, in the order of the hooks. After Stop they continue the run."""
    messages: tuple[str, ...] = ()
    """Texts for the user."""
    reports: tuple[str, ...] = ()
    """Failures and overruled verdicts, for the user and the log; they stop nothing."""
    worktree_path: str = ""
    """WorktreeCreate: the folder that a hook created itself; empty for none."""


class Hooks(Protocol):
    """Receives the events of a session. Safe to call from several tasks at once."""

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        """Run the hooks of `event` and return their merged verdict.

        A hook that fails becomes a report in the verdict. Only cancellation is raised; it ends
        the hooks that still run and their child processes.
        """
        ...


class NoHooks:
    """No hooks: every event may proceed."""

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:  # noqa: ARG002
        """Return an empty verdict."""
        return HookVerdict()
