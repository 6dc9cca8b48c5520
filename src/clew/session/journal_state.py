"""What is computed from the entries of a journal: view, spending and the ids of its calls.

`clew.session.journal_snapshot` computes the same from a snapshot, faster.
"""

from collections.abc import Sequence

from msgspec import Struct

from clew.context.estimate import Meter
from clew.context.view import View, fold
from clew.core.entries import Body, Entry, MessageAdded, total_spending
from clew.core.ids import CallId, EntryId
from clew.core.messages import Role
from clew.core.usage import Spending
from clew.stores.stored_entries import StoredEntries

_SELDOM = 512
_SHARE = 8


class JournalState(Struct, frozen=True, kw_only=True):
    """What is computed from the entries of a journal."""

    view: View
    spending: Spending
    call_ids: set[CallId]
    kept: int = 0
    """The number of entries in the snapshot that it was computed from."""


def load_state(entries: Sequence[Entry], meter: Meter) -> JournalState:
    """Compute the state of a journal from all of its entries."""
    return JournalState(
        view=fold(entries, meter=meter),
        spending=total_spending(entries),
        call_ids={call_id for entry in entries for call_id in call_ids_of(entry.body)},
    )


def call_ids_of(body: Body) -> list[CallId]:
    """Return the ids of the tool calls in an entry."""
    if not isinstance(body, MessageAdded) or body.message.role is not Role.ASSISTANT:
        return []
    return [call.call_id for call in body.message.calls]


def find_damaged(entries: Sequence[Entry], view: View) -> list[EntryId]:
    """Read everything in a view; returns the entries that are damaged."""
    if not isinstance(entries, StoredEntries):
        return []
    known = len(entries.torn)
    list(view.items)
    return entries.torn[known:]


def is_snapshot_due(count: int, kept: int) -> bool:
    """Return True when an eighth of `count` entries came after the last snapshot, which has `kept`.

    A snapshot is as long as the journal, so its cost per entry stays the same.
    """
    return count - kept >= max(_SELDOM, count // _SHARE)
