"""Going back to an earlier point: the conversation, the files, or both.

Nothing is deleted. The conversation goes back by an entry of its own, and files that are
overwritten are kept, so `undo` takes a rewind back like a compaction.

What is not said goes on as it is now: model, system prompt, tools and permission mode are how
the session works, not what was said in it. Pins stay too; those of messages that are gone wait
for an undo. Money that was spent stays spent.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypedDict

import anyio
from anyio import to_thread
from msgspec import Struct

from clew.checkpoints.values import CheckpointSummary, RestoreResult
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


class Rewind(Struct, frozen=True, kw_only=True):
    """What a rewind did."""

    entry: Entry | None
    """The entry that tells of it; None when there was nothing to do."""
    before: EntryId | None = None
    """The conversation is what it was before this entry; None if it was left alone."""
    files: RestoreResult = RestoreResult()


class Wish(TypedDict, total=False):
    """What a rewind shall do."""

    code: bool
    """Restore files; on unless switched off."""
    conversation: bool
    """Take back what was said; on unless switched off."""
    force: bool
    """Also overwrite files that somebody else changed since."""
    outside: bool
    """Also restore files outside the project."""


async def rewind(kit: SessionState, entry_id: EntryId, wish: Wish) -> Rewind:
    """Go back to before an entry, or to the last place before it where nothing is cut in two.

    Words alone go back to where no tool call waits for its result. Files are kept by turn, so
    with them the whole turn is taken back. Files that cannot be restored do not hold up the
    rest: the result names them, and the same rewind can be asked for again.

    Raises:
        ConfigError: The session keeps no files.
        SessionError: There is no such entry, or its files are no longer kept.
        StoreError: Nothing was changed.
    """
    code, conversation = wish.get("code", True), wish.get("conversation", True)
    if kit.journal.entry(entry_id) is None:
        raise SessionError(f"there is no entry #{entry_id} in this session")
    if not code and not conversation:
        raise SessionError("a rewind is of the code, the conversation, or both")
    place, files = entry_id, RestoreResult()
    with anyio.CancelScope(shield=True):
        if code:
            chosen = await to_thread.run_sync(_keeper(kit).since, entry_id)
            place = min([entry_id, *(turn.first for turn in chosen)])
            files = await _take_back(kit, chosen, wish)
        if not conversation:
            return await _code_alone(kit, files)
        place = whole_before(kit.journal.entries, place)
        entry = await kit.journal.append(Rewound(before=place, files=files.restored))
        kit.report_state()
    return Rewind(entry=entry, before=place, files=files)


def whole_before(entries: Sequence[Entry], entry_id: EntryId) -> EntryId:
    """Return the last entry, up to that one, before which no call waits for its result."""
    items = fold(entry for entry in entries if entry.id < entry_id).items
    cut = between_steps(items)[-1]
    return entry_id if cut == len(items) else items[cut].entry_id


async def unrestore(kit: SessionState, entry: Entry) -> None:
    """Bring back the files that a rewind had replaced, as it is about to be undone."""
    if not isinstance(entry.body, Rewound) or not entry.body.files:
        return
    if kit.checkpoints is None:
        kit.emit(Warned("files stay as they are: this session keeps no checkpoints now"))
        return
    chosen = await to_thread.run_sync(kit.checkpoints.of_rewind, entry.id)
    if not chosen:
        kit.emit(Warned("files stay as they are: what this rewind replaced is no longer kept"))
        return
    files = await _take_back(kit, chosen, Wish(outside=True))
    for skip in files.skipped:
        kit.emit(Warned(f"{skip.path} stays as it is: {skip.why}"))
    if entry.body.before is None:
        _tell(kit, files)


async def checkpoints(kit: SessionState) -> list[CheckpointSummary]:
    """Return the checkpoints of a session, oldest first; none if it keeps none."""
    if kit.checkpoints is None:
        return []
    return await to_thread.run_sync(kit.checkpoints.summaries)


@asynccontextmanager
async def checkpointed(kit: SessionState, asked: Entry, words: str) -> AsyncIterator[None]:
    """Keep each file that the `with` block changes, as the checkpoint of the prompt `asked`."""
    keeper = kit.checkpoints
    if keeper is None:
        yield
        return
    await to_thread.run_sync(keeper.begin, asked.id, words)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            last = kit.journal.entries[-1].id
            for note in await to_thread.run_sync(keeper.seal, last):
                kit.emit(Warned(note))


def _keeper(kit: SessionState) -> "FileCheckpoints":
    if kit.checkpoints is None:
        raise ConfigError(
            "this session keeps no checkpoints: give it a folder for them (`checkpoints`), "
            "or rewind the conversation alone (`code=False`)"
        )
    return kit.checkpoints


async def _take_back(
    kit: SessionState, chosen: "Sequence[Checkpoint]", wish: Wish
) -> RestoreResult:
    return await to_thread.run_sync(
        partial(
            _keeper(kit).restore,
            chosen,
            entry=EntryId(kit.journal.entries[-1].id + 1),
            force=wish.get("force", False),
            outside=wish.get("outside", False),
        )
    )


async def _code_alone(kit: SessionState, files: RestoreResult) -> Rewind:
    if not files.restored:
        return Rewind(entry=None, files=files)
    entry = await kit.journal.append(Rewound(files=files.restored))
    _tell(kit, files)
    return Rewind(entry=entry, files=files)


def _tell(kit: SessionState, files: RestoreResult) -> None:
    """Let the model know, with the next prompt, that files are not as it left them."""
    if not files.restored:
        return
    named = ", ".join(files.restored[:_MOST_NAMED])
    more = len(files.restored) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    kit.reminders.append(
        f"The user set these files back to an earlier state: {named}{rest}. "
        "Read them again before you rely on what they hold."
    )
