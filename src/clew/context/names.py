"""An index of the names in a conversation that nobody could guess: files, hashes, identifiers."""

import math
import re
from collections.abc import Sequence

from clew.context.passages import CALLED, Passage

_NAME = re.compile(
    r"(?<=/)[\w@.-]+\.\w{1,6}\b"  # a file, from the last part of its path
    r"|\b[0-9a-f]{7,40}\b"  # a hash
    r"|\b[A-Za-z_][A-Za-z0-9_]{11,}\b"  # a long identifier
)
_RECENCY, _CALL_RECENCY, _OFTEN, _FILE = 0.45, 0.30, 0.35, 0.7
_NEVER_CALLED = 10_000_000


def names(stretch: Sequence[Passage], *, known: str, max_chars: int) -> list[str]:
    """List the names of `stretch` that `known` does not contain, the likeliest first.

    Recent ones come first, above all those in recent tool calls. Joined with a comma and a
    space they are never longer than `max_chars`.
    """
    last: dict[str, int] = {}
    called: dict[str, int] = {}
    count: dict[str, int] = {}
    distance = 0
    for passage in reversed(stretch):
        distance += len(passage.text)
        for name in _NAME.findall(passage.text):
            count[name] = count.get(name, 0) + 1
            last.setdefault(name, distance)
            if passage.source == CALLED:
                called.setdefault(name, distance)

    def rank(name: str) -> float:
        score = -_RECENCY * math.log1p(last[name] / 1_000)
        score -= _CALL_RECENCY * math.log1p(called.get(name, _NEVER_CALLED) / 1_000)
        score += _OFTEN * math.log1p(count[name])
        return -(score + (_FILE if "." in name else 0.0))

    chosen: list[str] = []
    room = max_chars
    seen = set(_NAME.findall(known))
    for name in sorted(count, key=rank):
        if len(name) + 2 > room:
            break
        if name not in seen:
            chosen.append(name)
            room -= len(name) + 2
    return chosen
