"""Selection of messages that strategies share: what stays, what is truncated, what leaves.

Pinned messages, the current request and the last step always stay.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import compress
from operator import not_

from msgspec.structs import replace

from clew.context.cuts import batches, find_turn_start, legal_cuts
from clew.context.items import Item, ItemKind, Items
from clew.context.plan import (
    Budget,
    Plan,
    Reduce,
    Stuck,
    Wording,
    measure_all_words,
    measure_words,
    sum_words,
)
from clew.context.shortened_items import shorten_items
from clew.context.view import View
from clew.core.ids import EntryId
from clew.core.messages import Role


def find_inner_cuts(items: Items, *, limit: int) -> list[int]:
    """Return the legal cuts that keep the last step, which the model has not answered yet.

    The list begins in the turn before the newest messages that fit into `limit`, or earlier. If
    a signed tool loop alone exceeds `limit`, cuts inside it are included.
    """
    last = max(0, len(items) - 1)
    for place in range(len(items) - 1, -1, -1):
        if items[place].kind is ItemKind.ASSISTANT:
            last = place if items[place].message.calls else last
            break
        if items[place].message.role is Role.USER:
            break
    start = _find_turn_before(items, items.find_start(limit))
    newest = items[start:]
    cuts = [start + cut for cut in legal_cuts(newest) if start + cut <= last]
    if items.units(cuts[-1]) > limit:
        every = legal_cuts(newest, inside_loops=True)
        cuts = [start + cut for cut in every if start + cut <= last]
    return cuts


def _find_turn_before(items: Items, place: int) -> int:
    """Return the index of a user message before `place` at which no call waits; 0 if none."""
    if items.is_matched:
        for start in range(min(place, len(items)) - 1, 0, -1):
            if items[start].kind is ItemKind.USER and items[start].message.parts:
                return start
    return 0


def subtract_pins(view: View, budget: Budget) -> Budget:
    """Reduce the budget by the size of the pinned messages, which always stay."""
    if not view.pinned:
        return budget
    taken = sum(item.units for item in view.items if item.entry_id in view.pinned)
    share = max(0.0, 1 - taken / max(1, budget.limit))
    return replace(
        budget,
        limit=int(budget.limit * share),
        tail=int(budget.tail * share),
        summary=int(budget.summary * share),
    )


def find_tail_cut(view: View, budget: Budget) -> int:
    """Return the legal cut after which everything stays.

    A view within the budget keeps its recent turns, as far as they fit into the tail. A larger
    one keeps as many of the newest messages as fit beside the summary: the user's words, and
    half of what is dropped, or more of a plain conversation, up to `budget.summary`. The newest
    messages get at least half of their share, and the last step of the conversation is always
    after the cut. If they leave much room, the step before them stays too, with truncated results.
    """
    items = view.items
    inner = find_inner_cuts(items, limit=budget.limit)
    if items.units() <= budget.limit:
        wanted = find_turn_start(items, budget.recent_turns) or 0
        if items.units(wanted) <= budget.tail:
            return max(cut for cut in inner if cut <= wanted)
        return next((cut for cut in inner if items.units(cut) <= budget.tail), inner[-1])
    place, spare = _find_first_fit(view, inner, budget)
    if place and spare > budget.limit * _MUCH_ROOM:
        step = items[inner[place - 1] : inner[place]]
        if sum(item.units for item in step if not item.answers) < spare // 2:
            return inner[place - 1]
    return inner[place]


def _find_first_fit(view: View, cuts: Sequence[int], budget: Budget) -> tuple[int, int]:
    """Return the index of the first of `cuts` after which the messages fit, and what they leave.

    It is the last one if they fit after none.
    """
    items = view.items
    whole = view.archived.units() + items.units()
    start = find_turn_start(items)
    last = len(items) if start is None else start
    every = _sum_all_words(view)
    before = whole - items.units(cuts[0])
    kept = _choose_kept_share(view, budget)
    least = min(budget.summary, int(max(0, before - every) * kept))
    most = max(budget.tail // 2, budget.limit - least)
    place = min(bisect_left(cuts, items.find_start(most)), len(cuts) - 1)
    at = cuts[place]
    words = every - measure_all_words(items[at:])
    # Later cuts quote these words at least, beside the current request.
    quoted = budget.quote(words - (measure_words(items[last]) if start is not None else 0))
    most = max(budget.tail // 2, budget.limit - least - quoted)
    place = max(place, min(bisect_left(cuts, items.find_start(most)), len(cuts) - 1))
    while True:
        cut = cuts[place]
        words += measure_all_words(items[at:cut])
        at = cut
        current = items[last].units if cut > last else 0
        said = budget.quote(words - (measure_words(items[last]) if current else 0))
        after = items.units(cut)
        rest = min(budget.summary, int(max(0, whole - after - words) * kept))
        room = max(budget.tail // 2, budget.limit - current - said - rest)
        spare = room - after
        if spare >= 0 or place == len(cuts) - 1:
            return place, spare
        place += 1


def _choose_kept_share(view: View, budget: Budget) -> float:
    """Return the share of what leaves, beside the user's words, that the summary should keep.

    The summary of a conversation without tools consists of whole messages. Under a hard limit it
    keeps more of them and is made from more, so that the least telling ones leave, whenever they
    were said, and not only the oldest.
    """
    has_results = view.archived.totals[_TOOL_RESULT] or view.items.totals[_TOOL_RESULT]
    return _KEPT if has_results or not budget.is_hard else _KEPT_OF_TALK


def _sum_all_words(view: View) -> int:
    return sum_words(view.archived) + sum_words(view.items)


def split_before(view: View, cut: int) -> tuple[tuple[Item, ...], list[Item]]:
    """Return the items before `cut` that may leave, and those that must stay.

    Pinned steps and the current request must stay, with all other items of their entries.
    """
    items, before = view.items, view.items[:cut]
    start = find_turn_start(items)
    # The items of one entry follow each other.
    is_after = start is None or (start >= cut and not _splits_entry(items, cut))
    if is_after and not view.pinned:
        return tuple(before), []
    spared = _find_required(view, cut)
    stays = [item.entry_id in spared for item in before]
    return tuple(compress(before, map(not_, stays))), list(compress(before, stays))


def _find_required(view: View, cut: int) -> set[EntryId]:
    items = view.items
    spared: set[EntryId] = set()
    for batch in batches(items[:cut]) if view.pinned else []:
        ids = {items[index].entry_id for index in batch}
        if ids & view.pinned:
            spared |= ids
    start = find_turn_start(items)
    if start is not None:
        spared.add(items[start].entry_id)
    return spared


_TOOL_RESULT = ItemKind.TOOL_RESULT
_TARGET = 0.45
_MUCH_ROOM = 0.08
_KEPT, _KEPT_OF_TALK = 0.5, 0.75
"""Shares of what leaves that a summary should keep: with tools, and without."""
_LEAST_SUMMARY, _MOST_SUMMARY = 0.3, 0.6
"""Shares of the budget for a summary, if messages that stay must be truncated for it."""


def set_aside(
    view: View, budget: Budget, *, wording: Wording, summary_model: str | None = None
) -> Plan:
    """Drop everything before the recent messages, except what must stay word for word.

    Pinned messages and the current request stay; the summary quotes the user's other words.
    What stays but is too large is truncated, not dropped.
    """
    budget = subtract_pins(view, budget)
    cut = find_tail_cut(view, budget)
    dropped, required = split_before(view, cut)
    staying = [*required, *view.items[cut:]]
    words = _sum_all_words(view) - measure_all_words(staying)
    taken = sum([item.units for item in staying])
    gone = max(0, view.archived.units() + view.items.units() - taken - words)
    kept = int(gone * _choose_kept_share(view, budget))
    summary = budget.quote(words) + min(budget.summary, kept)
    most = int(budget.limit * _MOST_SUMMARY)
    room = budget.limit - min(summary, most)
    if budget.is_hard and not dropped:
        room = budget.limit
    elif taken > room:
        least = int(budget.limit * _LEAST_SUMMARY)
        room = budget.limit - min(max(summary, least), most)
    if not budget.is_hard:
        # Results are all that is truncated; they get their share even beside a huge request.
        others = sum([item.units for item in staying if not item.answers])
        room = max(room, others + budget.tail)
    replaced = shorten_items(staying, view.pinned, room=room, only_results=not budget.is_hard)
    if not dropped and not replaced:
        return Stuck(why="every message is recent, pinned or the current request")
    plan = Reduce(
        dropped=dropped,
        replaced=replaced,
        wording=wording,
        summary_model=summary_model,
        why=f"the last {len(view.items) - cut} messages and the user's words are kept",
    )
    if not _splits_entry(view.items, cut):
        plan.know_staying(view, staying)
    return plan


def _splits_entry(items: Items, cut: int) -> bool:
    """Return whether a cut separates messages that one entry inserted; all of them leave."""
    return 0 < cut < len(items) and items[cut - 1].entry_id == items[cut].entry_id


def is_reached(used: int, *limits: int | None) -> bool:
    """Return whether `used` has reached one of the limits that are set."""
    return any(limit is not None and used >= limit for limit in limits)


def target_tokens(window: int, max_tokens: int | None) -> int:
    """Return a little less than half of the limit: room for many calls before the next time."""
    return int(min(window, max_tokens or window) * _TARGET)
