"""Clearing tool results that the model has read and answered: what may go, and when it pays.

A request's prefix that equals the last one's is read from the provider's cache at a fraction
of the price; everything from the first changed byte on is written to the cache anew. So
clearing R tokens out of a suffix of S tokens costs, once, `(S - R) × write - S × read`, and
saves `R × read` in every later call. How many calls count? No more than are expected to come;
and no more than half of those after which as much would have gathered again, for waiting
makes a larger batch of the same rewrite: `R / (2 × growth per call)`. When the cache is cold
clearing pays at once, because then everything is written anew anyway.
"""

from collections.abc import Sequence

from msgspec import Struct

from clew.context.cuts import turn_starts
from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind, Items
from clew.core.entries import Replacement
from clew.core.ids import EntryId

DELEGATION_TOOLS = frozenset({"Agent", "Task", "delegate_to_agent"})
"""Their results are another agent's whole work: never cleared."""
MARKER = "[cleared: "


class Economy(Struct, frozen=True, kw_only=True):
    """What decides whether clearing pays: prices relative to plain input, and expectations."""

    read_price: float = 0.1
    write_price: float = 1.25
    cold_after: float = 300.0
    """Seconds without a call after which the provider has forgotten the prefix."""
    least_calls: int = 10
    """Calls that are expected to come at least; beyond that, as many as there were."""
    recent_tokens: int = 16_000
    """The newest part of the conversation, from which nothing is cleared to save cost."""


def find_consumed(
    items: Sequence[Item], *, pinned: frozenset[EntryId], min_chars: int
) -> list[int]:
    """Return where results stand that may be cleared: read by the model, long, not failed.

    A result is consumed once an assistant message follows it. Failed results, another
    agent's work, pinned entries and what is cleared already stay as they are.
    """
    places: list[int] = []
    answered = 0
    for place, item in enumerate(items):
        if item.kind is ItemKind.ASSISTANT:
            answered = len(places)
        elif (
            item.kind is ItemKind.TOOL_RESULT
            and item.entry_id not in pinned
            and _clearable(item, min_chars)
        ):
            places.append(place)
    return places[:answered]


def make_marker(item: Item) -> Replacement:
    """Return the marker that takes the place of a result; it says where the whole is."""
    results = item.message.results
    chars = sum(len(result.text) for result in results)
    where = f"; entry #{item.entry_id} has them" if item.entry_id > 0 else ""
    text = f"{MARKER}{chars:,} characters of {results[0].name}{where}]"
    return Replacement(entry_id=item.entry_id, text=text)


def exclude_recent(
    items: Items, places: Sequence[int], *, recent_turns: int, tail: int
) -> list[int]:
    """Keep of `places` those that stand before the recent turns and before the newest `tail`."""
    starts = turn_starts(items)
    recent = starts[-recent_turns] if len(starts) >= recent_turns else 0
    return [
        place
        for place in places
        if items.units(place) > tail and (place < recent or items.units(recent) > tail)
    ]


def choose_worthwhile(
    items: Items, places: Sequence[int], economy: Economy, *, calls: int, cold: bool
) -> list[int]:
    """Choose which of `places` to clear now, if any: the suffix where the saving is largest.

    `calls` is how many the session has made so far.
    """
    if cold:
        return list(places)
    expected = max(economy.least_calls, calls)
    growth = max(1.0, items.units() / max(1, calls))
    best, best_gain = len(places), 0.0
    reclaimed = 0
    for index in range(len(places) - 1, -1, -1):
        item = items[places[index]]
        reclaimed += item.units - text_units(make_marker(item).text) - 10
        suffix = items.units(places[index])
        once = (suffix - reclaimed) * economy.write_price - suffix * economy.read_price
        horizon = min(expected, reclaimed / (2 * growth))
        gain = horizon * reclaimed * economy.read_price - once
        if gain > best_gain:
            best, best_gain = index, gain
    return list(places[best:])


def _clearable(item: Item, min_chars: int) -> bool:
    results = item.message.results
    return (
        len(results) == 1
        and sum(len(result.text) for result in results) > min_chars
        and not any(result.failed or result.name in DELEGATION_TOOLS for result in results)
        and not any(result.text.startswith(MARKER) for result in results)
    )
