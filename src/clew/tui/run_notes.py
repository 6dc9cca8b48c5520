"""What a transcript says about runs and compactions, in Clew's own words."""

from clew.core.events import (
    BackgroundSummary,
    CompactionFailed,
    CompactionProgress,
    CompactionStarted,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    SummaryStage,
)
from clew.core.text import pluralize
from clew.sdk.entries import format_compaction_failure
from clew.tui.blocks import Block, Notice

INTERRUPTED = "interrupted; what has arrived is kept"
_STOP_NOTES = {
    "length": "the answer was cut off at the model's output limit; ask the model to continue",
    "refused": "the model refused to answer",
}


def describe_result(event: RunCompleted | RunInterrupted | RunFailed) -> list[Block]:
    """Return what to say about a run that ended; nothing for an answer that is complete."""
    match event:
        case RunFailed(message=message):
            return [Notice(message, "error")]
        case RunInterrupted():
            return [Notice(INTERRUPTED)]
        case RunCompleted(result=result):
            note = _STOP_NOTES.get(result.stop_reason, "")
            if note and result.stop_detail:
                note = f"{note}: {result.stop_detail}"
            if not note and not result.response.strip():
                note = "the answer is empty"
            return [Notice(note, "warning")] if note else []


def describe_compaction(event: CompactionStarted) -> str:
    """Return what to show while a compaction begins."""
    return f"compacting ({event.trigger})"


def describe_progress(event: CompactionProgress) -> str:
    """Return how far a compaction is; empty for a summary in the background."""
    if event.background:
        return ""
    total = f" of {event.total:,}" if event.total else ""
    unit = " characters" if event.stage == "writing" else ""
    return f"compacting: {event.stage} {event.done:,}{total}{unit}"


def describe_failed_compaction(event: CompactionFailed) -> Notice:
    """Return why a compaction failed, and what its attempts cost."""
    return Notice("\n".join(format_compaction_failure(event.why, event.attempts)), "warning")


def describe_preparation(event: BackgroundSummary) -> list[Block]:
    """Return what happened to a summary in the background; nothing while it is being written."""
    covered = pluralize(event.messages, "message")
    match event.stage:
        case SummaryStage.PREPARED:
            note = f"a summary of {covered} is prepared; the next compaction uses it"
        case SummaryStage.DISCARDED:
            cost = f" (${event.cost:.4f})" if event.cost else ""
            note = f"the prepared summary of {covered} is discarded: {event.why}{cost}"
        case SummaryStage.PREPARING | SummaryStage.FAILED:
            return []  # A warning says why it failed.
    return [Notice(note)]
