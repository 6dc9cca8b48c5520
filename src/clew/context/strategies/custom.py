"""A user's own way of shrinking a conversation, and what is asked of its result."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.context.cuts import turn_starts
from clew.context.items import Item
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Budget, Plan, Reduce, Stuck
from clew.context.render import find_problems, render
from clew.context.view import View
from clew.core.entries import Compacted
from clew.core.errors import ConfigError
from clew.core.messages import Message

Compress: TypeAlias = Callable[[list[Message], int], list[Message] | Awaitable[list[Message]]]
"""Gets the messages of the next request and their estimated tokens; returns what to send."""


class Custom(Struct, frozen=True, kw_only=True):
    """Calls `compress` before every model call; what it returns is what the model is shown.

    Returning the same messages changes nothing. The result must be a conversation that a
    provider accepts, with the current request and every pinned message in it.
    """

    compress: Compress
    name: str = "custom"
    clears_early: bool = False

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:  # noqa: ARG002
        """Due before every call: the function decides."""
        return True

    def target(self, window: int) -> int:
        """Return the window: the function decides."""
        return window

    def plan(self, view: View, budget: Budget) -> Plan:  # noqa: ARG002
        """Say that only the function can tell; see `compact_to`."""
        return Stuck(why="a function of the user's own decides what goes")


def compact_to(view: View, result: Sequence[Message]) -> Compacted | None:
    """Return the entry that makes `view` show `result`, or None when it does already.

    Raises:
        ConfigError: No provider would accept the result, or something in it is missing that
            must stay.
    """
    if not isinstance(result, list | tuple) or not all(isinstance(m, Message) for m in result):
        raise ConfigError("the custom strategy must return a list of messages")
    if tuple(result) == render(view):
        return None
    _check(view, result)
    new, kept = _split(view, result)
    stays = {item.entry_id for item in kept}
    plan = Reduce(
        dropped=tuple(item for item in view.items if item.entry_id not in stays),
        why="a function of the user's own decided",
    )
    body = build_compaction(
        view, plan, WrittenSummary(text="", author="custom"), trigger="auto", strategy="custom"
    )
    return replace(body, inserted=new)


def _check(view: View, result: Sequence[Message]) -> None:
    wrong = find_problems(result) if result else ["it is empty"]
    if wrong:
        raise ConfigError(f"the custom strategy returned an invalid history: {wrong[0]}")
    starts = turn_starts(view.items)
    must = [item for item in view.items if item.entry_id in view.pinned]
    must += [view.items[starts[-1]]] if starts else []
    for item in must:
        if item.message not in result:
            raise ConfigError(
                f"the custom strategy left out message #{item.entry_id}, which must stay"
            )


def _split(view: View, result: Sequence[Message]) -> tuple[tuple[Message, ...], list[Item]]:
    """Tell messages of the view, which keep their entries, from new ones before them."""
    kept: list[Item] = []
    items = list(view.items)
    # What a function put in earlier shares one entry, and can only stay or go as a whole.
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
