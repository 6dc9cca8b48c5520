"""Set the `cache_control` breakpoints of a request.

The API caches what precedes a breakpoint and looks it up for later requests. Breakpoints are set on
copies: the cached messages stay unmarked, so that a longer request repeats the bytes of a shorter
one.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from clew.providers.wire.anthropic.turns import ASSISTANT, WHOLE, EncodedTurn, make_turn

FIELD = "cache_control"
MAX_BREAKPOINTS = 4
"""The API's maximum per request."""
LOOKBACK_BLOCKS = 20
"""How many blocks before a breakpoint the API searches for an earlier cache entry."""

_ELIGIBLE = tuple(
    b'{"type":"%b"' % kind for kind in (b"text", b"tool_use", b"tool_result", b"image", b"document")
)

Fragment: TypeAlias = tuple[EncodedTurn, ...]


def make_cache_control(ttl: str) -> dict[str, str]:
    """Return the value of `cache_control`; five minutes is the API's default."""
    return {"type": "ephemeral", "ttl": ttl} if ttl not in {"", "5m"} else {"type": "ephemeral"}


def choose_breakpoints(fragments: Sequence[Fragment], settled: int) -> list[int]:
    """Return the message counts after which to set breakpoints, the most useful first.

    Always after the last message and after the settled ones. Also where the previous request ended,
    if that is out of the lookback range.
    """
    found = [len(fragments)]
    before, blocks = _last_end(fragments)
    if before and blocks >= LOOKBACK_BLOCKS:
        found.append(before)
    if settled > 0:
        found.append(min(settled, len(fragments)))
    return found


def _last_end(fragments: Sequence[Fragment]) -> tuple[int, int]:
    """Return where the previous request ended, and how many blocks have been added since."""
    place, blocks = len(fragments), 0
    for answers in (False, True):
        while place and (not fragments[place - 1] or _is_answer(fragments[place - 1]) is answers):
            place -= 1
            blocks += sum(len(piece.ends) for piece in fragments[place])
    return place, blocks


def add_breakpoints(fragments: Iterable[Fragment], ends: Iterable[int], ttl: str) -> list[Fragment]:
    """Return copies with a breakpoint on the last block before each end that can have one."""
    found = list(fragments)
    splice = b',"%b":%b}' % (FIELD.encode(), msgspec.json.encode(make_cache_control(ttl)))
    for end in ends:
        for place in range(end - 1, -1, -1):
            made = _mark_breakpoint(found[place], splice)
            if made is not None:
                found[place] = made
                break
    return found


def _mark_breakpoint(fragment: Fragment, splice: bytes) -> Fragment | None:
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
    """Return the last block that may have a breakpoint: no thinking, no native block."""
    for place in range(len(blocks) - 1, -1, -1):
        if blocks[place].startswith(_ELIGIBLE):
            return place
    return None


def _is_answer(fragment: Fragment) -> bool:
    return any(piece.role == ASSISTANT for piece in fragment)
