"""Clearing of tool results that the model has answered: which ones, and when it saves cost.

A provider reads the unchanged prefix of a request from its cache at a fraction of the price;
it writes everything after the first changed byte to the cache again. So clearing R tokens
from a suffix of S tokens costs `(S - R) × write - S × read` once and saves `R × read` in
every later call. The number of later calls is limited in two ways: by the calls that are
expected, and by `R / (2 × growth per call)`, because waiting collects a larger batch for the
same rewrite. With a cold cache clearing always pays, because everything is rewritten anyway.
"""

from collections.abc import Sequence

from clew.context.cuts import find_turn_start
from clew.context.economy import CachePrices
from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind, Items
from clew.core.entries import Replacement
from clew.core.ids import EntryId

DELEGATION_TOOLS = frozenset({"agent", "task", "delegate_to_agent"})
"""They start a subagent. Its report is their result: its whole work, which is never cleared."""
MARKER = "[cleared: "
_ASSISTANT, _TOOL_RESULT = ItemKind.ASSISTANT, ItemKind.TOOL_RESULT
_RECENT_CALLS = 20
"""Calls from which the growth of the view is measured."""


def find_consumed(
    items: Sequence[Item], *, excluded: frozenset[EntryId], min_chars: int
) -> list[int]:
    """Return the indices of results that may be cleared: answered, long, not failed.

    A result is consumed when an assistant message follows it. Failed results, results of
    other agents, cleared results and the entries in `excluded` stay.
    """
    places: list[int] = []
    answered = 0
    for place, item in enumerate(items):
        if item.kind is _ASSISTANT:
            answered = len(places)
        elif (
            item.kind is _TOOL_RESULT
            and item.entry_id not in excluded
            and _is_clearable(item, min_chars)
        ):
            places.append(place)
    return places[:answered]


def make_marker(item: Item) -> Replacement:
    """Return the marker that replaces a result; it says where the full text is."""
    results = item.message.results
    chars = sum(len(result.text) for result in results)
    where = f"; entry #{item.entry_id} has them" if item.entry_id > 0 else ""
    text = f"{MARKER}{chars:,} characters of {results[0].name}{where}]"
    return Replacement(entry_id=item.entry_id, text=text)


def exclude_recent(
    items: Items, places: Sequence[int], *, recent_turns: int, tail: int
) -> list[int]:
    """Return those of `places` before the recent turns and before the newest `tail` units."""
    recent = find_turn_start(items, recent_turns) or 0
    return [
        place
        for place in places
        if items.units(place) > tail and (place < recent or items.units(recent) > tail)
    ]


def choose_worthwhile(
    items: Items, places: Sequence[int], prices: CachePrices, *, calls: int, cold: bool
) -> list[int]:
    """Choose which of `places` to clear now: the suffix with the largest saving, or none.

    `calls` is the number of calls so far. With a `cold` cache all are chosen.
    """
    if cold:
        return list(places)
    expected = max(prices.least_calls, calls)
    growth = max(1.0, _measure_growth(items))
    best, best_gain = len(places), 0.0
    reclaimed = 0
    for index in range(len(places) - 1, -1, -1):
        item = items[places[index]]
        reclaimed += item.units - text_units(make_marker(item).text) - 10
        suffix = items.units(places[index])
        once = (suffix - reclaimed) * prices.write_price - suffix * prices.read_price
        horizon = min(expected, reclaimed / (2 * growth))
        gain = horizon * reclaimed * prices.read_price - once
        if gain > best_gain:
            best, best_gain = index, gain
    return list(places[best:])


def _measure_growth(items: Items) -> float:
    """Return the units that a call has added lately; earlier ones may have left the view."""
    answers = 0
    for place in range(len(items) - 1, -1, -1):
        answers += items[place].kind is _ASSISTANT
        if answers == _RECENT_CALLS:
            return items.units(place) / answers
    return items.units() / max(1, answers)


def _is_clearable(item: Item, min_chars: int) -> bool:
    results = item.message.results
    if len(results) != 1:
        return False
    (result,) = results
    is_done = not result.failed and result.name.lower() not in DELEGATION_TOOLS
    return is_done and len(result.text) > min_chars and not result.text.startswith(MARKER)
