"""How full the context is: the one number that screen, trigger and guard share."""

from enum import StrEnum

from msgspec import Struct

from clew.core.ids import EntryId


class Status(StrEnum):
    """Where the used share stands against the thresholds."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"


class Basis(StrEnum):
    """Whether the number came from the provider or was worked out here."""

    EXACT = "exact"
    ESTIMATED = "estimated"


class Breakdown(Struct, frozen=True, kw_only=True):
    """Used tokens by what they are spent on; the fields add up to the whole."""

    system: int = 0
    tools: int = 0
    user: int = 0
    assistant: int = 0
    reasoning: int = 0
    tool_results: int = 0
    summary: int = 0


class ContextState(Struct, frozen=True, kw_only=True):
    """One reading of the context window."""

    max_tokens: int
    used_tokens: int
    status: Status
    basis: Basis
    breakdown: Breakdown

    @property
    def used_percentage(self) -> float:
        """Used share in percent, rounded to two places; above 100 when it does not fit."""
        return round(self.used_tokens / self.max_tokens * 100, 2)

    @property
    def remaining_percentage(self) -> float:
        """Free share in percent, never below zero."""
        return round(max(0.0, 100 - self.used_percentage), 2)


class LossReport(Struct, frozen=True, kw_only=True):
    """Where every entry of the view went: each is in exactly one of the four lists.

    None of them is gone: all stay in the journal, can be searched, and come back with
    an undo.
    """

    kept: tuple[EntryId, ...]
    """Sent on word for word."""
    summarised: tuple[EntryId, ...]
    """Left the view; the summary speaks for them."""
    cleared: tuple[EntryId, ...]
    """Still in the view, shortened to a marker or an excerpt."""
    archived: tuple[EntryId, ...]
    """Left the view with no word of them in the summary."""
    tokens_before: int
    tokens_after: int
    author: str
    """Who wrote the summary: `model` or `rules`."""
    why: str
    """One sentence: what set the compaction off, and how the way was chosen."""
