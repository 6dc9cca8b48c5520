"""The decision about a view before it is sent, and the protocol of whoever makes it."""

from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from clew.context.items import Item
from clew.context.view import View
from clew.core.entries import Replacement

_TAIL, _WORDS, _SUMMARY = 0.35, 0.15, 0.50
_MOST_SUMMARY = 16_000
"""In tokens; beyond this more words about the past add cost and little else."""


class Wording(StrEnum):
    """Who writes the words that take the place of what is dropped."""

    MODEL = "model"
    """A model, where one can be trusted with it; rules otherwise."""
    RULES = "rules"
    NOTICE = "notice"
    """One line that says that something was set aside."""


class Budget(Struct, frozen=True, kw_only=True):
    """How much a compaction may leave, in units of the view's estimate."""

    limit: int
    """All messages together."""
    tail: int
    words: int
    summary: int
    recent_turns: int = 3

    @classmethod
    def of(cls, view: View, *, tokens: int, recent_turns: int = 3, fill: float = 0.0) -> "Budget":
        """Divide what a request of `tokens` may hold besides its system prompt and tools.

        A large request has more room than a summary needs; `fill` is the share of the rest
        that the recent turns get.
        """
        limit = max(0, view.units_for(tokens) - view.system_units - view.tool_units)
        summary = min(int(limit * _SUMMARY), view.units_for(_MOST_SUMMARY))
        spare = limit * _SUMMARY - summary
        return cls(
            limit=limit,
            tail=int(limit * _TAIL + spare * fill),
            words=int(limit * _WORDS),
            summary=summary,
            recent_turns=recent_turns,
        )


class Reduce(Struct, frozen=True, kw_only=True):
    """Make the view smaller this way."""

    dropped: tuple[Item, ...] = ()
    """Leave the view; words take their place."""
    replaced: tuple[Replacement, ...] = ()
    """Stay, shortened."""
    wording: Wording = Wording.MODEL
    summary_model: str | None = None
    """The model that writes the summary; None leaves the choice to the session."""
    why: str = ""


class Stuck(Struct, frozen=True, kw_only=True):
    """Nothing may go without breaking the conversation or losing what must be kept."""

    why: str


Plan: TypeAlias = Reduce | Stuck


class Strategy(Protocol):
    """A way of choosing what leaves the view. Pure: the same view gives the same plan."""

    @property
    def name(self) -> str:
        """How journal and reports call it."""
        ...

    @property
    def clears_early(self) -> bool:
        """True when answered tool results may be cleared before it is due, where that pays."""
        ...

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:
        """Say whether to compact before the next call.

        `used` tokens are in the window; `threshold` is where the session's policy says to
        compact, or None when it leaves that to others.
        """
        ...

    def target(self, window: int) -> int:
        """Return how many tokens a request should have after a compaction."""
        ...

    def plan(self, view: View, budget: Budget) -> Plan:
        """Choose what to drop and what to shorten; never splits a call from its result."""
        ...
