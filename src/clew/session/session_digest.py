"""The digest of another session: what was asked, done and found there."""

from collections.abc import Sequence

from anyio import to_thread

from clew.context.digest.rule_summary import prepare_digest
from clew.context.view import fold
from clew.core.entries import Entry
from clew.core.ids import SessionId
from clew.core.text import one_line
from clew.stores.protocol import Store

_TITLE = 80


async def write_session_digest(store: Store, session_id: SessionId, *, max_chars: int) -> str:
    """Return a digest of a stored session of at most that many characters.

    Raises:
        StoreError: There is no such session, or it cannot be read.
    """
    record = await store.record(session_id)
    _, entries = await store.load(session_id)
    heading = f"Digest of session {record.id} ({one_line(record.heading, _TITLE)}):"
    body = await to_thread.run_sync(_write, entries, max_chars - len(heading) - 1)
    return f"{heading}\n{body}"


def _write(entries: Sequence[Entry], max_chars: int) -> str:
    view = fold(entries)
    if not view.items:
        return "nothing was said in this session"
    parts = [view.notes] if view.notes else []
    room = max(0, max_chars - sum(map(len, parts)))
    digest = prepare_digest(view.list_conversation()).write_chars(room)
    return "\n\n".join([*parts, digest])[:max_chars]
