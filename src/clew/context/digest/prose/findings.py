"""Findings: sentences of the conversation that are worth keeping, quoted under their topic.

Sources are the prose and the thinking of the model, and the reports of subagents. A sentence is
scored by its cues (`sentence_cues`), by its position in the answer and by its age. Of sentences
that say nearly the same, the newest is kept.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import groupby

from clew.context.digest.prose.agent_prose import (
    EDGE_WORTH,
    ItemProse,
    Prose,
    read_prose,
    select_prose,
)
from clew.context.digest.prose.sentence_cues import Topic, is_put_off
from clew.context.digest.prose.told_text import ToldText
from clew.context.items import Item
from clew.core.ids import EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A quoted sentence or list item."""

    entry_id: EntryId
    topic: Topic
    text: str
    lead: str = ""
    """The line that introduces the list it belongs to, such as `Remaining callers`."""
    score: float = 0.0
    order: int = 0
    """Its position in the conversation."""


_RECENCY = 0.45
_LEAST_SCORE = 0.5
_NOT_THOUGHT = frozenset({Topic.OUTCOME, Topic.OPEN})
"""What a model thinks on the way is done or open is told by its answers and by the state."""
_LATER_QUESTION, _LATER_ITEM = 1, 2
"""Number of later requests after which a question, or an open item, counts as settled."""


def list_statements(messages: Iterable[ItemProse]) -> list[Statement]:
    """Return every sentence that says something, with its topic and score, in order.

    `messages` are those of a conversation, as `read_prose` returns them.
    """
    found: list[Statement] = []
    prose = select_prose(messages)
    distance = sum([len(piece.text) for piece, _ in prose])
    last_turn = prose[-1][1] if prose else 0
    for piece, turn in prose:
        distance -= len(piece.text)
        sentences = piece.sentences
        if not sentences:
            continue
        age = _RECENCY * math.log1p(distance / 2_000)
        later = last_turn - turn
        for said in sentences:
            if piece.is_thought and said.topic in _NOT_THOUGHT:
                continue
            score = said.score + piece.weight
            is_open = said.topic is Topic.OPEN
            if score < _LEAST_SCORE or (is_open and _is_moot(piece, said.text, later)):
                continue
            found.append(
                Statement(
                    entry_id=piece.entry_id,
                    topic=said.topic,
                    text=said.text,
                    lead=said.lead,
                    score=score + (EDGE_WORTH if said.is_edge else 0.0) - age,
                    order=len(found),
                )
            )
    return found


def _is_moot(piece: Prose, sentence: str, later: int) -> bool:
    """Return whether a question or an open item is outdated, `later` requests afterwards."""
    if sentence.endswith("?"):
        return not piece.is_for_user or later > _LATER_QUESTION
    return later > _LATER_ITEM and not is_put_off(sentence)


_MOST_CANDIDATES = 800
_SIMILAR = 0.55
_COMPARED_WORDS = 5
_SHARED = 0.7
"""Share of the words of a statement that a newer one has which repeats it."""
_WORD = re.compile(r"[\w./-]{3,}")
_SHARES = {
    Topic.DECISION: 0.24, Topic.FAILURE: 0.18, Topic.DISCOVERY: 0.26, Topic.OUTCOME: 0.16,
    Topic.OPEN: 0.16,
}  # fmt: skip


def choose_findings(items: Iterable[Item], *, max_chars: int) -> dict[Topic, tuple[Statement, ...]]:
    """Choose the best statements of a conversation; see `rank_statements` and `fit_statements`."""
    return fit_statements(rank_statements(map(read_prose, items)), max_chars=max_chars)


def rank_statements(messages: Iterable[ItemProse]) -> list[Statement]:
    """Return the statements of a conversation that are worth keeping, best first."""
    statements = list_statements(messages)
    candidates = nlargest(_MOST_CANDIDATES, statements, key=lambda said: (said.score, said.order))
    return sorted(_drop_similar(candidates), key=lambda said: (-said.score, said.order))


def fit_statements(
    ranked: Sequence[Statement], *, max_chars: int, told: str = ""
) -> dict[Topic, tuple[Statement, ...]]:
    """Choose the first statements that fit, grouped by topic and oldest first.

    Rendered with `render_findings` they have at most `max_chars` characters. Each topic has a
    share of the room; what one does not need goes to the best statements of all topics. What
    the text `told` quotes already is not repeated.
    """
    chosen: dict[int, Statement] = {}
    written: set[tuple[Topic, EntryId, str]] = set()
    left = max_chars
    for shares in (_SHARES, dict.fromkeys(Topic, 1.0)):
        rooms = {topic: int(max_chars * share) for topic, share in shares.items()}
        for said in ranked:
            if said.order in chosen:
                continue
            cost = _measure(said, written)
            if cost > min(left, rooms[said.topic]):
                continue
            if said.text.rstrip("…") in told:
                continue
            chosen[said.order] = said
            written |= {(said.topic, said.entry_id, said.lead), _heading_key(said.topic)}
            rooms[said.topic] -= cost
            left -= cost
    ordered = [chosen[order] for order in sorted(chosen)]
    groups = {topic: tuple(said for said in ordered if said.topic is topic) for topic in Topic}
    return {topic: group for topic, group in groups.items() if group}


def drop_told(statements: list[Statement], notes: str) -> list[Statement]:
    """Return the statements that `notes` do not tell."""
    told = ToldText(notes)
    return [said for said in statements if not told.tells(said.text)]


def _drop_similar(statements: Iterable[Statement]) -> list[Statement]:
    """Return the statements without those that a newer one repeats.

    Only statements that share one of their longest words are compared.
    """
    kept: list[Statement] = []
    by_word: dict[str, list[frozenset[str]]] = {}
    for said in sorted(statements, key=lambda said: -said.order):
        words = frozenset(word.lower() for word in _WORD.findall(said.text))
        keys = sorted(words, key=lambda word: (-len(word), word))[:_COMPARED_WORDS]
        if any(_are_similar(words, others) for key in keys for others in by_word.get(key, ())):
            continue
        kept.append(said)
        for key in keys:
            by_word.setdefault(key, []).append(words)
    return kept


def _are_similar(words: frozenset[str], newer: frozenset[str]) -> bool:
    """Return whether `newer` has most of `words`, or more than half of all words are in both."""
    shared = len(words & newer)
    return shared >= min(_SHARED * len(words), _SIMILAR * (len(words) + len(newer) - shared))


def _heading_key(topic: Topic) -> tuple[Topic, EntryId, str]:
    return topic, EntryId(-1), "\n"


def _measure(said: Statement, written: set[tuple[Topic, EntryId, str]]) -> int:
    """Return the characters that a statement adds, with its heading and lead if they are new."""
    cost = 0 if _heading_key(said.topic) in written else len(said.topic) + 2
    if said.lead and (said.topic, said.entry_id, said.lead) not in written:
        cost += len(_cite(said)) + len(said.lead) + 4
    return cost + len(said.text) + (5 if said.lead else len(_cite(said)) + 3)


def _cite(said: Statement) -> str:
    return f"#{said.entry_id} " if said.entry_id > 0 else ""


def render_findings(groups: Mapping[Topic, Sequence[Statement]]) -> str:
    """Write statements under the headings of their topics, each with its entry number.

    List items with the same introduction are written below it.
    """
    lines: list[str] = []
    for topic, statements in groups.items():
        lines.append(f"{topic}:")
        for (_, lead), group in groupby(statements, key=lambda said: (said.entry_id, said.lead)):
            same = list(group)
            cited = f"- {_cite(same[0])}"
            if not lead:
                lines += [f"{cited}{said.text}" for said in same]
            elif len(same) == 1:
                lines.append(f"{cited}{lead}: {same[0].text}")
            else:
                lines.append(f"{cited}{lead}:")
                lines += [f"  - {said.text}" for said in same]
    return "\n".join(lines)
