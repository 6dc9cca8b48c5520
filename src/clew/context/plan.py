"""`Strategy`: the protocol that decides what leaves a view, its budget and its plan."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from clew.context.items import Item, ItemKind, Items
from clew.context.lazy_list import lazy_property, set_known
from clew.context.view import View, shorten_item
from clew.core.entries import Replacement
from clew.core.ids import EntryId

_TAIL, _SUMMARY = 0.30, 0.68
_WORDS = 0.25
"""Share of the window for the user's words."""
_NOTES = 5
"""The notes of a model are this part of a summary: the digest says more per character."""
_QUOTED, _FRAME, _HEADINGS = 1.3, 6, 90
"""What a summary adds to the user's words: conclusions, a number for each, headings."""
MOST_SUMMARY = 16_000
"""In tokens; a longer summary adds cost and little value."""


_USER = ItemKind.USER


class Wording(StrEnum):
    """Who writes the summary of what is dropped."""

    MODEL = "model"
    """A model that can summarise; rules otherwise."""
    RULES = "rules"
    NOTICE = "notice"
    """One line that says how many messages were dropped."""


class Budget(Struct, frozen=True, kw_only=True):
    """What a compaction may leave, in units of the view's estimate."""

    limit: int
    """All messages together."""
    tail: int
    """The share of the newest messages; they get more if the summary needs less."""
    words: int
    """The user's words in the summary get at least this much, if they need it."""
    summary: int
    """The rest of the summary gets at most this much of what messages could use; what no message
    can use, it gets too."""
    recent_turns: int = 3
    """Turns that stay in a view that is compacted although it is within the limit."""
    is_hard: bool = False
    """True if nothing may exceed the limit: then even requests are truncated."""
    beside: str = ""
    """Text that will follow the summary, which need not quote it."""

    def quote(self, words: int) -> int:
        """Return what a summary needs to quote the user's words, as far as it may.

        `words` is the sum of `measure_words`.
        """
        return int(min(words, self.words) * _QUOTED) + _HEADINGS if words > 0 else 0

    @property
    def notes(self) -> int:
        """What a model is asked for at most; the digest by rules gets the rest of the summary."""
        return self.summary // _NOTES

    @classmethod
    def of(
        cls, view: View, *, tokens: int, window: int | None = None, recent_turns: int = 3
    ) -> "Budget":
        """Divide the room of a request of `tokens` beside its system prompt and tools.

        Args:
            view: The view, which converts tokens to units.
            tokens: The size of the request after a compaction.
            window: The size of the window; the user's words may take a quarter of it, even
                if the request becomes larger than `tokens`. None if `tokens` is a hard limit.
            recent_turns: Turns that stay in any case.
        """
        limit = max(0, view.units_for(tokens) - view.system_units - view.tool_units)
        words = limit // 2 if window is None else int(view.units_for(window) * _WORDS)
        return cls(
            limit=limit,
            tail=int(limit * _TAIL),
            words=words,
            summary=min(int(limit * _SUMMARY), view.units_for(MOST_SUMMARY)),
            recent_turns=recent_turns,
            is_hard=window is None,
        )


def measure_words(item: Item) -> int:
    """Return the units of a user message in a summary; 0 for other messages."""
    return item.units + _FRAME if item.kind is _USER else 0


def measure_all_words(items: Iterable[Item]) -> int:
    """Return the sum of `measure_words`."""
    return sum([item.units + _FRAME for item in items if item.kind is _USER])


def sum_words(items: Items) -> int:
    """Return the sum of `measure_words`, without a pass over the items."""
    return items.totals[ItemKind.USER] + items.turns * _FRAME


class Reduce(Struct, frozen=True, kw_only=True, dict=True):
    """A plan that makes the view smaller."""

    dropped: tuple[Item, ...] = ()
    """Leave the view; a summary takes their place."""
    replaced: tuple[Replacement, ...] = ()
    """Stay in the view, truncated."""
    wording: Wording = Wording.MODEL
    summary_model: str | None = None
    """The model that writes the summary; None leaves the choice to the session."""
    why: str = ""

    @lazy_property
    def dropped_entries(self) -> tuple[EntryId, ...]:
        """The entries of `dropped`, in order."""
        return tuple([item.entry_id for item in self.dropped])

    @lazy_property
    def dropped_ids(self) -> frozenset[EntryId]:
        """The entries of `dropped`."""
        return frozenset(self.dropped_entries)

    @lazy_property
    def dropped_units(self) -> int:
        """The size of `dropped`."""
        return sum([item.units for item in self.dropped])

    @lazy_property
    def dropped_words(self) -> int:
        """The sum of `measure_words` of `dropped`."""
        return measure_all_words(self.dropped)

    @lazy_property
    def _staying(self) -> Sequence[Item] | None:
        """What stays, if it is known without a pass over the view."""
        return None

    def know_staying(self, view: View, staying: Sequence[Item]) -> None:
        """Remember what stays of `view`, so that nothing needs a pass over what leaves."""
        set_known(
            self,
            _staying=staying,
            dropped_units=view.items.units() - sum([item.units for item in staying]),
            dropped_words=sum_words(view.items) - measure_all_words(staying),
        )
        count = len(self.dropped)
        if staying and staying[0] is view.items[count]:
            set_known(self, dropped_entries=tuple(view.items.ids[:count]))

    def list_staying(self, view: View) -> Sequence[Item]:
        """Return the items of `view` that stay, in their original text."""
        known = self._staying
        return view.items.without(self.dropped_ids) if known is None else known

    def count_staying(self, view: View) -> int:
        """Return the size of what the plan leaves in `view`, in units."""
        changes = {change.entry_id: change for change in self.replaced}
        changed = (item for item in view.items if item.entry_id in changes) if changes else ()
        saved = sum(
            item.units - shorten_item(view, item, changes[item.entry_id]).units
            for item in changed
            if item.entry_id not in self.dropped_ids
        )
        return view.items.units() - self.dropped_units - saved


class Stuck(Struct, frozen=True, kw_only=True):
    """No plan: nothing can leave without breaking the conversation."""

    why: str


Plan: TypeAlias = Reduce | Stuck


class Strategy(Protocol):
    """Chooses what leaves the view. Pure: the same view gives the same plan."""

    @property
    def name(self) -> str:
        """The name in journal and reports."""
        ...

    @property
    def clears_early(self) -> bool:
        """True to clear answered tool results before a compaction is due, if that saves cost."""
        ...

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:
        """Return whether to compact before the next call.

        Args:
            view: The present view.
            used: Tokens in the window.
            threshold: Tokens from which the policy compacts; None if it never does.
        """
        ...

    def target(self, window: int) -> int:
        """Return the size of a request after a compaction, in tokens."""
        ...

    def plan(self, view: View, budget: Budget) -> Plan:
        """Choose what to drop and what to truncate; never separates a call from its result."""
        ...
