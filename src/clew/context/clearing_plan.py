"""Clearing tool results outside a compaction: whether, which ones, and the entry that says so.

Three things ask for it: the economy of the policy (to save cost), the option
`compress_tool_results`, and a request that would be too long to send.
"""

from collections.abc import Sequence

from clew.context.cleared_results import (
    choose_worthwhile,
    exclude_recent,
    find_consumed,
    make_marker,
)
from clew.context.compaction_plan import make_budget
from clew.context.compaction_triggers import may_save_cost
from clew.context.estimate import text_units
from clew.context.loss_report import build_clearing
from clew.context.plan import Strategy
from clew.context.policy import ContextPolicy
from clew.context.protected import find_protected
from clew.context.shortened_items import shorten_items
from clew.context.view import View
from clew.core.entries import Replacement, ResultsCleared
from clew.core.ids import EntryId

_CLEAR_OVER = 500
_ENOUGH = 0.9
"""Share of the wanted saving that is enough to send a request."""


def plan_clearing(
    view: View, policy: ContextPolicy, strategy: Strategy, *, now: float
) -> ResultsCleared | None:
    """Replace answered tool results by markers, if the policy asks for it or it saves cost.

    Results that an undo restored stay, until a compaction is due.
    """
    if policy.compress_over is not None:
        places = find_consumed(
            view.items, excluded=_find_excluded(view, policy), min_chars=policy.compress_over
        )
        trigger, why = "option", "answered tool results are compressed"
    elif may_save_cost(view, policy, strategy):
        cold = now - view.called_at > policy.prices.cold_after
        places = _choose_saving(view, policy, strategy, cold=cold)
        trigger = "economy"
        why = "the cache is cold" if cold else "the saving pays for the broken cache prefix"
    else:
        return None
    if not places:
        return None
    markers = tuple(make_marker(view.items[place]) for place in places)
    return build_clearing(view, markers, trigger=trigger, why=why)


def plan_squeeze(
    view: View, *, excess: int, protect: Sequence[str] = (), only_results: bool = True
) -> ResultsCleared | None:
    """Truncate what remains by up to `excess` tokens in total.

    Protected results are truncated only if the others are not enough. With `only_results` false
    even answers, arguments of calls and requests are truncated.
    """
    saving = round(excess / view.calibration.rate) + 1
    room = view.items.units() - saving
    spared = view.pinned | find_protected(view, protect)
    changes = shorten_items(view.items, spared, room=room, only_results=only_results)
    why = "the request would exceed the window"
    if spared > view.pinned and _count_saved(view, changes) < saving * _ENOUGH:
        changes = shorten_items(view.items, view.pinned, room=room, only_results=only_results)
        why += ", even without the results that are not protected"
    if not changes:
        return None
    return build_clearing(view, changes, trigger="limit", why=why)


def _count_saved(view: View, changes: Sequence[Replacement]) -> int:
    units = {item.entry_id: item.units for item in view.items}
    return sum(units[change.entry_id] - text_units(change.text) for change in changes)


def _find_excluded(view: View, policy: ContextPolicy) -> frozenset[EntryId]:
    return view.pinned | view.restored | find_protected(view, policy.protect)


def _choose_saving(
    view: View, policy: ContextPolicy, strategy: Strategy, *, cold: bool
) -> list[int]:
    recent = view.units_for(policy.prices.recent_tokens)
    tail = min(recent, make_budget(view, policy, strategy).tail)
    excluded = _find_excluded(view, policy)
    places = find_consumed(view.items, excluded=excluded, min_chars=_CLEAR_OVER)
    places = exclude_recent(
        view.items, places, recent_turns=policy.preserve_recent_turns, tail=tail
    )
    return choose_worthwhile(view.items, places, policy.prices, calls=view.calls, cold=cold)
