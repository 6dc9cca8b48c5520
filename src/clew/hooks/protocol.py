"""The contract between a session and the user's hooks.

A session fires an event at a fixed point of its life and acts on the one verdict that comes
back. The fields of the input are named as Claude Code names them, so that a hook written for
it reads the same JSON here.
"""

from enum import StrEnum
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from clew.core.access import Decision, PermissionMode
from clew.core.text import make_encodable


class HookEvent(StrEnum):
    """The points at which hooks are asked or told."""

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
    """What a hook is told. A field that is not set is not in the JSON.

    The event itself is given to `Hooks.fire`; it becomes `hook_event_name`.
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
    error in words."""
    prompt: str | UnsetType = UNSET
    """UserPromptSubmit: the user's words."""

    tool_name: str | UnsetType = UNSET
    """PreToolUse and PostToolUse, as are the next two."""
    tool_input: dict[str, Any] | UnsetType = UNSET
    tool_use_id: str | UnsetType = UNSET
    tool_response: Any = UNSET
    """PostToolUse: what the tool answered."""
    duration_ms: int | UnsetType = UNSET
    """PostToolUse: how long the tool ran."""

    trigger: str | UnsetType = UNSET
    """PreCompact and PostCompact: `manual` or `auto`."""
    custom_instructions: str | UnsetType | None = UNSET
    """PreCompact: what the user asked the summary to keep; None for nothing."""
    compact_summary: str | UnsetType = UNSET
    """PostCompact: the summary."""

    stop_hook_active: bool | UnsetType = UNSET
    """Stop and SubagentStop: a hook has kept this run going already."""
    last_assistant_message: str | UnsetType = UNSET
    """Stop, SubagentStop, and StopFailure, where it is the error's text."""
    response: str | UnsetType = UNSET
    """Stop: the beginning of the answer."""
    error: str | UnsetType = UNSET
    """StopFailure: the kind of error, such as `rate_limit` or `unknown`."""
    error_details: str | UnsetType = UNSET
    """StopFailure: the error in words."""
    agent_transcript_path: str | UnsetType = UNSET
    """SubagentStop: the subagent's own transcript."""

    name: str | UnsetType = UNSET
    """WorktreeCreate: a short name for the new worktree."""
    worktree_path: str | UnsetType = UNSET
    """WorktreeRemove: the folder that goes; WorktreeCreate where it is known."""

    def encode(self, event: HookEvent) -> bytes:
        """Return the JSON that a hook of `event` reads."""
        fields = msgspec.to_builtins(make_encodable(self))
        return msgspec.json.encode({"hook_event_name": event.value, **fields})


class HookVerdict(Struct, frozen=True, kw_only=True):
    """What all hooks of one event say together.

    `stop` counts before everything else, and `block` before `context`.
    """

    decision: Decision | None = None
    """PreToolUse: may the call run? A hook that blocks the call has denied it."""
    updated_input: dict[str, Any] | None = None
    """PreToolUse: the arguments to run with; permissions are judged on these."""
    updated_output: Any = None
    """PostToolUse: what the model reads in place of the tool's answer."""
    block: str | None = None
    """Why the event does not go ahead; None if it may.

    UserPromptSubmit: the prompt is dropped, the user reads this. PreCompact: nothing is
    compacted. Stop, SubagentStop: the run goes on, the model reads this. PostToolUse: the
    model reads this beside the result. WorktreeCreate: there is no worktree.
    """
    stop: str | None = None
    """Why the whole run ends here, for the user to read; None if it may go on."""
    context: tuple[str, ...] = ()
    """Texts for the model, in the order of the hooks. After Stop they keep the run going."""
    messages: tuple[str, ...] = ()
    """Texts for the user."""
    reports: tuple[str, ...] = ()
    """What went wrong or was overruled, for the user and the log; it stopped nothing."""
    suppress_output: bool = False
    """A hook asked not to be shown; what it says to the model and the user still counts."""
    worktree_path: str = ""
    """WorktreeCreate: the folder that a hook has made itself; empty for none."""


class Hooks(Protocol):
    """Where a session's events go. Safe to call from several tasks at once."""

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        """Run the hooks of `event` and return what they say together.

        A hook that fails is a report in the verdict. Nothing but cancellation is raised;
        it ends the hooks that still run, their child processes included.
        """
        ...


class NoHooks:
    """Nobody to ask: every event may go ahead."""

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:  # noqa: ARG002
        """Return the verdict that changes nothing."""
        return HookVerdict()
