"""How often a session may compact, and who may write the summary: the guard against thrashing.

If the request, pins and system prompt fill most of the window, every compaction gains little and
the window is full again after a few calls. A summary by a model would then cost more than the work
itself, and the next one replaces it at once. So a model's summary has to be earned by calls since
the last one, and to last; otherwise rules write it, which costs nothing. A window that stays full
in spite of compactions ends the run.
"""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

CALLS_PER_SUMMARY = 4
"""Model calls of the conversation between two summaries by a model."""
SUMMARY_SHARE = 0.25
"""Tokens that summaries may take, as a share of the tokens of the conversation's calls."""
FEW_CALLS = 2
"""A window that is full again after this many calls is refilling."""
LITTLE_GAIN = 0.2
"""A compaction that frees less than this share of the view leaves no room to work in."""
MOST_SMALL_GAINS = 2
"""Compactions of little gain in a row after which a model's summary is not worth its price."""
MOST_REFILLS = 5
"""Refills in a row, each after a compaction of little gain, that end a run."""


class Tier(StrEnum):
    """What a compaction may use."""

    MODEL = "model"
    """A model may write the summary."""
    RULES = "rules"
    """Rules write the summary; no model call."""
    STOP = "stop"
    """No further compaction: the window is full again at once."""


class CompactionPace(Struct, frozen=True, kw_only=True):
    """What happened since the last compactions. Each method returns the next value."""

    calls: int | None = None
    """Calls since the last compaction; None before the first one."""
    summary_calls: int | None = None
    """Calls since a model last wrote a summary, or tried to; None if none ever did."""
    debt: float = 0.0
    """Tokens of summaries that calls have not paid for yet."""
    refills: int = 0
    """Refills in a row with little gain, since the last prompt."""
    small_gains: int = 0
    """Compactions in a row that freed little."""
    warned: bool = False
    """True once the user was told in this run that the window refills."""

    @property
    def is_refilling(self) -> bool:
        """True if the window was full again within a few calls."""
        return self.calls is not None and self.calls <= FEW_CALLS

    @property
    def is_crowded(self) -> bool:
        """True if what must stay leaves so little room that compactions gain little."""
        return self.small_gains >= MOST_SMALL_GAINS

    def choose_tier(self) -> Tier:
        """Decide what an automatic compaction may use now."""
        if self.is_refilling and self.refills >= MOST_REFILLS:
            return Tier.STOP
        if self.summary_calls is None:
            return Tier.MODEL
        lasts = not self.is_refilling and not self.is_crowded
        earned = lasts and self.summary_calls >= CALLS_PER_SUMMARY and self.debt <= 0
        return Tier.MODEL if earned else Tier.RULES

    def add_prompt(self) -> "CompactionPace":
        """Count refills from here on: a new prompt may continue after a run that was stopped."""
        return replace(self, refills=0, warned=False)

    def add_call(self, tokens: int) -> "CompactionPace":
        """Record a model call of the conversation that read `tokens`."""
        calls = None if self.calls is None else self.calls + 1
        is_normal = calls is not None and calls > FEW_CALLS
        return replace(
            self,
            calls=calls,
            summary_calls=None if self.summary_calls is None else self.summary_calls + 1,
            debt=max(0.0, self.debt - tokens * SUMMARY_SHARE),
            refills=0 if is_normal else self.refills,
        )

    def add_summary(self, tokens: int) -> "CompactionPace":
        """Record `tokens` that models read and wrote for a summary, whether or not it was used."""
        if not tokens:
            return self
        return replace(self, summary_calls=0, debt=self.debt + tokens)

    def add_compaction(self, *, gain: float) -> "CompactionPace":
        """Record a compaction that freed the share `gain` of the view."""
        is_small = gain < LITTLE_GAIN
        refilled = self.is_refilling and is_small
        return replace(
            self,
            calls=0,
            refills=self.refills + 1 if refilled else 0,
            small_gains=self.small_gains + 1 if is_small else 0,
        )

    def add_warning(self) -> "CompactionPace":
        """Record that the user was told."""
        return replace(self, warned=True)
