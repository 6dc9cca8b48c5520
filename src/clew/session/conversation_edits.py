"""Changes of a conversation other than runs: undo, clear, pins, added messages, manual tools."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from clew.core.entries import Cleared, Entry, MessageAdded, PinChanged, Undone
from clew.core.errors import NothingToUndo, SessionError
from clew.core.ids import EntryId, new_call_id
from clew.core.messages import Message, Role, ToolCall, assistant, user
from clew.session.config import check_effort
from clew.session.hook_events import fire_session_start, format_reminder
from clew.session.rewind import record_checkpoint, undo_restore
from clew.session.state import SessionState
from clew.session.tool_batch import commit_outcome
from clew.session.tool_execution import run_call
from clew.tools.protocol import ToolOutput

MessageOrRole: TypeAlias = Message | Role | Literal["user", "assistant", "system"]
"""A whole message, or the role of one whose text follows."""


async def undo(state: SessionState, entry_id: EntryId | None = None) -> Entry:
    """Undo the newest compaction, removal of tool results, clear or rewind; returns its entry.

    Later messages stay. Files that a rewind restored are set back to what they were.

    Args:
        state: The session.
        entry_id: The change that the caller means. Default: the newest one.

    Raises:
        NothingToUndo: There is nothing to undo, or that entry is not the newest change in force.
    """
    journal = state.journal
    if not journal.view.undoable:
        raise NothingToUndo(
            "there is no compaction, removal of tool results, clear or rewind to undo"
        )
    target = journal.view.undoable[-1]
    if entry_id is not None and entry_id != target:
        raise NothingToUndo(_explain_order(journal.view.undoable, entry_id))
    entry = journal.entry(target)
    assert entry is not None  # noqa: S101 - the view names only entries of its journal
    await undo_restore(state, entry)
    await journal.append(Undone(target=target))
    state.publish_todos()
    state.report_context()
    return entry


def _explain_order(undoable: Sequence[EntryId], entry_id: EntryId) -> str:
    if entry_id not in undoable:
        return f"#{entry_id} is not a change in force, so it cannot be undone"
    later = [f"#{one}" for one in reversed(undoable) if one > entry_id]
    return f"changes are undone newest first: undo {', '.join(later)} before #{entry_id}"


async def clear_history(state: SessionState) -> None:
    """Start an empty conversation, and fire SessionStart with the source `clear`."""
    await state.journal.append(Cleared())
    state.publish_todos()
    state.report_context()
    await fire_session_start(state, "clear")


async def set_system_message(state: SessionState, text: str) -> None:
    """Change the system message from the next request on."""
    setup = state.journal.view.setup
    if text != setup.system:
        await state.journal.append(replace(setup, system=text))
        state.report_context()


async def set_effort(state: SessionState, effort: str) -> None:
    """Change how much the model reasons, from the next request on; empty for its default.

    Raises:
        ConfigError: There is no such effort.
        SessionError: The model does not let you choose.
    """
    check_effort(effort)
    setup = state.journal.view.setup
    if effort == setup.effort:
        return
    if state.find_effort_fields(effort) is None:
        raise SessionError(
            f"{setup.model.name} on {state.provider.name} has no choice of reasoning effort that"
            " Clew knows; if its API has one, set its field in the options of the provider"
        )
    await state.journal.append(replace(setup, effort=effort))


async def pin(state: SessionState, entry_id: EntryId, *, pinned: bool) -> None:
    """Pin a message, so that every compaction keeps it word for word; or unpin it.

    A message that is pinned already, or not pinned, stays so.

    Raises:
        SessionError: That entry is not a message of the view.
        SessionClosed: The session was shut down.
    """
    state.check_open()
    journal = state.journal
    entry = journal.entry(entry_id)
    if entry is None or not isinstance(entry.body, MessageAdded):
        raise SessionError(f"entry #{entry_id} is not a message of this session")
    if pinned and all(item.entry_id != entry_id for item in journal.view.items):
        raise SessionError(f"message #{entry_id} is not in the view; undo the compaction first")
    if (entry_id in journal.view.pinned) is not pinned:
        await journal.append(PinChanged(target=entry_id, pinned=pinned))


async def inject_message(state: SessionState, message: Message) -> None:
    """Add a message without a model call.

    Raises:
        SessionError: The message is empty or would make the history invalid.
    """
    if not message.parts:
        raise SessionError("an empty message cannot be added")
    if message.role is Role.TOOL or message.calls:
        raise SessionError("tool calls and results belong together; use run_tool, which adds both")
    if message.role is Role.ASSISTANT and not state.journal.view.items:
        raise SessionError("a conversation must begin with a user message")
    await state.journal.append(MessageAdded(message=message))


def make_message(role: MessageOrRole, text: str) -> Message:
    """Return the message that `Session.inject_message` was given.

    A `system` text becomes a user message in a `<system-reminder>` tag, because providers accept
    a system message only at the start of a request.

    Raises:
        SessionError: The role is not one of these.
    """
    if isinstance(role, Message):
        return role
    match role:
        case "user":
            return user(text)
        case "assistant":
            return assistant(text)
        case "system":
            return user(format_reminder(text))
        case _:
            raise SessionError(f"a message has the role user, assistant or system, not {role!r}")


async def run_tool(state: SessionState, name: str, arguments: str, *, said: str) -> ToolOutput:
    """Run a tool on the user's behalf and add it to the conversation.

    It is added as a request, a call and a result, so that every provider accepts it and a
    compaction treats it like any other tool output. Permissions are not checked, because the
    user started the call.
    """
    call = ToolCall(call_id=new_call_id(), name=name, arguments=arguments)
    asked = await state.journal.append(MessageAdded(message=user(said)))
    async with record_checkpoint(state, asked, said):
        await state.journal.append(MessageAdded(message=assistant(call)))
        outcome = None
        try:
            outcome = await run_call(state, call, decided=True)
        finally:
            await commit_outcome(state, call, outcome)
    state.report_context()
    return outcome.output
