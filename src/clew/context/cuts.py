"""Where a view may be cut.

A provider rejects a conversation in which a tool call has lost its result, or a result its
call; and one that signs its reasoning rejects a tool loop whose signed beginning is gone. Each
rule below names the places it allows; a cut is legal where all of them agree. (Pinned messages
and the current request need no rule: they are spared on whichever side of a cut they stand.)
"""

from collections.abc import Sequence
from itertools import pairwise

from clew.context.items import Item, ItemKind
from clew.core.ids import CallId


def legal_cuts(items: Sequence[Item], *, inside_loops: bool = False) -> list[int]:
    """Return every index at which the items before it may go and those from it on may stay.

    Always contains 0, and `len(items)` when no call waits for its result. With `inside_loops`
    a tool loop may be parted from its signed beginning: the last resort for a loop too large
    for the window, after which the model goes on without the thought it began with.
    """
    places = between_steps(items)
    return places if inside_loops else sorted(set(places) & outside_signed_loops(items))


def between_steps(items: Sequence[Item]) -> list[int]:
    """Allow places where no call waits for its result: a batch of calls is never split."""
    waiting: set[CallId] = set()
    places = [0]
    for index, item in enumerate(items):
        if item.answers:
            waiting.difference_update(item.answers)
            continue
        if index and not waiting and item.kind is not ItemKind.TOOL_RESULT:
            places.append(index)
        if item.asks:
            waiting.update(item.asks)
    return places if waiting or not items else [*places, len(items)]


def outside_signed_loops(items: Sequence[Item]) -> set[int]:
    """Allow places where no signed tool loop goes on, or where it is signed anew."""
    signed = False
    places = {0, len(items)}
    for index, item in enumerate(items):
        if item.kind is ItemKind.USER:
            signed = False
        if item.is_signed or not signed:
            places.add(index)
        signed = signed or item.is_signed
    return places


def turn_starts(items: Sequence[Item]) -> list[int]:
    """Return the index of each user message: a turn is one and all up to the next."""
    return [index for index, item in enumerate(items) if item.kind is ItemKind.USER]


def batches(items: Sequence[Item]) -> list[range]:
    """Split the items into runs that must stay or go together: a call with its results."""
    bounds = between_steps(items)
    if bounds[-1] != len(items):
        bounds.append(len(items))
    return [range(start, stop) for start, stop in pairwise(bounds)]
