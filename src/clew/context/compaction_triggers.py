"""When a view must become smaller: questions that a session asks before every model call.

They are cheap, so that a turn stays as fast in a long session. What to do is decided by
`clew.context.clearing_plan` and `clew.context.compaction_plan`, which few sessions ever need.
"""

from clew.context.economy import clearing_start, working_set
from clew.context.plan import Strategy
from clew.context.policy import ContextPolicy
from clew.context.view import View
from clew.context.window_state import count_tokens

_CALLS_AHEAD = 3
"""How many turns of the conversation a summary takes, at the usual lengths of both."""
_ITEMS_PER_CALL = 2
_MOST_EXTRA = 0.1
"""The share of additional compactions that `auto` accepts."""


def find_threshold(view: View, policy: ContextPolicy, *, window: int) -> int | None:
    """Return the size of a request, in tokens, from which to compact; None for never."""
    share = policy.thresholds.compact
    if not share:
        return None
    room = working_set(policy.economy, view, window=window)
    return min(int(share * window), room)


def needs_room(view: View, policy: ContextPolicy, strategy: Strategy, *, used: int) -> bool:
    """Return whether results are to be cleared, a compaction is due, or the view is too long.

    Args:
        view: The conversation.
        policy: The thresholds and the economy of the session.
        strategy: Decides when to compact.
        used: The size of the next request, in tokens.
    """
    return (
        policy.compress_over is not None
        or may_save_cost(view, policy, strategy)
        or is_compaction_due(view, policy, strategy, used=used)
        or used > find_limit(policy, window=view.setup.model.window)
    )


def is_compaction_due(view: View, policy: ContextPolicy, strategy: Strategy, *, used: int) -> bool:
    """Return whether the strategy wants a compaction before a call of `used` tokens."""
    threshold = find_threshold(view, policy, window=view.setup.model.window)
    return strategy.due(view, used=used, threshold=threshold)


def find_limit(policy: ContextPolicy, *, window: int) -> int:
    """Return the size of the largest request that is sent, in tokens."""
    return int(policy.thresholds.block * window)


def may_save_cost(view: View, policy: ContextPolicy, strategy: Strategy) -> bool:
    """Return whether to look for results that are worth clearing.

    Only new results are a reason, never that the cache is cold: so the first call after a session
    was opened sends what was there. A look at every result before each call would make turns
    slower as a session grows.
    """
    start = clearing_start(policy.economy, window=view.setup.model.window)
    return (
        start is not None
        and strategy.clears_early
        and policy.compress_tool_results is None
        and view.items.has_new_results
        and count_tokens(view) >= start
    )


def is_preparation_due(
    view: View, policy: ContextPolicy, strategy: Strategy, *, used: int, is_local: bool
) -> bool:
    """Return whether to start preparing a summary now; see `clew.context.prepared_summary`.

    Args:
        view: The present view.
        policy: The mode, and the thresholds: preparation starts from the warning threshold on,
            or from the same share of the strategy's own limit.
        strategy: Decides when a compaction is due.
        used: Tokens in the window.
        is_local: The model runs on a local server, which a second call would slow down.
    """
    mode, thresholds = policy.background_compaction, policy.thresholds
    window = view.setup.model.window
    share = thresholds.compact or thresholds.block
    ahead = int(used * max(0.0, share / thresholds.warn - 1))
    if mode == "auto":
        growth = view.items.units() * view.calibration.rate / max(1, len(view.items))
        ahead = min(ahead, int(_CALLS_AHEAD * _ITEMS_PER_CALL * growth))
        regained = used + ahead - strategy.target(window)
        if is_local or ahead > _MOST_EXTRA * regained:
            return False
    threshold = find_threshold(view, policy, window=window)
    return mode != "off" and strategy.due(view, used=used + ahead, threshold=threshold)
