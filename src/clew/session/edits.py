"""Changes to a conversation other than talking: undo, pins, what a person runs by hand."""

from msgspec.structs import replace

from clew.core.entries import Cleared, Entry, MessageAdded, PinChanged, Undone
from clew.core.errors import NothingToUndo, SessionError
from clew.core.ids import EntryId, new_call_id
from clew.core.messages import Image, Message, Role, ToolCall, assistant, user
from clew.session.journal import Journal
from clew.session.one_call import run_call
from clew.session.rewind import checkpointed, unrestore
from clew.session.state import SessionState
from clew.session.tool_calls import commit_outcome
from clew.tools.protocol import ToolOutput


async def undo(kit: SessionState) -> Entry:
    """Take back the newest compaction, clear or rewind that still counts; returns it.

    Messages that came after it stay. Files that a rewind restored become what they were.

    Raises:
        NothingToUndo: There is none.
    """
    journal = kit.journal
    if not journal.view.undoable:
        raise NothingToUndo("there is no compaction, clear or rewind to take back")
    target = journal.view.undoable[-1]
    entry = journal.entry(target)
    assert entry is not None  # noqa: S101 - the view names only entries of its journal
    await unrestore(kit, entry)
    await journal.append(Undone(target=target))
    kit.report_state()
    return entry


async def clear(kit: SessionState) -> None:
    """Begin the conversation anew."""
    await kit.journal.append(Cleared())
    kit.report_state()


async def set_system_message(kit: SessionState, text: str) -> None:
    """Begin every request with other words from here on."""
    setup = kit.journal.view.setup
    if text != setup.system:
        await kit.journal.append(replace(setup, system=text))
        kit.report_state()


async def pin(journal: Journal, entry_id: EntryId, *, pinned: bool) -> None:
    """Keep a message through every compaction, or no longer.

    Raises:
        SessionError: That entry is not a message of the view.
    """
    entry = journal.entry(entry_id)
    if entry is None or not isinstance(entry.body, MessageAdded):
        raise SessionError(f"entry #{entry_id} is not a message of this session")
    if pinned and all(item.entry_id != entry_id for item in journal.view.items):
        raise SessionError(f"message #{entry_id} has left the view; undo the compaction first")
    await journal.append(PinChanged(target=entry_id, pinned=pinned))


def as_prompt(prompt: str | Message) -> Message:
    """Return what a run begins with.

    Raises:
        SessionError: It is not something that a user can say.
    """
    message = user(prompt) if isinstance(prompt, str) else prompt
    empty = not message.text.strip() and not any(isinstance(p, Image) for p in message.parts)
    if message.role is not Role.USER or empty:
        raise SessionError("a run begins with a message of the user's that is not empty")
    return message


async def inject(journal: Journal, message: Message) -> None:
    """Add a message without asking for an answer; see `Session.inject_message`."""
    if not message.parts:
        raise SessionError("an empty message cannot be added")
    if message.role is Role.TOOL or message.calls:
        raise SessionError(
            "tool calls and results belong together; run_tool adds both to the conversation"
        )
    if message.role is Role.ASSISTANT and not journal.view.items:
        raise SessionError("a conversation begins with the user's words")
    await journal.append(MessageAdded(message=message))


async def run_by_hand(kit: SessionState, name: str, arguments: str, *, said: str) -> ToolOutput:
    """Run a tool because a person asked for it, and put it into the conversation.

    It stands there as a request, a call and a result, so that every provider accepts it
    and a compaction treats it like any other tool output. Permissions are not consulted:
    the person is the one who would be asked.
    """
    call = ToolCall(call_id=new_call_id(), name=name, arguments=arguments)
    asked = await kit.journal.append(MessageAdded(message=user(said)))
    async with checkpointed(kit, asked, said):
        await kit.journal.append(MessageAdded(message=assistant(call)))
        outcome = None
        try:
            outcome = await run_call(kit, call, decided=True)
        finally:
            await commit_outcome(kit, call, outcome)
    kit.report_state()
    return outcome.output
