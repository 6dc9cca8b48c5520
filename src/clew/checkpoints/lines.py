"""How many lines two versions of a file differ by."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile

_MOST_BYTES = 4_000_000
_MOST_LINES = 2_000
"""Above this many lines that are not the same, all of them count: difflib is quadratic."""
_SAMPLE = 8_192


def changed_lines(before: bytes, after: bytes) -> tuple[int, int] | None:
    """Return how many lines were added and removed; None for what is no text, or too long."""
    if max(len(before), len(after)) > _MOST_BYTES or _is_binary(before) or _is_binary(after):
        return None
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head = _shared(old, new)
    old, new = old[head:], new[head:]
    tail = _shared(old[::-1], new[::-1])
    old, new = old[: len(old) - tail], new[: len(new) - tail]
    if max(len(old), len(new)) > _MOST_LINES:
        return len(new), len(old)
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in blocks)
    return len(new) - same, len(old) - same


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_SAMPLE]


def _shared(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
