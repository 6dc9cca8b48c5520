"""The context window of a session in this process: implements `ContextClient`."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable

from clew.context.standing import find_places
from clew.context.timeline import TimelineLog
from clew.context.triggers import find_threshold
from clew.context.view import View, make_summary
from clew.core.context_state import ContextState
from clew.core.entries import Compacted, Entry, MessageAdded
from clew.core.ids import EntryId
from clew.core.timeline import EntryPlace, TimelineMark, TimelinePoint
from clew.extensions.commands.entries import describe_entries, entry_author
from clew.sdk.context_client import (
    ENTRIES_LIMIT,
    START,
    TIMELINE_LIMIT,
    ContextTimeline,
    JournalEntry,
    WindowThresholds,
)
from clew.session.session import Session


class LocalContext:
    """Implements `ContextClient` for a session in this process.

    It keeps the timeline and the standings that it computed, and continues them as the journal
    grows.
    """

    def __init__(self, session: Callable[[], Awaitable[Session]]) -> None:
        self._session = session
        self._log: TimelineLog | None = None
        self._places: tuple[int, dict[EntryId, EntryPlace]] = (0, {})

    async def state(self) -> ContextState:
        """Return how full the window is."""
        return (await self._session()).get_context_state()

    async def timeline(
        self, *, after: EntryId = START, limit: int = TIMELINE_LIMIT
    ) -> ContextTimeline:
        """Return how full the window was after each answer, and what changed it."""
        session = await self._session()
        journal = session.journal
        items = self._read_timeline(session)
        first = bisect_right(items, after, key=lambda item: item.entry_id)
        page = items[first : first + max(0, limit)]
        has_more = first + len(page) < len(items)
        newest = journal.entries[-1].id if journal.entries else START
        if has_more:
            newest = page[-1].entry_id if page else after
        return ContextTimeline(
            points=tuple(item for item in page if isinstance(item, TimelinePoint)),
            marks=tuple(item for item in page if isinstance(item, TimelineMark)),
            thresholds=_list_thresholds(session),
            undoable=journal.view.undoable,
            last_entry=newest,
            has_more=has_more,
        )

    async def entries(
        self, *, after: EntryId = START, limit: int = ENTRIES_LIMIT
    ) -> list[JournalEntry]:
        """Return entries of the journal, with where each stands now."""
        session = await self._session()
        entries, view = session.journal.entries, session.journal.view
        start = bisect_right(entries, after, key=lambda entry: entry.id)
        rows = describe_entries(entries, start, start + max(0, limit))
        places, sizes = self._find_places(session), _measure_shown(view)
        return [
            _make_row(entry, text, view, place=places[entry.id], units=sizes.get(entry.id, 0))
            for entry, text in rows
        ]

    def _read_timeline(self, session: Session) -> list[TimelinePoint | TimelineMark]:
        journal = session.journal
        log = self._log
        if log is None or not log.continues(journal.entries, journal.view.meter):
            log = self._log = TimelineLog(meter=journal.view.meter)
        log.read(journal.entries)
        return log.items

    def _find_places(self, session: Session) -> dict[EntryId, EntryPlace]:
        count, places = self._places
        entries = session.journal.entries
        if count != len(entries):
            places = find_places(entries)
            self._places = (len(entries), places)
        return places


def _list_thresholds(session: Session) -> WindowThresholds:
    view, policy = session.journal.view, session.state.policy
    window = view.setup.model.window
    return WindowThresholds(
        warn=int(policy.thresholds.warn * window),
        compact=find_threshold(view, policy, window=window),
        block=int(policy.thresholds.block * window),
    )


def _measure_shown(view: View) -> dict[EntryId, int]:
    """Return the units of each entry in the view."""
    found: dict[EntryId, int] = {}
    for item in view.items:
        found[item.entry_id] = found.get(item.entry_id, 0) + item.units
    return found


def _make_row(
    entry: Entry, text: str, view: View, *, place: EntryPlace, units: int
) -> JournalEntry:
    body, rate = entry.body, view.calibration.rate
    return JournalEntry(
        id=entry.id,
        at=entry.at,
        kind=str(body.__struct_config__.tag),
        role=str(body.message.role) if isinstance(body, MessageAdded) else "",
        author=entry_author(body),
        text=text,
        tokens=round(_measure(view, entry) * rate),
        tokens_in_view=round(units * rate),
        standing=place.standing,
        by=place.by,
        pinned=entry.id in view.pinned,
    )


def _measure(view: View, entry: Entry) -> int:
    """Return the units of what an entry adds to a view."""
    match entry.body:
        case MessageAdded(message=message):
            return view.measure(entry.id, message).units
        case Compacted(summary=str(summary)) if summary:
            return make_summary(view, entry.id, summary).units
        case _:
            return 0
