"""`MemoryCandidateExtractor`: sentences in which somebody says that a thing is to be remembered."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from clew.core.text import one_line
from clew.extensions.memory.facts import Kind
from clew.extensions.memory.topics import DEFAULT_TOPIC

_MAX_TEXT = 240
"""Characters of a candidate; what is longer is no fact but a story."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A fact that somebody came across."""

    text: str
    kind: Kind
    confidence: float
    topic: str = DEFAULT_TOPIC


class Cue(Struct, frozen=True):
    """Words that announce a fact, in the group `fact` of a pattern."""

    pattern: re.Pattern[str]
    kind: Kind
    confidence: float


def cue(pattern: str, kind: Kind, confidence: float) -> Cue:
    """Return a cue; case does not count, and the pattern must match a sentence from its start."""
    return Cue(re.compile(pattern, re.IGNORECASE), kind, confidence)


CUES: Final[tuple[Cue, ...]] = (
    cue(r"(?:please |and )?remember (?:that |to |this: ?|: ?)(?P<fact>.+)", "project", 0.9),
    cue(r"(?:for|as) (?:future )?reference[,:] ?(?P<fact>.+)", "reference", 0.9),
    cue(r"(?:please )?(?P<fact>(?:don't|do not|never|always) (?!mind).+)", "feedback", 0.75),
    cue(r"(?:from now on|in future|in the future)[,:]? (?P<fact>.+)", "feedback", 0.85),
    cue(r"(?P<fact>(?:I|we) (?:always |usually |strongly )?prefer .+)", "user", 0.75),
    cue(r"(?P<fact>(?:I am|I'm|my name is|call me) .+)", "user", 0.6),
    cue(r"(?P<fact>(?:this|our|the) project (?:uses|needs|requires|has) .+)", "project", 0.75),
    cue(r"(?P<fact>.+?)(?:을|를|다는 것을|라는 것을)? 기억해.*", "project", 0.9),
)
_SENTENCE_END = re.compile(r"(?<=[.!?。])\s+|\n+")
_FENCE = re.compile(r"^[ \t]*(```|~~~).*?^[ \t]*\1[^\n]*$", re.MULTILINE | re.DOTALL)
_LEAD = re.compile(r"^(?:[-*+>]\s+)+")


class MemoryCandidateExtractor:
    """Finds candidates by cues; it decides nothing and keeps nothing.

    Args:
        cues: What announces a fact. In a sentence the first one that matches counts.
    """

    def __init__(self, cues: Sequence[Cue] = CUES) -> None:
        self._cues = tuple(cues)

    def extract(self, text: str) -> tuple[Candidate, ...]:
        """Return the candidates of a text in their order, each once. Code is passed over."""
        found: dict[str, Candidate] = {}
        for sentence in _sentences(text):
            if candidate := self._candidate(sentence):
                found.setdefault(candidate.text.casefold(), candidate)
        return tuple(found.values())

    def _candidate(self, sentence: str) -> Candidate | None:
        if len(sentence) > _MAX_TEXT or sentence.endswith("?"):
            return None
        for known in self._cues:
            if match := known.pattern.fullmatch(sentence):
                fact = match["fact"].strip(" .!。")
                if fact:
                    return Candidate(text=fact, kind=known.kind, confidence=known.confidence)
        return None


def _sentences(text: str) -> Iterator[str]:
    for piece in _SENTENCE_END.split(_FENCE.sub("\n", text)):
        if sentence := _LEAD.sub("", one_line(piece)):
            yield sentence
