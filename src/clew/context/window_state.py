"""Computes the `ContextState`: how full the window is, by provider count and estimate."""

from clew.context.calibration import estimate_tokens
from clew.context.items import ItemKind
from clew.context.policy import Thresholds
from clew.context.view import View
from clew.core.context_state import Basis, Breakdown, ContextState, Status


def compute_state(
    view: View, thresholds: Thresholds, *, window: int, floor: int = 0
) -> ContextState:
    """Compare the size of `view` with `window`.

    If the provider counted the whole view, the number is exact. The estimate of later
    messages is added to the count. A count from before a compaction or a clear is not
    used. The result is never below `floor`.
    """
    used = max(count_tokens(view), floor)
    exact = is_counted(view) and used > floor
    return ContextState(
        max_tokens=window,
        used_tokens=used,
        status=_compare(used / window, thresholds),
        basis=Basis.EXACT if exact else Basis.ESTIMATED,
        breakdown=break_down(view, used),
    )


_LOADS = {
    "system": ("the system prompt", "Shorten the instructions of the project"),
    "tools": ("tool definitions", "Disable tools that you do not need"),
    "user": ("user messages", "Put long text into a file and name the file in the prompt"),
    "assistant": ("answers", "Clear the history"),
    "reasoning": ("reasoning", "Clear the history"),
    "tool_results": ("tool results", "Ask for smaller results: parts of files, filtered output"),
    "summary": ("the summary", "Clear the history"),
}


def describe_load(view: View, state: ContextState) -> str:
    """Say what fills most of the window, and what to do about it."""
    parts = {name: getattr(state.breakdown, name) for name in _LOADS}
    largest = max(parts, key=lambda name: parts[name])
    (what, advice), tokens = _LOADS[largest], parts[largest]
    pins = sum(item.units for item in view.items if item.entry_id in view.pinned)
    if pins * 2 > view.units:
        tokens = round(state.used_tokens * pins / view.units)
        what, advice = "pinned messages", "Unpin what you do not need"
    return (
        f"Most of it is {what} ({tokens:,} tokens). {advice}, or use a model with a larger window."
    )


def count_tokens(view: View) -> int:
    """Return the size of the next request: the provider's last count and the estimate since."""
    if view.anchor is None:
        return estimate_tokens(view.calibration, view.units)
    since = round((view.units - view.anchor.units) * view.calibration.rate)
    return max(0, view.anchor.tokens + since)


def is_counted(view: View) -> bool:
    """Return whether the provider counted the whole view."""
    return view.anchor is not None and view.anchor.length == len(view.items)


def _compare(share: float, thresholds: Thresholds) -> Status:
    if share >= (thresholds.compact or thresholds.block):
        return Status.CRITICAL
    return Status.WARNING if share >= thresholds.warn else Status.OK


def break_down(view: View, used: int) -> Breakdown:
    """Divide the used tokens among the categories, by the estimate of each."""
    totals = view.items.totals
    hidden = view.calibration.overhead / view.calibration.rate
    shares = (
        view.system_units + hidden,
        view.tool_units,
        totals[ItemKind.USER],
        totals[ItemKind.ASSISTANT],
        totals[ItemKind.REASONING] - view.forgotten_units,
        totals[ItemKind.TOOL_RESULT],
        totals[ItemKind.SUMMARY],
    )
    scale = used / max(1, sum(shares))
    counts = [int(units * scale) for units in shares]
    counts[counts.index(max(counts))] += used - sum(counts)
    system, tools, user, assistant, reasoning, tool_results, summary = counts
    return Breakdown(
        system=system,
        tools=tools,
        user=user,
        assistant=assistant,
        reasoning=reasoning,
        tool_results=tool_results,
        summary=summary,
    )
