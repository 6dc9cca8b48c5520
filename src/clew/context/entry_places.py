"""Where each entry of a journal stands now: in the view, summarised, removed or undone."""

from collections.abc import Iterable, Sequence

from clew.context.undone_entries import find_undone_entries
from clew.core.entries import Body, Cleared, Compacted, Entry, MessageAdded, ResultsCleared
from clew.core.ids import EntryId
from clew.core.timeline import EntryPlace, Standing

_IN_VIEW = EntryPlace(standing=Standing.IN_VIEW)
_RECORD = EntryPlace(standing=Standing.RECORD)


def find_places(entries: Sequence[Entry]) -> dict[EntryId, EntryPlace]:
    """Return the place of every entry.

    Those in view or cleared are the entries of `fold(entries).items`. The cost is linear: an
    entry leaves the view once.
    """
    gone = find_undone_entries(entries)
    places: dict[EntryId, EntryPlace] = {}
    shown: dict[EntryId, None] = {}
    for entry in entries:
        if not gone.counts(entry):
            by = gone.rewound.get(entry.id) or gone.undone[entry.id]
            places[entry.id] = EntryPlace(standing=Standing.UNDONE, by=by)
            continue
        _move_others(entry, places, shown)
        is_shown = _shows(entry.body)
        places[entry.id] = _IN_VIEW if is_shown else _RECORD
        if is_shown:
            shown[entry.id] = None
    return places


def _shows(body: Body) -> bool:
    """Return whether an entry puts a message into the view."""
    match body:
        case MessageAdded():
            return True
        case Compacted(summary=summary, inserted=inserted):
            return bool(summary or inserted)
        case _:
            return False


def _move_others(
    entry: Entry, places: dict[EntryId, EntryPlace], shown: dict[EntryId, None]
) -> None:
    """Record what an entry does to the ones before it; `shown` are those in the view."""
    match entry.body:
        case Compacted(dropped=dropped, replaced=replaced) as body:
            left = Standing.SUMMARISED if _shows(body) else Standing.REMOVED
            _remove(dropped, EntryPlace(standing=left, by=entry.id), places, shown)
            _clear((change.entry_id for change in replaced), entry.id, places, shown)
        case ResultsCleared(replaced=replaced):
            _clear((change.entry_id for change in replaced), entry.id, places, shown)
        case Cleared():
            _remove(tuple(shown), EntryPlace(standing=Standing.REMOVED, by=entry.id), places, shown)
        case _:
            pass


def _remove(
    targets: Iterable[EntryId],
    place: EntryPlace,
    places: dict[EntryId, EntryPlace],
    shown: dict[EntryId, None],
) -> None:
    for target in targets:
        if target in shown:
            del shown[target]
            places[target] = place


def _clear(
    targets: Iterable[EntryId],
    by: EntryId,
    places: dict[EntryId, EntryPlace],
    shown: dict[EntryId, None],
) -> None:
    for target in targets:
        if target in shown:
            places[target] = EntryPlace(standing=Standing.CLEARED, by=by)
