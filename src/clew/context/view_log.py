"""The views of a journal one after another, without folding it again for every undo."""

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from clew.context.estimate import Meter, text_units
from clew.context.undone_entries import find_undone_entries
from clew.context.view import View, continue_fold
from clew.core.entries import (
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    ResultsCleared,
    Rewound,
    Undone,
)
from clew.core.ids import EntryId

_INTERVAL = 128
"""Entries after which a view is kept."""
_UNDOABLE = (Compacted, ResultsCleared, Cleared)


class _KeptView(Struct, frozen=True, kw_only=True):
    """The view before the entry at an index."""

    index: int
    view: View
    message_id: EntryId
    """The last message before it."""


class ViewLog:
    """Computes the view after each entry of a journal, as the journal grows.

    `fold` gives the same views. An undo or a rewind reads only the entries since the change that
    it takes back: a view is kept before each change that can be undone, and at intervals.
    """

    def __init__(self, *, meter: Meter = text_units) -> None:
        self.view = View(meter=meter)
        self._message_id = EntryId(0)
        self._kept = [_KeptView(index=0, view=self.view, message_id=EntryId(0))]
        self._withdrawals: list[Entry] = []
        """All undos and rewinds."""

    def apply(self, entries: Sequence[Entry], index: int) -> View:
        """Return the view after the entry at `index`; call it for each index in order."""
        entry = entries[index]
        body = entry.body
        if isinstance(body, Undone | Rewound):
            self._withdrawals.append(entry)
            self.view = self._fold_again(entries, index)
            return self.view
        if index - self._kept[-1].index >= _INTERVAL or isinstance(body, _UNDOABLE):
            self._keep(index)
        if isinstance(body, MessageAdded):
            self._message_id = entry.id
        self.view = self.view.apply(entry)
        return self.view

    def _keep(self, index: int) -> None:
        kept = _KeptView(index=index, view=self.view, message_id=self._message_id)
        self._kept.append(kept)

    def _fold_again(self, entries: Sequence[Entry], index: int) -> View:
        start = self._find_start(entries)
        later = entries[start.index : index + 1]
        earlier = [entry for entry in self._withdrawals if entry.id < later[0].id]
        gone = find_undone_entries([*earlier, *later])
        is_undone = start.message_id in gone.undone
        return continue_fold(start.view, later, gone, is_prompt_undone=is_undone)

    def _find_start(self, entries: Sequence[Entry]) -> _KeptView:
        """Return the newest kept view before which no entry was undone, or put back, since."""
        spans = _find_spans(self._withdrawals)
        place = len(self._kept) - 1
        while place:
            first = entries[self._kept[place].index].id
            lows = [low for low, high in spans if low < first <= high]
            if not lows:
                break
            older = bisect_right(self._kept, min(lows), key=lambda kept: entries[kept.index].id)
            place = max(0, older - 1)
        return self._kept[place]


def _find_spans(withdrawals: Sequence[Entry]) -> list[tuple[EntryId, EntryId]]:
    """Return the undos and rewinds in force, each with the first entry that it takes back."""
    gone = find_undone_entries(withdrawals)
    spans = list(gone.undone.items())
    for entry in withdrawals:
        match entry.body:
            case Rewound(before=int() as before) if gone.counts(entry):
                spans.append((before, entry.id))
            case _:
                pass
    return spans
