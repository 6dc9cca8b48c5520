"""The questions of a blind test: their kinds, how many of each, and from which part of the text."""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import chain
from types import MappingProxyType

from msgspec import Struct

QUESTIONS = 12
"""Questions about each case, unless another number is given."""
GRADES = (0.0, 0.5, 1.0)
NOT_IN_TEXT = "not in the text"

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "goal": "what the user wants, and why; the current request",
        "rule": "what the user demanded, preferred, corrected or rejected",
        "decision": "what was decided, and the reason",
        "failure": "what was tried and did not work; errors and their cause",
        "state": "what is done and what is not; last result of a check; what is committed or only"
        " local",
        "next step": "what comes next; open items",
        "fact": "exact names, values, paths, commands, results of a search",
    }
)
"""What each kind of question asks about."""
_SHARES = {
    "goal": 1,
    "rule": 2,
    "decision": 2,
    "failure": 1,
    "state": 2,
    "next step": 1,
    "fact": 3,
}
"""How many of twelve questions are of each kind."""
_FIRST, _LAST = ("goal",), ("state", "next step")
"""Kinds to ask about the beginning and about the end of a text."""


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question about a case, with the answer from the full text."""

    kind: str
    question: str
    reference: str

    @property
    def key(self) -> str:
        """Identifies the question and its answer."""
        return digest(self.kind, self.question, self.reference)


class QuestionTask(Struct, frozen=True, kw_only=True):
    """What a writer is asked for in one call."""

    piece: int
    """The piece of the text to read, from 0."""
    kinds: tuple[str, ...]
    """The kinds of the questions to write."""


def count_kinds(count: int) -> dict[str, int]:
    """Return how many of `count` questions are of each kind, as close to the shares as possible."""
    total = sum(_SHARES.values())
    exact = {kind: count * share / total for kind, share in _SHARES.items()}
    counts = {kind: int(number) for kind, number in exact.items()}
    by_rest = sorted(exact, key=lambda kind: (counts[kind] - exact[kind], -_SHARES[kind]))
    for kind in by_rest[: count - sum(counts.values())]:
        counts[kind] += 1
    return counts


def plan_questions(count: int, *, pieces: int, most: int) -> list[QuestionTask]:
    """Divide `count` questions between the pieces of a text.

    The questions are spread over the whole text. The goal is asked about at the beginning, the
    state and the next step at the end, where nothing changes them later.

    Args:
        count: The number of questions.
        pieces: The number of pieces; if there are more than questions, some are not read.
        most: The most questions for one call.
    """
    by_piece: dict[int, list[str]] = {}
    for place, kind in enumerate(_order_kinds(count)):
        if pieces <= count:
            piece = place * pieces // count
        else:
            piece = round(place * (pieces - 1) / (count - 1)) if count > 1 else pieces - 1
        by_piece.setdefault(piece, []).append(kind)
    return [
        QuestionTask(piece=piece, kinds=tuple(kinds[start : start + most]))
        for piece, kinds in by_piece.items()
        for start in range(0, len(kinds), most)
    ]


def digest(*texts: str) -> str:
    """Return a short text that identifies these texts in their order."""
    whole = hashlib.sha256()
    for text in texts:
        data = text.encode(errors="surrogatepass")
        whole.update(b"%d:" % len(data))
        whole.update(data)
    return whole.hexdigest()[:16]


def _order_kinds(count: int) -> Iterator[str]:
    counts = count_kinds(count)
    middle = [kind for kind in counts if kind not in (*_FIRST, *_LAST)]
    turns = max((counts[kind] for kind in middle), default=0)
    return chain(
        (kind for kind in _FIRST for _ in range(counts[kind])),
        (kind for turn in range(turns) for kind in middle if turn < counts[kind]),
        (kind for kind in _LAST for _ in range(counts[kind])),
    )
