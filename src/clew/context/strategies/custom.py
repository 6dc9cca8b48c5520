"""`Custom`: a strategy that is a function of your own, and the checks on its result."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from clew.context.cuts import find_turn_start
from clew.context.items import Item
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Budget, Plan, Reduce, Stuck
from clew.context.render import find_problems, render
from clew.context.view import View
from clew.core.entries import Compacted, Trigger
from clew.core.errors import ConfigError
from clew.core.messages import Message

Compress: TypeAlias = Callable[
    [list[Message], int], Sequence[Message] | Awaitable[Sequence[Message]]
]
"""Takes the messages of the next request and their estimated tokens; returns what to send."""


class Custom(Struct, frozen=True, kw_only=True):
    """Rewrites the conversation with your own function, `compress`.

    The session calls it before every model call, on `session.compact()` and after a provider
    reported an overflow. Returning the same messages changes nothing. A changed list must be
    a conversation that providers accept, and must contain the current request and every
    pinned message. The session records it as a compaction: with hooks, events, a loss report
    and undo.
    """

    compress: Compress
    name: str = "custom"
    clears_early: bool = False

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:  # noqa: ARG002
        """Return True: the function decides before every call."""
        return True

    def target(self, window: int) -> int:
        """Return the window: the function decides how much to leave."""
        return window

    def plan(self, view: View, budget: Budget) -> Plan:  # noqa: ARG002
        """Return `Stuck`: only the function knows; see `compact_to`."""
        return Stuck(why="only the function of the custom strategy knows what it would drop")


def compact_to(
    view: View, messages: Sequence[Message], *, trigger: Trigger = "auto", strategy: str = "custom"
) -> Compacted | Stuck:
    """Return the entry that makes the model see `messages`.

    Args:
        view: The view before.
        messages: What the function returned. Messages of the view keep their entries; new
            ones must come first.
        trigger: What started the compaction.
        strategy: The name for the report.

    Returns:
        The entry, or `Stuck` if the view shows these messages already.

    Raises:
        ConfigError: Providers would reject the messages, or one that must stay is missing.
    """
    if not isinstance(messages, list | tuple) or not all(isinstance(m, Message) for m in messages):
        raise ConfigError("the custom strategy must return a list of messages")
    if tuple(messages) == render(view):
        return Stuck(why="the custom strategy returned the same messages")
    _check(view, messages)
    new, kept = _split(view, messages)
    stays = {item.entry_id for item in kept}
    return build_compaction(
        view,
        Reduce(
            dropped=tuple(item for item in view.items if item.entry_id not in stays),
            why="the function of the custom strategy decided",
        ),
        WrittenSummary(text="", author="custom"),
        trigger=trigger,
        strategy=strategy,
        inserted=new,
    )


def _check(view: View, result: Sequence[Message]) -> None:
    wrong = find_problems(result) if result else ["it is empty"]
    if wrong:
        raise ConfigError(f"the custom strategy returned an invalid history: {wrong[0]}")
    start = find_turn_start(view.items)
    must = [item for item in view.items if item.entry_id in view.pinned]
    must += [view.items[start]] if start is not None else []
    for item in must:
        if item.message not in result:
            raise ConfigError(
                f"the custom strategy left out message #{item.entry_id}, which must stay"
            )


def _split(view: View, result: Sequence[Message]) -> tuple[tuple[Message, ...], list[Item]]:
    """Separate the messages of the view, which keep their entries, from new ones before them."""
    kept: list[Item] = []
    items = list(view.items)
    # Messages that a function inserted earlier share one entry: they stay or go together.
    times = Counter(item.entry_id for item in items)
    at = len(result)
    rest = len(items)
    while at > 0:
        match = next(
            (
                n
                for n in range(rest - 1, -1, -1)
                if items[n].message == result[at - 1] and times[items[n].entry_id] == 1
            ),
            None,
        )
        if match is None:
            break
        kept.append(items[match])
        rest, at = match, at - 1
    return tuple(result[:at]), kept[::-1]
