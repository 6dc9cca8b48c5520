"""The state of the context window, and the report of a change that made the view smaller.

`ContextState` is the one number that the status bar, `/context`, automatic compaction and
the capacity guard share. `clew.context.window_state` computes it.
"""

from enum import StrEnum

from msgspec import Struct

from clew.core.ids import EntryId
from clew.core.usage import Usage


class Status(StrEnum):
    """The used share compared with the thresholds."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"


class Basis(StrEnum):
    """Whether the number is the provider's count or an estimate."""

    EXACT = "exact"
    ESTIMATED = "estimated"


class Breakdown(Struct, frozen=True, gc=False, kw_only=True):
    """Used tokens by category; the fields add up to the total."""

    system: int = 0
    tools: int = 0
    user: int = 0
    assistant: int = 0
    reasoning: int = 0
    tool_results: int = 0
    summary: int = 0


class ContextState(Struct, frozen=True, gc=False, kw_only=True):
    """How full the context window is."""

    max_tokens: int
    used_tokens: int
    status: Status
    basis: Basis
    breakdown: Breakdown

    @property
    def used_percentage(self) -> float:
        """Used share in percent, rounded to two places; above 100 if it does not fit."""
        return round(self.used_tokens / self.max_tokens * 100, 2)

    @property
    def remaining_percentage(self) -> float:
        """Free share in percent, never below zero."""
        return round(max(0.0, 100 - self.used_percentage), 2)


class SummaryCheck(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a second call found missing in a summary; see `ContextPolicy.verify_summary`."""

    added: tuple[str, ...] = ()
    """Points that the summary now contains."""
    left_out: int = 0
    """Points that were found, but for which there was no room."""
    usage: Usage = Usage()
    cost: float | None = None
    """US dollars; None if the price is unknown."""
    fault: str = ""
    """Why the check is incomplete; empty if it is complete."""


class SummaryAttempt(Struct, frozen=True, gc=False, kw_only=True):
    """One try to write the summary of a compaction."""

    author: str
    """The name of the model, or `rules`."""
    outcome: str
    """`used`, or why the summary was not used."""
    tokens: int = 0
    """Tokens read and written, as the provider counted them."""
    cost: float | None = 0.0
    """US dollars; None if the price or the count is unknown."""


class LossReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a compaction or a clearing of results did to each entry of the view.

    Each entry is in exactly one of the four lists.

    Nothing is lost: all entries stay in the journal, can be searched, and return with an
    undo.
    """

    kept: tuple[EntryId, ...]
    """Still sent word for word."""
    summarised: tuple[EntryId, ...]
    """Left the view; the summary covers them."""
    cleared: tuple[EntryId, ...]
    """Still in the view, truncated to a marker or an excerpt."""
    archived: tuple[EntryId, ...]
    """Left the view without a summary."""
    tokens_before: int
    tokens_after: int
    author: str
    """Who wrote the summary: `model`, `rules` or `custom`."""
    why: str
    """One sentence: what triggered the compaction, and why it took this form."""
    check: SummaryCheck | None = None
    """None if the summary was not checked."""
    attempts: tuple[SummaryAttempt, ...] = ()
    """Every try to write the summary, in order; the last one was used. Empty if none was needed
    and in reports of 0.1.0."""
