"""`Strategy`: the protocol that decides what leaves a view, its budget and its plan."""

from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from clew.context.items import Item
from clew.context.view import View
from clew.core.entries import Replacement

_TAIL, _WORDS, _SUMMARY = 0.35, 0.15, 0.50
_MOST_SUMMARY = 16_000
"""In tokens; a longer summary adds cost and little value."""


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
    words: int
    summary: int
    recent_turns: int = 3

    @classmethod
    def of(cls, view: View, *, tokens: int, recent_turns: int = 3, fill: float = 0.0) -> "Budget":
        """Divide the room of a request of `tokens` beside its system prompt and tools.

        A large request has more room than a summary needs; `fill` is the share of that spare
        room for the recent turns.
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
    """A plan that makes the view smaller."""

    dropped: tuple[Item, ...] = ()
    """Leave the view; a summary takes their place."""
    replaced: tuple[Replacement, ...] = ()
    """Stay in the view, truncated."""
    wording: Wording = Wording.MODEL
    summary_model: str | None = None
    """The model that writes the summary; None leaves the choice to the session."""
    why: str = ""


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
