"""The decision about a view before it is sent, and the protocol of whoever makes it."""

from typing import Protocol, TypeAlias

from msgspec import Struct

from clew.context.items import Item
from clew.context.policy import ContextPolicy
from clew.context.view import View
from clew.core.entries import Replacement


class Budget(Struct, frozen=True, kw_only=True):
    """How much of each kind a compaction may leave, in units of the view's estimate."""

    tail: int
    words: int
    summary: int
    recent_turns: int

    @classmethod
    def of(cls, policy: ContextPolicy, *, window: int, ratio: float) -> "Budget":
        """Turn shares of a window in tokens into units."""
        units = window / ratio
        return cls(
            tail=int(units * policy.tail_share),
            words=int(units * policy.words_share),
            summary=int(units * policy.summary_share),
            recent_turns=policy.preserve_recent_turns,
        )


class Reduce(Struct, frozen=True, kw_only=True):
    """Make the view smaller this way."""

    dropped: tuple[Item, ...]
    """Leave the view; a summary takes their place."""
    replaced: tuple[Replacement, ...] = ()
    """Stay, shortened."""
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

    def plan(self, view: View, budget: Budget) -> Plan:
        """Choose what to drop and what to shorten; never splits a call from its result."""
        ...
