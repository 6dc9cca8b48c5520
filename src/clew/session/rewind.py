"""Rewind: go back to an earlier point of the conversation, the files, or both.

Nothing is deleted. A rewind is an entry of its own, and files that it overwrites are kept, so
`undo` reverts it like a compaction.

A rewind concerns messages and files. Model, system prompt, tools, permission mode, pins and cost
stay as they are; pins of messages that are gone take effect again after an undo.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypedDict

import anyio
from anyio import to_thread
from msgspec import Struct

from clew.checkpoints.values import CheckpointSummary, FileVersions, RestoreResult
from clew.context.cuts import between_steps
from clew.context.view import fold
from clew.core.entries import Entry, Rewound
from clew.core.errors import ConfigError, SessionError
from clew.core.events import Warned
from clew.core.ids import EntryId
from clew.session.state import SessionState

if TYPE_CHECKING:
    from clew.checkpoints.file_checkpoints import FileCheckpoints
    from clew.checkpoints.manifest import Checkpoint

_MOST_NAMED = 20
_NOTHING = nullcontext()


class Rewind(Struct, frozen=True, kw_only=True):
    """What a rewind did."""

    entry: Entry | None
    """The entry of the rewind; None when there was nothing to do."""
    before: EntryId | None = None
    """The conversation ends before this entry; None if it was not changed."""
    files: RestoreResult = RestoreResult()


class RewindOptions(TypedDict, total=False):
    """What a rewind does."""

    code: bool
    """Restore files. Default: True."""
    conversation: bool
    """Remove messages from the view. Default: True."""
    force: bool
    """Also overwrite files that other programs have changed since. Default: False."""
    outside: bool
    """Also restore files outside the project. Default: False."""


async def rewind(state: SessionState, entry_id: EntryId, options: RewindOptions) -> Rewind:
    """Go back to before an entry, or to the last place before it that is a valid end.

    The conversation alone goes back to where no tool call waits for its result. Files are kept
    per turn, so with files the whole turn is reverted. A file that cannot be restored does not
    stop the rest: the result names it, and the rewind can be repeated.

    Raises:
        ConfigError: The session keeps no checkpoints.
        SessionError: There is no such entry, or its checkpoint was deleted.
        StoreError: Nothing was changed.
    """
    code, conversation = options.get("code", True), options.get("conversation", True)
    if state.journal.entry(entry_id) is None:
        raise SessionError(f"there is no entry #{entry_id} in this session")
    if not code and not conversation:
        raise SessionError("a rewind needs code, conversation or both")
    place, files = entry_id, RestoreResult()
    with anyio.CancelScope(shield=True):
        if code:
            chosen = await to_thread.run_sync(_require_checkpoints(state).since, entry_id)
            place = min([entry_id, *(turn.first for turn in chosen)])
            files = await _restore_files(state, chosen, options)
        if not conversation:
            return await _rewind_files(state, files)
        place = find_cut_before(state.journal.entries, place)
        entry = await state.journal.append(Rewound(before=place, files=files.restored))
        state.publish_todos()
        state.report_context()
    return Rewind(entry=entry, before=place, files=files)


def find_cut_before(entries: Sequence[Entry], entry_id: EntryId) -> EntryId:
    """Return the last entry, up to that one, before which no call waits for its result."""
    items = fold(entry for entry in entries if entry.id < entry_id).items
    cut = between_steps(items)[-1]
    return entry_id if cut == len(items) else items[cut].entry_id


async def undo_restore(state: SessionState, entry: Entry) -> None:
    """Restore the files that a rewind replaced, before it is undone."""
    if not isinstance(entry.body, Rewound) or not entry.body.files:
        return
    if state.checkpoints is None:
        state.emit(Warned("files are not restored: this session keeps no checkpoints now"))
        return
    chosen = await to_thread.run_sync(state.checkpoints.of_rewind, entry.id)
    if not chosen:
        state.emit(Warned("files are not restored: the checkpoint of this rewind was deleted"))
        return
    files = await _restore_files(state, chosen, RewindOptions(outside=True))
    for skip in files.skipped:
        state.emit(Warned(f"{skip.path} is not restored: {skip.why}"))
    if entry.body.before is None:
        _remind(state, files)


async def list_checkpoints(state: SessionState) -> list[CheckpointSummary]:
    """Return the checkpoints of a session, oldest first."""
    if state.checkpoints is None:
        return []
    return await to_thread.run_sync(state.checkpoints.summaries)


async def list_changes(state: SessionState) -> list[FileVersions]:
    """Return the files that the session changed, before its first change and now.

    Raises:
        ConfigError: The session keeps no checkpoints.
        StoreUnavailable: The checkpoints cannot be read.
    """
    return await to_thread.run_sync(_require_checkpoints(state).changes)


def record_checkpoint(
    state: SessionState, asked: Entry, label: str
) -> AbstractAsyncContextManager[None]:
    """Keep a copy of each file that the block changes, as the checkpoint of the prompt `asked`."""
    if state.checkpoints is None:
        return _NOTHING
    return _record_files(state, state.checkpoints, asked, label)


@asynccontextmanager
async def _record_files(
    state: SessionState, keeper: "FileCheckpoints", asked: Entry, label: str
) -> AsyncIterator[None]:
    await to_thread.run_sync(keeper.begin, asked.id, label)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            last = state.journal.entries[-1].id
            for note in await to_thread.run_sync(keeper.seal, last):
                state.emit(Warned(note))


def _require_checkpoints(state: SessionState) -> "FileCheckpoints":
    if state.checkpoints is None:
        raise ConfigError(
            "this session keeps no checkpoints: set the option `checkpoints` to a folder, "
            "or rewind the conversation alone (`code=False`)"
        )
    return state.checkpoints


async def _restore_files(
    state: SessionState, chosen: "Sequence[Checkpoint]", options: RewindOptions
) -> RestoreResult:
    return await to_thread.run_sync(
        partial(
            _require_checkpoints(state).restore,
            chosen,
            entry=EntryId(state.journal.entries[-1].id + 1),
            force=options.get("force", False),
            outside=options.get("outside", False),
        )
    )


async def _rewind_files(state: SessionState, files: RestoreResult) -> Rewind:
    if not files.restored:
        return Rewind(entry=None, files=files)
    entry = await state.journal.append(Rewound(files=files.restored))
    _remind(state, files)
    return Rewind(entry=entry, files=files)


def _remind(state: SessionState, files: RestoreResult) -> None:
    """Tell the model with the next prompt that files have changed."""
    if not files.restored:
        return
    named = ", ".join(files.restored[:_MOST_NAMED])
    more = len(files.restored) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    state.reminders.append(
        f"The user set these files back to an earlier state: {named}{rest}. "
        "Read them again before you rely on their content."
    )
