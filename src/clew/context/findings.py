"""Findings: sentences of the conversation that are worth keeping, quoted under their topic.

Sources are the prose of the model and the reports of subagents. A sentence is scored by its cues
(`sentence_cues`), by its position in the answer and by its age. Of sentences that say nearly the
same, the newest is kept.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import groupby

import msgspec

from clew.context.cleared_results import DELEGATION_TOOLS
from clew.context.items import Item, ItemKind
from clew.context.sentence_cues import Topic, classify_sentence, is_narration
from clew.context.user_words import find_request
from clew.core.ids import EntryId
from clew.core.text import one_line, shorten_links


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


@dataclass(frozen=True, slots=True)
class _Prose:
    entry_id: EntryId
    text: str
    weight: float
    turn: int


_FINAL_ANSWER, _REPORT, _EDGE = 1.5, 0.5, 0.8
_RECENCY = 0.45
_LEAST_SCORE = 2.0
_SETTLED_PER_TURN, _MOST_SETTLED = 1.0, 3.0
"""What a question or a next step loses with each later request: the user has replied to it."""


def list_statements(items: Iterable[Item]) -> list[Statement]:
    """Return every sentence with a cue, with its topic and score, in order."""
    found: list[Statement] = []
    prose = _select_prose(items)
    distance = sum(len(piece.text) for piece in prose)
    last_turn = prose[-1].turn if prose else 0
    for piece in prose:
        distance -= len(piece.text)
        age = _RECENCY * math.log1p(distance / 2_000)
        settled = min(_SETTLED_PER_TURN * (last_turn - piece.turn), _MOST_SETTLED)
        units = list(_split_units(piece.text))
        for place, (lead, sentence) in enumerate(units):
            classified = classify_sentence(sentence, lead=lead)
            if classified is None:
                continue
            topic, score = classified
            score += piece.weight
            asked = sentence.endswith("?")
            moot = asked and (piece.weight == _REPORT or last_turn - piece.turn > 1)
            if score < _LEAST_SCORE or moot:
                continue
            score -= age
            score += _EDGE if place < 2 or place >= len(units) - 3 else 0.0
            score -= settled if topic is Topic.OPEN else 0.0
            found.append(
                Statement(
                    entry_id=piece.entry_id,
                    topic=topic,
                    text=sentence,
                    lead=lead,
                    score=score,
                    order=len(found),
                )
            )
    return found


def _select_prose(items: Iterable[Item]) -> list[_Prose]:
    """Return the prose that is read: all of the newest, and of the rest the final answers."""
    selected: list[_Prose] = []
    room = _NEWEST_CHARS
    for piece in reversed(list(_list_prose(items))):
        room -= len(piece.text)
        if room >= 0:
            selected.append(piece)
        elif piece.weight:
            selected.append(replace(piece, text=_cut(piece.text, _OLD_ANSWER_CHARS)))
    return selected[::-1]


def _list_prose(items: Iterable[Item]) -> Iterator[_Prose]:
    """Yield prose with its weight: final answers and reports say more than narration."""
    turn = 0
    for item in items:
        if item.kind is ItemKind.ASSISTANT:
            text = item.message.text
            if text.strip():
                yield _Prose(item.entry_id, _cut(text), 0.0 if item.asks else _FINAL_ANSWER, turn)
        elif item.kind is ItemKind.TOOL_RESULT:
            for result in item.message.results:
                if result.name in DELEGATION_TOOLS and not result.failed:
                    yield _Prose(item.entry_id, _cut(result.text), _REPORT, turn)
        elif item.kind is ItemKind.USER:
            turn += bool(find_request(item.message.text))
            for report in _find_reports(item.message.text):
                yield _Prose(item.entry_id, _cut(report), _REPORT, turn)


_NOTIFIED = re.compile(r"<task-notification>.*?<result>(.*?)</result>", re.DOTALL)
_SUBAGENT = re.compile(r"<subagent_notification>\s*(\{.*?\})\s*</subagent_notification>", re.DOTALL)


class _Status(msgspec.Struct, frozen=True):
    completed: str | None = None


class _Notification(msgspec.Struct, frozen=True):
    status: _Status | str = ""


_notification = msgspec.json.Decoder(_Notification)


def _find_reports(text: str) -> Iterator[str]:
    """Yield the reports of subagents that a program put into a user message."""
    if "notification>" not in text:
        return
    yield from _NOTIFIED.findall(text)
    for data in _SUBAGENT.findall(text):
        try:
            status = _notification.decode(data).status
        except msgspec.DecodeError:
            continue
        if isinstance(status, _Status) and status.completed:
            yield status.completed


_READ_CHARS = 12_000
"""Characters of one message that are read."""
_NEWEST_CHARS = 200_000
_OLD_ANSWER_CHARS = 3_000
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*?^[ \t]*(?:```|~~~)[ \t]*$", re.DOTALL | re.MULTILINE)
_BULLET = re.compile(r"^\s*(?:[-*•+]|\d{1,2}[.)])\s+")
_SENTENCE = re.compile(
    r"(?<=[.!?])[\"'”)*`]*\s+(?=[\"'“(*`A-Z0-9À-Ý])|(?<=[\u3002\uff01\uff1f])"  # also in CJK
)
_DEPENDENT = re.compile(
    r"^(?:this|that|these|those|it|they|so|but|and|which|however|therefore|thus|because)\b",
    re.IGNORECASE,
)
_TABLE_RULE = re.compile(r"^[\s|:+-]+$")
_LEAST, _MOST, _MOST_LEAD = 25, 420, 120


def _cut(text: str, most: int = _READ_CHARS) -> str:
    """Return the beginning and the end of a long text."""
    return text if len(text) <= most else f"{text[: most // 2]}\n\n{text[-most // 2 :]}"


def _split_units(text: str) -> Iterator[tuple[str, str]]:
    """Yield sentences and list items, each with the line that introduces it."""
    lead, listed = "", ""
    for raw in _FENCE.sub("\n", text).splitlines():
        line = raw.strip()
        if not line or _TABLE_RULE.match(line):
            continue
        bullet = _BULLET.match(raw)
        plain = _clean(raw[bullet.end() :] if bullet else line)
        if not bullet and (line.startswith("#") or plain.endswith(":")):
            lead, listed = _make_lead(plain), ""
        elif bullet or line.startswith("|"):
            mark = "-" if bullet else "|"
            lead = lead if listed in {"", mark} else ""
            listed = mark
            if len(plain) >= _LEAST:
                yield lead, one_line(plain, _MOST)
        else:
            yield from (("", sentence) for sentence in _split_sentences(plain))
            lead, listed = "", ""


def _make_lead(line: str) -> str:
    """Return the last sentence of a line that introduces a list; empty if it says nothing."""
    lead = _SENTENCE.split(line)[-1].rstrip(": ")
    return "" if is_narration(lead) or len(lead) > _MOST_LEAD else lead


def _split_sentences(paragraph: str) -> Iterator[str]:
    """Yield the sentences of a paragraph; one that depends on the previous is joined to it."""
    previous = ""
    for sentence in _SENTENCE.split(paragraph):
        joins = previous and _DEPENDENT.match(sentence) and len(previous) < _MOST // 2
        if not joins and len(previous) >= _LEAST:
            yield one_line(previous, _MOST)
        previous = f"{previous} {sentence}" if joins else sentence
    if len(previous) >= _LEAST:
        yield one_line(previous, _MOST)


def _clean(line: str) -> str:
    return shorten_links(line).replace("**", "").strip().strip("|").lstrip("#>").strip()


_MOST_CANDIDATES = 800
_SIMILAR = 0.55
_COMPARED_WORDS = 5
_WORD = re.compile(r"[\w./-]{3,}")
_SHARES = {
    Topic.DECISION: 0.24, Topic.FAILURE: 0.18, Topic.DISCOVERY: 0.26, Topic.OUTCOME: 0.16,
    Topic.OPEN: 0.16,
}  # fmt: skip


def choose_findings(items: Iterable[Item], *, max_chars: int) -> dict[Topic, tuple[Statement, ...]]:
    """Choose the best statements of a conversation; see `rank_statements` and `fit_statements`."""
    return fit_statements(rank_statements(items), max_chars=max_chars)


def rank_statements(items: Iterable[Item]) -> list[Statement]:
    """Return the statements of a conversation that are worth keeping, best first."""
    candidates = nlargest(
        _MOST_CANDIDATES, list_statements(items), key=lambda said: (said.score, said.order)
    )
    return sorted(_drop_similar(candidates), key=lambda said: (-said.score, said.order))


def fit_statements(
    ranked: Sequence[Statement], *, max_chars: int
) -> dict[Topic, tuple[Statement, ...]]:
    """Choose the first statements that fit, grouped by topic and oldest first.

    Rendered with `render_findings` they have at most `max_chars` characters. Each topic has a
    share of the room; what one does not need goes to the best statements of all topics.
    """
    chosen: dict[int, Statement] = {}
    written: set[tuple[Topic, EntryId, str]] = set()
    left = max_chars
    for shares in (_SHARES, dict.fromkeys(Topic, 1.0)):
        rooms = {topic: int(max_chars * share) for topic, share in shares.items()}
        for said in ranked:
            cost = _measure(said, written)
            if said.order in chosen or cost > min(left, rooms[said.topic]):
                continue
            chosen[said.order] = said
            written |= {(said.topic, said.entry_id, said.lead), _heading_key(said.topic)}
            rooms[said.topic] -= cost
            left -= cost
    ordered = [chosen[order] for order in sorted(chosen)]
    groups = {topic: tuple(said for said in ordered if said.topic is topic) for topic in Topic}
    return {topic: group for topic, group in groups.items() if group}


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


def _are_similar(words: frozenset[str], others: frozenset[str]) -> bool:
    smaller, larger = sorted((len(words), len(others)))
    if smaller < _SIMILAR * larger:
        return False
    shared = len(words & others)
    return shared >= _SIMILAR * (smaller + larger - shared)


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
