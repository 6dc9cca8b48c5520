"""Builds the entry of a compaction, with its `LossReport`."""

import msgspec
from msgspec import Struct

from clew.context.items import ItemKind
from clew.context.plan import Reduce
from clew.context.policy import Thresholds
from clew.context.view import View
from clew.context.window_state import compute_state
from clew.core.context_state import LossReport, SummaryAttempt
from clew.core.entries import Compacted, Entry, Trigger
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.core.usage import Usage


class WrittenSummary(Struct, frozen=True, kw_only=True):
    """The text that replaces dropped messages, and who wrote it."""

    text: str
    author: str
    notes: str = ""
    """The part of the text that a model wrote."""
    usage: Usage | None = None
    attempts: tuple[SummaryAttempt, ...] = ()
    """Every try to write it, this one included."""


def build_compaction(
    view: View,
    plan: Reduce,
    summary: WrittenSummary,
    *,
    trigger: Trigger,
    strategy: str,
    inserted: tuple[Message, ...] = (),
) -> Compacted:
    """Build the entry that carries out `plan`, with a report on every entry of the view.

    Args:
        view: The view before the compaction.
        plan: What leaves the view, and what stays shortened.
        summary: The text that replaces what leaves.
        trigger: What started the compaction.
        strategy: The name of the strategy that made the plan.
        inserted: New messages that a custom strategy put before those that stay.
    """
    dropped = tuple(item.entry_id for item in plan.dropped)
    if dropped and view.items[0].kind is ItemKind.SUMMARY and view.items[0].entry_id not in dropped:
        dropped = (view.items[0].entry_id, *dropped)
    cleared = tuple(change.entry_id for change in plan.replaced)
    gone = frozenset((*dropped, *cleared))
    is_replaced = bool(summary.text or inserted)
    report = LossReport(
        kept=tuple(item.entry_id for item in view.items if item.entry_id not in gone),
        summarised=dropped if is_replaced else (),
        cleared=cleared,
        archived=() if is_replaced else dropped,
        tokens_before=_count_tokens(view),
        tokens_after=0,
        author=summary.author,
        why=f"{trigger}: {plan.why}",
        attempts=summary.attempts,
    )
    draft = Compacted(
        trigger=trigger,
        strategy=strategy,
        summary=summary.text,
        notes=summary.notes,
        dropped=dropped,
        replaced=plan.replaced,
        inserted=inserted,
        report=report,
        usage=summary.usage,
    )
    after = _tokens_after(view, draft)
    return msgspec.structs.replace(
        draft, report=msgspec.structs.replace(report, tokens_after=after)
    )


def _tokens_after(view: View, draft: Compacted) -> int:
    before = draft.report.tokens_before
    shrunk = view.apply(Entry(id=EntryId(0), at=0.0, body=draft))
    after = before - round((view.units - shrunk.units) * view.calibration.rate)
    if after > 0:
        return after
    # The provider counted less than the estimate of what leaves; use the share that stays.
    return round(before * shrunk.units / max(1, view.units))


def _count_tokens(view: View) -> int:
    return compute_state(view, Thresholds(), window=max(1, view.setup.model.window)).used_tokens
