"""Remarks: what a plain conversation said, chosen so that most of its content is covered.

A conversation without tools has no files, checks or identifiers to list. Later questions are
usually about names, dates, numbers and details, whenever they were said. So messages are chosen
by what they say per character: for the rare words that they add to those already chosen.
Greetings, thanks and repetitions add few, so they leave first. Whole messages come before parts
of longer ones, and the answer that ends a turn before what the model says on the way to it.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from clew.context.digest.prose.sentence_cues import is_narration
from clew.context.digest.user_words import find_request
from clew.context.items import Item, ItemKind
from clew.context.lazy_list import lazy_property
from clew.core.ids import NO_ENTRY, EntryId
from clew.core.text import truncate

_WORD = re.compile(r"[^\W_][^\W'’-]*")
_IDENTIFIER = re.compile(r"\d|_|(?<=.)[A-Z]")
"""Signs of a number, a code or a name like `user_id` and `userId`."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Scripts without spaces between words; pairs of their characters count as words."""
_PAIR = re.compile(r"(?=([^\W\d_]{2}))|(\d+)")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")
_SPOKEN = re.compile(r"(?:#\d+ )?(user|assistant): ")
_HEADING = re.compile(r"#{1,6} [^\n]{1,150}|\*\*[^*\n]{1,80}\*\*:?|[^\n]{1,150}:|-{3,}")
_PART_CHARS = 1200
"""Where a message is split, a paragraph that is not longer is one part."""
_PARTICULAR = 3.0
"""Weight of a number or a name, relative to another word."""
_REPEATED = 0.3
"""What is left of the value of a word each time it was chosen already."""
_AGING, _USER_AGING = 0.3, 0.1
"""How fast the worth of a remark falls with the characters after it: slowly, because questions
return to what was said long ago. What the user told stays true for longer than what the model
reports, which the work that follows replaces."""
_REACH = 1 / 3
"""Distance from which on it falls, in lengths of the digest."""
_INTERIM = 0.6
"""Weight of what the model says before the answer that ends its turn, which tells the outcome."""
_PART = 0.3
"""Weight of a part of a message, relative to a whole one: the densest part of a long message
would otherwise take the room of several that can be read in full."""
_LEAST_PART = 160
"""Characters; in less room no message is quoted in parts."""
_GAP, _GAP_CHARS = "…", 3
_MOST_READ = 400_000
"""Characters of the newest text that are read."""


@dataclass(frozen=True)
class Remark:
    """A message, or a part of one that is too long."""

    entry_id: EntryId
    role: str
    text: str
    place: int
    """The position of its message among those of the conversation."""
    part: int = 0
    """Its number among the parts of its message, from 1; 0 if it is the whole."""
    is_interim: bool = False
    """True if an answer of the model follows it, before the user's next message."""

    @lazy_property
    def head(self) -> str:
        """What precedes the first remark of a message: its entry and who said it."""
        return f"#{self.entry_id} {self.role}: " if self.entry_id > 0 else f"{self.role}: "

    @property
    def chars(self) -> int:
        """What it takes as a line of its own, with a mark of what is omitted before it."""
        mark = 0 if self.entry_id > 0 else len(_GAP) + 1
        return len(self.head) + len(self.text) + 1 + mark

    @lazy_property
    def words(self) -> dict[str, float]:
        """Its words; numbers and names weigh more."""
        return _weigh_words(self.text)

    @lazy_property
    def parts(self) -> list["Remark"]:
        """Its paragraphs, or the sentences of those that are long; none of a part."""
        texts = [] if self.part else _split(self.text)
        return [replace(self, text=text, part=part) for part, text in enumerate(texts, start=1)]


def list_remarks(items: Sequence[Item]) -> list[Remark]:
    """Return what the user and the model said, in order: one remark for each message."""
    found: list[Remark] = []
    start, chars = len(items), 0
    while start > 0 and chars < _MOST_READ:
        start -= 1
        chars += len(items[start].message.text)
    for item in items[start:]:
        if item.kind is ItemKind.USER:
            said = [("user", find_request(item.message.text))]
        elif item.entry_id == NO_ENTRY and item.kind is ItemKind.ASSISTANT:
            said = list(_read_digest(item.message.text))
        elif item.kind is ItemKind.ASSISTANT:
            said = [("assistant", item.message.text.strip())]
        else:
            continue
        for role, text in said:
            if text:
                found.append(Remark(item.entry_id, role, text, len(found)))
    _mark_interim(found)
    return found


def _mark_interim(remarks: list[Remark]) -> None:
    """Mark what the model said in a turn before its last remark that is not an announcement."""
    is_answered = False
    for place in range(len(remarks) - 1, -1, -1):
        one = remarks[place]
        if one.role == "user":
            is_answered = False
        elif is_answered:
            remarks[place] = replace(one, is_interim=one.entry_id != NO_ENTRY)
        else:
            is_answered = "\n" in one.text or not is_narration(one.text)


def _read_digest(text: str) -> Iterator[tuple[str, str]]:
    """Read the remarks of an earlier digest, which takes the place of the messages before it."""
    role = "assistant"
    for line in text.split("\n"):
        spoken = _SPOKEN.match(line)
        if spoken:
            role = spoken.group(1)
        if line and line != _GAP:
            yield role, line[spoken.end() :] if spoken else line


def _split(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, or the sentences of long ones.

    A heading is a part of what follows it: alone it tells nothing.
    """
    heading = ""
    for paragraph in text.split("\n\n"):
        if _HEADING.fullmatch(paragraph.strip()):
            heading += f"{paragraph.strip()}\n"
            continue
        pieces = [paragraph] if len(paragraph) <= _PART_CHARS else _SENTENCE.split(paragraph)
        for piece in pieces:
            line = piece.strip()
            if line:
                yield heading + truncate(line, _PART_CHARS)
                heading = ""
    if heading:
        yield heading.strip()


_MOST_DELAYS = 4
"""Remarks are compared again this often; more would take long where all say nearly the same."""


class _Scale:
    """Weighs remarks by what they add, per character, to what is said already."""

    def __init__(
        self, remarks: Sequence[Remark], rarity: Mapping[str, float], *, max_chars: int
    ) -> None:
        self._rarity = rarity
        self._reach = max(1, max_chars * _REACH)
        self._distances = dict(_measure_distances(remarks))
        self._said: Counter[str] = Counter()
        self._words: dict[tuple[int, int], Mapping[str, float]] = {}
        """The words of each remark with their weights, more for rare ones."""

    def add(self, remark: Remark) -> None:
        """Count a remark as said."""
        self._said.update(remark.words.keys())

    def weigh(self, remark: Remark) -> float:
        """Return how much a remark adds for its length; newer and whole ones weigh more."""
        aging = _USER_AGING if remark.role == "user" else _AGING
        age = math.pow(1 + self._distances[remark.place] / self._reach, aging)
        worth = self._measure_words(remark) / age / remark.chars
        if remark.is_interim:
            worth *= _INTERIM
        return worth * _PART if remark.part else worth

    def _measure_words(self, remark: Remark) -> float:
        key = remark.place, remark.part
        words = self._words.get(key)
        if words is None:
            rarity = self._rarity
            words = {word: rarity.get(word, 1.0) * one for word, one in remark.words.items()}
            self._words[key] = words
        said = self._said
        again = [words[word] * (1 - _REPEATED ** said[word]) for word in words.keys() & said.keys()]
        return sum(words.values()) - math.fsum(again)


def choose_remarks(
    remarks: Sequence[Remark],
    rarity: Mapping[str, float],
    *,
    max_chars: int,
    chosen: Iterable[int] = (),
) -> list[Remark]:
    """Return the remarks to quote, in order; parts of those that do not fit.

    Written with `render_remarks` they have at most `max_chars` characters. Those with the
    indices in `chosen` are taken in any case and count as said. `rarity` is of `measure_rarity`.
    """
    scale = _Scale(remarks, rarity, max_chars=max_chars)
    taken: list[Remark] = []
    places: set[int] = set()
    room = max_chars

    def take(remark: Remark, cost: int) -> None:
        nonlocal room
        taken.append(remark)
        places.add(remark.place)
        scale.add(remark)
        room -= cost

    for index in dict.fromkeys(chosen):
        take(remarks[index], remarks[index].chars)
    newest = {remark.text: remark for remark in remarks}
    done = {(one.place, one.part) for one in taken}
    waiting = [one for one in newest.values() if (one.place, one.part) not in done]
    queue = [(-scale.weigh(one), -one.place, one.part, 0, one) for one in waiting]
    heapify(queue)
    while queue and room > 0:
        _, order, part, delays, remark = heappop(queue)
        now = -scale.weigh(remark)
        if queue and now > queue[0][0] and delays < _MOST_DELAYS:
            # What was chosen since has made it worth less.
            heappush(queue, (now, order, part, delays + 1, remark))
            continue
        cost = len(remark.text) + _GAP_CHARS if remark.place in places else remark.chars
        if cost <= room:
            take(remark, cost)
        elif room >= _LEAST_PART and len(remark.parts) > 1:
            fresh = [one for one in remark.parts if newest.setdefault(one.text, one) is one]
            for one in fresh:
                heappush(queue, (-scale.weigh(one), order, one.part, 0, one))
    return sorted(taken, key=lambda one: (one.place, one.part))


def _measure_distances(remarks: Sequence[Remark]) -> Iterator[tuple[int, int]]:
    """Yield the place of each remark, and the characters from its beginning to the end."""
    chars = 0
    for remark in reversed(remarks):
        chars += len(remark.text)
        yield remark.place, chars


def measure_rarity(remarks: Sequence[Remark]) -> dict[str, float]:
    """Return how rare each word is: 1 for a word of one message, 0 for one that all have.

    The square makes the words of many messages count for little: no number of them tells as much
    as a name.
    """
    spread = Counter(word for remark in remarks for word in remark.words)
    most = math.log(len(remarks) + 1)
    return {word: (1 - math.log(count) / most) ** 2 for word, count in spread.items()}


def _weigh_words(text: str) -> dict[str, float]:
    """Return the words of a remark; numbers and names inside of a sentence weigh more."""
    weights: dict[str, float] = {}
    for found in _WORD.finditer(text):
        word = found.group()
        if not word.isascii() and _UNSPACED.search(word):
            for pair, number in _PAIR.findall(word):
                weights[pair or number] = 1.0 if pair else _PARTICULAR
            continue
        is_name = word[0].isupper() and text[max(0, found.start() - 2) : found.start()].strip(
            " \"'(,"
        ) not in ("", ".", "!", "?")
        special = is_name or _IDENTIFIER.search(word) is not None
        weights[word.casefold()] = _PARTICULAR if special else 1.0
    return weights


def render_remarks(remarks: Iterable[Remark]) -> str:
    """Write remarks, one line per message; `…` marks what is omitted in it.

    Between messages without numbers, a line with `…` marks those that are omitted.
    """
    lines: list[str] = []
    place, part = -1, 0
    for remark in remarks:
        if remark.place == place:
            lines[-1] += (" " if remark.part == part + 1 else f" {_GAP} ") + remark.text
        else:
            if remark.place != place + 1 and remark.entry_id <= 0:
                lines.append(_GAP)
            lines.append(remark.head + remark.text)
        place, part = remark.place, remark.part
    return "\n".join(lines)
