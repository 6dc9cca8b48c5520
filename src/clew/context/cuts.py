"""Where a view may be cut.

A provider rejects a conversation in which a tool call has lost its result, or a result
its call; and one that signs its reasoning rejects a tool loop whose signed beginning is
gone. So a cut is legal only where every rule below agrees.
"""

from collections.abc import Sequence
from itertools import pairwise

from clew.context.items import Item
from clew.core.ids import CallId
from clew.core.messages import Reasoning, Role


def legal_cuts(items: Sequence[Item]) -> list[int]:
    """Return every index at which the items before it may go and those from it on may stay.

    Always contains 0, and `len(items)` when no call waits for its result.
    """
    waiting: set[CallId] = set()
    signed_loop = False
    cuts: list[int] = []
    for index, item in enumerate(items):
        starts_signed = _is_signed(item)
        if item.message.role is Role.USER:
            signed_loop = False
        if (
            not waiting
            and item.message.role is not Role.TOOL
            and (starts_signed or not signed_loop)
        ):
            cuts.append(index)
        signed_loop = signed_loop or starts_signed
        waiting |= {call.call_id for call in item.message.calls}
        waiting -= {result.call_id for result in item.message.results}
    if not waiting:
        cuts.append(len(items))
    return cuts if cuts[:1] == [0] else [0, *cuts]


def turn_starts(items: Sequence[Item]) -> list[int]:
    """Return the index of each user message: a turn is one and all up to the next."""
    return [index for index, item in enumerate(items) if item.message.role is Role.USER]


def batches(items: Sequence[Item]) -> list[range]:
    """Split the items into runs that must stay or go together: a call with its results."""
    cuts: list[int] = []
    waiting: set[CallId] = set()
    for index, item in enumerate(items):
        if not waiting and item.message.role is not Role.TOOL:
            cuts.append(index)
        waiting |= {call.call_id for call in item.message.calls}
        waiting -= {result.call_id for result in item.message.results}
    bounds = [*(cuts if cuts[:1] == [0] else [0, *cuts]), len(items)]
    return [range(start, stop) for start, stop in pairwise(bounds) if stop > start]


def _is_signed(item: Item) -> bool:
    return any(
        isinstance(part, Reasoning) and bool(part.signature or part.redacted)
        for part in item.message.parts
    )
