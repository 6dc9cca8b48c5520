"""Journal entries and compactions in a few words, for every client that lists them."""

from collections.abc import Sequence

from clew.core.context_state import LossReport, SummaryAttempt
from clew.core.entries import Entry
from clew.extensions.commands.entries import (
    format_attempts,
    format_clearing,
    format_loss,
    list_entries,
)

_RECOVERY = "lost        nothing: all entries stay in the journal, and /undo restores the view"


def format_entries(entries: Sequence[Entry], limit: int) -> list[str]:
    """Return one line for each of the newest entries, oldest first, such as `#3 you: hello`."""
    return [f"#{number} {author}: {text}" for number, author, text in list_entries(entries, limit)]


def format_loss_report(report: LossReport) -> list[str]:
    """Return the lines of a loss report: what a compaction kept, summarised and archived."""
    return [*format_loss(report), _RECOVERY]


def format_compaction_failure(why: str, attempts: Sequence[SummaryAttempt]) -> list[str]:
    """Return the lines that say why a compaction failed, and what its attempts cost."""
    failed = f"the compaction failed; the view is unchanged: {why}"
    return [failed, *(f"  {line}" for line in format_attempts(attempts))]


def format_cleared_results(report: LossReport, trigger: str) -> str:
    """Return the line that announces removed tool results, and how to get them back."""
    return (
        f"{format_clearing(len(report.cleared), trigger)},"
        f" {report.tokens_before:,} → {report.tokens_after:,} tokens · /undo to restore"
    )
