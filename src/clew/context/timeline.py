"""The context window over time: how full it was after each answer, and what changed it.

Every number is computed from the entries up to that point, so a later undo does not change it.
"""

from collections.abc import Sequence

from clew.context.estimate import Meter, text_units
from clew.context.view import View
from clew.context.view_log import ViewLog
from clew.context.window_state import break_down, count_tokens, is_counted
from clew.core.context_state import Basis
from clew.core.entries import (
    Body,
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    ReasoningDropped,
    ResultsCleared,
    Rewound,
    SetupChanged,
    Undone,
)
from clew.core.ids import EntryId
from clew.core.messages import Role
from clew.core.timeline import MarkKind, TimelineMark, TimelinePoint


class TimelineLog:
    """The points and marks of a journal; it reads each entry once, as the journal grows."""

    def __init__(self, *, meter: Meter = text_units) -> None:
        self._views = ViewLog(meter=meter)
        self._count = 0
        self._newest: Entry | None = None
        self.items: list[TimelinePoint | TimelineMark] = []
        """In the order of the journal; each entry has at most one."""

    def continues(self, entries: Sequence[Entry], meter: Meter) -> bool:
        """Return whether `entries` begin with those that were read, measured by `meter`."""
        if meter is not self._views.view.meter or len(entries) < self._count:
            return False
        return not self._count or entries[self._count - 1] == self._newest

    def read(self, entries: Sequence[Entry]) -> None:
        """Read the entries of a journal that were not read yet."""
        for index in range(self._count, len(entries)):
            entry, before = entries[index], self._views.view
            after = self._views.apply(entries, index)
            if (item := _make_item(entry, before, after)) is not None:
                self.items.append(item)
            self._newest = entry
        self._count = len(entries)


def _make_item(entry: Entry, before: View, after: View) -> TimelinePoint | TimelineMark | None:
    match entry.body:
        case MessageAdded(message=message) as body:
            return _make_point(entry, body, after) if message.role is Role.ASSISTANT else None
        case SetupChanged(model=model):
            is_new = bool(before.setup.model.name) and before.setup.model != model
            return _make_mark(entry, MarkKind.MODEL, before, after) if is_new else None
        case body:
            kind = find_mark_kind(body)
            return _make_mark(entry, kind, before, after) if kind is not None else None


def _make_point(entry: Entry, body: MessageAdded, view: View) -> TimelinePoint:
    model, tokens = view.setup.model, count_tokens(view)
    return TimelinePoint(
        entry_id=entry.id,
        at=entry.at,
        model=model.name,
        window=model.window,
        tokens=tokens,
        basis=Basis.EXACT if is_counted(view) else Basis.ESTIMATED,
        breakdown=break_down(view, tokens),
        usage=body.usage,
        cost=body.cost,
    )


def find_mark_kind(body: Body) -> MarkKind | None:
    """Return how a change of the view is marked; None for other entries."""
    match body:
        case Compacted():
            return MarkKind.COMPACTION
        case ResultsCleared():
            return MarkKind.RESULTS_CLEARED
        case ReasoningDropped():
            return MarkKind.REASONING_DROPPED
        case Cleared():
            return MarkKind.CLEAR
        case Undone():
            return MarkKind.UNDO
        case Rewound(before=int()):
            return MarkKind.REWIND
        case _:
            return None


def _make_mark(entry: Entry, kind: MarkKind, before: View, after: View) -> TimelineMark:
    body, is_model = entry.body, kind is MarkKind.MODEL
    reported = _find_reported(body)
    return TimelineMark(
        entry_id=entry.id,
        at=entry.at,
        kind=kind,
        tokens_before=reported[0] if reported else count_tokens(before),
        tokens_after=reported[1] if reported else count_tokens(after),
        trigger=body.trigger if isinstance(body, Compacted | ResultsCleared) else "",
        target=_find_target(body),
        model=after.setup.model.name if is_model else "",
        window=after.setup.model.window if is_model else 0,
    )


def _find_reported(body: Body) -> tuple[int, int] | None:
    """Return the tokens before and after that an entry reports itself."""
    match body:
        case Compacted(report=report):
            return report.tokens_before, report.tokens_after
        case ResultsCleared(tokens_before=before, tokens_after=after) if before:
            return before, after
        case _:
            return None


def _find_target(body: Body) -> EntryId | None:
    match body:
        case Undone(target=target):
            return target
        case Rewound(before=before):
            return before
        case _:
            return None
