"""Builds the entries that make a view smaller, with a report on what left it."""

from collections.abc import Iterable, Set

from msgspec import Struct
from msgspec.structs import replace

from clew.context.items import Item, ItemKind
from clew.context.plan import Reduce
from clew.context.view import View, make_summary
from clew.context.window_state import count_tokens
from clew.core.context_state import LossReport, SummaryAttempt, SummaryCheck
from clew.core.entries import Compacted, Entry, Replacement, ResultsCleared, Trigger
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
    check: SummaryCheck | None = None
    """What a second call added to it."""
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
    dropped = plan.dropped_entries
    if _drops_summary(view, plan):
        dropped = (view.items[0].entry_id, *dropped)
    cleared = tuple(change.entry_id for change in plan.replaced)
    is_replaced = bool(summary.text or inserted)
    report = LossReport(
        kept=_find_kept(plan.list_staying(view), {*dropped[:1], *cleared}),
        summarised=dropped if is_replaced else (),
        cleared=cleared,
        archived=() if is_replaced else dropped,
        tokens_before=count_tokens(view),
        tokens_after=count_tokens_after(view, plan, summary=summary.text, inserted=inserted),
        author=summary.author,
        why=f"{trigger}: {plan.why}",
        check=summary.check,
        attempts=summary.attempts,
    )
    return Compacted(
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


def _drops_summary(view: View, plan: Reduce) -> bool:
    """Return whether the old summary leaves too, because a new one replaces it."""
    if not plan.dropped or view.items[0].kind is not ItemKind.SUMMARY:
        return False
    return view.items[0].entry_id not in plan.dropped_ids


def build_clearing(
    view: View, replaced: tuple[Replacement, ...], *, trigger: str, why: str
) -> ResultsCleared:
    """Build the entry that shows these texts in place of tool results.

    Args:
        view: The view before.
        replaced: The new text of each result.
        trigger: `economy`, `option` or `limit`; see `ResultsCleared`.
        why: The reason, in a few words.
    """
    draft = ResultsCleared(
        replaced=replaced,
        why=why,
        trigger=trigger,
        kept=len(view.items) - len(replaced),
        tokens_before=count_tokens(view),
    )
    units = view.apply(Entry(id=EntryId(0), at=0.0, body=draft)).units
    return replace(draft, tokens_after=_tokens_after(view, units, before=draft.tokens_before))


def report_clearing(view: View, body: ResultsCleared) -> LossReport:
    """Report on every entry of `view`, which is the view before `body`."""
    cleared = tuple(change.entry_id for change in body.replaced)
    return LossReport(
        kept=_find_kept(view.items, set(cleared)),
        summarised=(),
        cleared=cleared,
        archived=(),
        tokens_before=body.tokens_before,
        tokens_after=body.tokens_after,
        author="rules",
        why=f"{body.trigger}: {body.why}",
    )


def _find_kept(items: Iterable[Item], changed: Set[EntryId]) -> tuple[EntryId, ...]:
    """Return the entries of items that are not among those that changed."""
    return tuple([item.entry_id for item in items if item.entry_id not in changed])


def _tokens_after(view: View, units: int, *, before: int) -> int:
    """Return the tokens of the view when it has `units`; `before` are its tokens now."""
    after = before - round((view.units - units) * view.calibration.rate)
    if after > 0:
        return after
    # The provider counted less than the estimate of what leaves; use the share that stays.
    return round(before * units / max(1, view.units))


def count_tokens_after(
    view: View, plan: Reduce, *, summary: str = "", inserted: tuple[Message, ...] = ()
) -> int:
    """Return the tokens of `view` after `plan`, without making that view where possible."""
    drops_summary = _drops_summary(view, plan)
    if view.items.past_reasoning or inserted:
        dropped = plan.dropped_ids | ({view.items[0].entry_id} if drops_summary else set())
        items = view.reduce_items(
            view.items.without(dropped),
            plan.replaced,
            entry_id=EntryId(0),
            summary=summary,
            inserted=inserted,
        )
        units = replace(view, items=items).units
    else:
        units = view.units - view.items.units() + plan.count_staying(view)
        units -= view.items[0].units if drops_summary else 0
        units += make_summary(view, EntryId(0), summary).units if summary else 0
    return _tokens_after(view, units, before=count_tokens(view))
