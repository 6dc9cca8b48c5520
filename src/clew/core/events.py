"""What goes to a screen or a socket while a session works.

Events report; they decide nothing. All that lasts is in the journal: a client that
missed an event can rebuild what it shows from the entries.
"""

from typing import TypeAlias

from msgspec import Struct

from clew.core.context_state import ContextState, LossReport
from clew.core.entries import Entry, Trigger
from clew.core.ids import CallId
from clew.core.usage import Usage


class TextDelta(Struct, frozen=True, tag_field="event", tag="text_delta"):
    """Words of the answer, as they arrive."""

    text: str


class ReasoningDelta(Struct, frozen=True, tag_field="event", tag="reasoning_delta"):
    """Words of the model's thinking, as they arrive."""

    text: str


class ToolStarted(Struct, frozen=True, kw_only=True, tag_field="event", tag="tool_start"):
    """A call was taken up; it may still be refused."""

    call_id: CallId
    name: str
    arguments: str


class ToolEnded(Struct, frozen=True, kw_only=True, tag_field="event", tag="tool_end"):
    """A call has its result; every `ToolStarted` is followed by exactly one."""

    call_id: CallId
    name: str
    failed: bool
    denied: bool = False
    error_code: str = ""
    """Why it failed: `denied`, `hook_blocked`, `unknown_tool`, `crashed`, `timed_out` …"""
    display: str = ""
    """The result for the screen; may differ from what the model reads."""
    data: dict[str, object] = {}
    """Facts for clients and logs, such as a structured diff."""


class ServerToolStarted(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="server_tool_start"
):
    """The provider began to run a tool of its own, such as a web search."""

    call_id: str
    name: str
    arguments: str = ""


class ServerToolEnded(Struct, frozen=True, kw_only=True, tag_field="event", tag="server_tool_end"):
    """A tool of the provider's own has answered."""

    call_id: str
    name: str
    text: str = ""
    failed: bool = False


class ContextUpdated(Struct, frozen=True, tag_field="event", tag="context_update"):
    """A new reading of the window: before a call, and again after it."""

    state: ContextState


class CompactionStarted(Struct, frozen=True, kw_only=True, tag_field="event", tag="compact_start"):
    """The view is about to be made smaller."""

    trigger: Trigger
    before: ContextState


class CompactionProgress(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="compact_progress"
):
    """How far the summary is: `reading` counts chunks, `writing` counts characters."""

    stage: str
    done: int
    total: int
    """0 where nobody can know."""


class CompactionEnded(Struct, frozen=True, kw_only=True, tag_field="event", tag="compact_end"):
    """The view is smaller, and this is what happened to each entry."""

    trigger: Trigger
    before: ContextState
    after: ContextState
    report: LossReport
    summary: str


class CompactionFailed(Struct, frozen=True, kw_only=True, tag_field="event", tag="compact_failed"):
    """The view is as it was; every `CompactionStarted` is followed by this or by its end."""

    why: str


class EntryAdded(Struct, frozen=True, tag_field="event", tag="entry"):
    """An entry is on disk: what it says cannot be lost any more."""

    entry: Entry


class Warned(Struct, frozen=True, tag_field="event", tag="warning"):
    """Something a person should know that stopped nothing."""

    text: str


class RunEnded(Struct, frozen=True, kw_only=True, tag_field="event", tag="complete"):
    """The run is over; every run ends with exactly one."""

    text: str
    stop_reason: str = ""
    """Why the model stopped: `done`, `length` or `refused`; empty when it did not get there."""
    detail: str = ""
    """What the provider says about it, such as why it refused."""
    interrupted: bool = False
    error: str = ""
    usage: Usage | None = None


Event: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ToolStarted
    | ToolEnded
    | ServerToolStarted
    | ServerToolEnded
    | ContextUpdated
    | CompactionStarted
    | CompactionProgress
    | CompactionEnded
    | CompactionFailed
    | EntryAdded
    | Warned
    | RunEnded
)
