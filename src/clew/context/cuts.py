"""Where a view may be cut.

A provider rejects a conversation in which a tool call has lost its result, or a result its
call. A provider that signs its reasoning also rejects a tool loop whose signed beginning is
missing. Each rule below returns the places it allows; a cut is legal where all rules agree.
Pinned messages and the current request need no rule: they stay on both sides of a cut.
"""

from collections.abc import Collection, Sequence
from itertools import compress, pairwise
from operator import not_

from clew.context.items import Item, ItemKind, Items
from clew.core.ids import CallId, EntryId

_USER, _TOOL_RESULT = ItemKind.USER, ItemKind.TOOL_RESULT


def legal_cuts(items: Sequence[Item], *, inside_loops: bool = False) -> list[int]:
    """Return every index where the view may be cut: items before it leave, the others stay.

    The list always contains 0, and `len(items)` if no call waits for its result. With
    `inside_loops` a cut may separate a tool loop from its signed beginning: the last resort
    for a loop that is too large for the window.
    """
    places = between_steps(items)
    if inside_loops or not any(item.is_signed for item in items):
        return places
    return sorted(outside_signed_loops(items).intersection(places))


def between_steps(items: Sequence[Item]) -> list[int]:
    """Return places where no call waits for its result; a batch of calls is never split."""
    waiting: Collection[CallId] = ()
    places = [0]
    for index, item in enumerate(items):
        if item.answers:
            waiting = () if item.answers == waiting else set(waiting).difference(item.answers)
            continue
        if index and not waiting and item.kind is not _TOOL_RESULT:
            places.append(index)
        if item.asks:
            waiting = {*waiting, *item.asks} if waiting else item.asks
    return places if waiting or not items else [*places, len(items)]


def outside_signed_loops(items: Sequence[Item]) -> set[int]:
    """Return places outside of signed tool loops, and before each signed message in a loop."""
    signed = False
    places = {0, len(items)}
    for index, item in enumerate(items):
        if item.kind is _USER:
            signed = False
        if item.is_signed or not signed:
            places.add(index)
        signed = signed or item.is_signed
    return places


def split_items(items: Items, dropped: Sequence[EntryId]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Return the items of the entries that a compaction drops, and the others.

    Most compactions drop the beginning of a view. The items of one entry follow each other.
    """
    ids, count = items.ids, len(dropped)
    if ids[:count] == list(dropped) and ids[count : count + 1] != ids[count - 1 : count]:
        return items[:count], items[count:]
    leaves = list(map(frozenset(dropped).__contains__, ids))
    return list(compress(items, leaves)), list(compress(items, map(not_, leaves)))


def find_turn_start(items: Sequence[Item], turns: int = 1) -> int | None:
    """Return the index of the user message that begins the last `turns` turns; None if fewer.

    It reads from the end.
    """
    for index in range(len(items) - 1, -1, -1):
        if items[index].kind is _USER:
            turns -= 1
            if not turns:
                return index
    return None


def batches(items: Sequence[Item]) -> list[range]:
    """Split the items into runs that stay or leave together: a call with its results."""
    bounds = between_steps(items)
    if bounds[-1] != len(items):
        bounds.append(len(items))
    return [range(start, stop) for start, stop in pairwise(bounds)]
