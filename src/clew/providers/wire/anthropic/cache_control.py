"""Where a request tells the provider to remember its beginning.

The API remembers what stands before a mark and finds it again for a later request. A mark is
set on a copy: what is kept of the messages stays unmarked, so that a longer request repeats
the bytes of a shorter one.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from clew.providers.wire.anthropic.turns import ASSISTANT, WHOLE, EncodedTurn, make_turn

FIELD = "cache_control"
MAX_BREAKPOINTS = 4
"""Marks that the API takes in one request."""
LOOKBACK_BLOCKS = 20
"""Blocks before a mark in which the API looks for what an earlier request left."""

_ELIGIBLE = tuple(
    b'{"type":"%b"' % kind for kind in (b"text", b"tool_use", b"tool_result", b"image", b"document")
)

Fragment: TypeAlias = tuple[EncodedTurn, ...]


def make_cache_control(ttl: str) -> dict[str, str]:
    """Return the mark itself; five minutes is what the API takes for granted."""
    return {"type": "ephemeral", "ttl": ttl} if ttl not in {"", "5m"} else {"type": "ephemeral"}


def choose_breakpoints(fragments: Sequence[Fragment], settled: int) -> list[int]:
    """Return before which messages to set a mark, the most useful first.

    Always after the last message, and after those that the next requests are sure to repeat.
    Where the last request ended out of reach of this one's end, there too.
    """
    found = [len(fragments)]
    before, blocks = _last_end(fragments)
    if before and blocks >= LOOKBACK_BLOCKS:
        found.append(before)
    if settled > 0:
        found.append(min(settled, len(fragments)))
    return found


def _last_end(fragments: Sequence[Fragment]) -> tuple[int, int]:
    """Return where the request before this one ended, and how many blocks have come since."""
    place, blocks = len(fragments), 0
    for answers in (False, True):
        while place and (not fragments[place - 1] or _is_answer(fragments[place - 1]) is answers):
            place -= 1
            blocks += sum(len(piece.ends) for piece in fragments[place])
    return place, blocks


def add_breakpoints(fragments: Iterable[Fragment], ends: Iterable[int], ttl: str) -> list[Fragment]:
    """Return the fragments with a mark on the nearest block that can bear one before each end."""
    found = list(fragments)
    splice = b',"%b":%b}' % (FIELD.encode(), msgspec.json.encode(make_cache_control(ttl)))
    for end in ends:
        for place in range(end - 1, -1, -1):
            made = _marked(found[place], splice)
            if made is not None:
                found[place] = made
                break
    return found


def _marked(fragment: Fragment, splice: bytes) -> Fragment | None:
    for place in range(len(fragment) - 1, -1, -1):
        piece = fragment[place]
        blocks = piece.blocks() if piece.role != WHOLE else []
        at = _last_eligible(blocks)
        if at is None:
            continue
        if b'"%b":' % FIELD.encode() in blocks[at]:
            return fragment
        blocks[at] = blocks[at][:-1] + splice
        made = make_turn(piece.role, blocks, piece.results)
        made = replace(piece, data=made.data, ends=made.ends)
        return (*fragment[:place], made, *fragment[place + 1 :])
    return None


def _last_eligible(blocks: Sequence[bytes]) -> int | None:
    """Return the last block that may be marked: no thinking, and no block of another's making."""
    for place in range(len(blocks) - 1, -1, -1):
        if blocks[place].startswith(_ELIGIBLE):
            return place
    return None


def _is_answer(fragment: Fragment) -> bool:
    return any(piece.role == ASSISTANT for piece in fragment)
