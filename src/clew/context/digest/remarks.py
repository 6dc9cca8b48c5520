"""Remarks: what a plain conversation said, chosen so that most of its content is covered.

A conversation without tools has no files, checks or identifiers to list. Later questions are
usually about names, dates, numbers and details. So sentences are chosen for the rare words that
they add to those already chosen; greetings and repetitions add none.
"""

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import accumulate

from clew.context.digest.user_words import find_request
from clew.context.items import Item, ItemKind
from clew.context.lazy_list import lazy_property
from clew.core.ids import NO_ENTRY, EntryId
from clew.core.text import truncate

_WORD = re.compile(r"[^\W_][^\W_'’-]*")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Scripts without spaces between words; pairs of their characters count as words."""
_PAIR = re.compile(r"(?=([^\W\d_]{2}))|(\d+)")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")
_SPOKEN = re.compile(r"(?:#\d+ )?(user|assistant): ")
_HEADING = re.compile(r"#{1,6} [^\n]{1,150}|\*\*[^*\n]{1,80}\*\*:?|[^\n]{1,150}:|-{3,}")
_WHOLE_CHARS = 1200
"""A message that is not longer is quoted whole or not at all."""
_PARTICULAR = 1.7
"""Weight of a number or a name, relative to another word."""
_REPEATED = 0.15
"""What is left of the value of a word each time it was chosen already."""
_USER_WEIGHT = 1.3
_RECENCY, _RECENT_CHARS = 0.2, 4_000
"""How fast the worth of a remark falls with the number of characters after it."""
_SHORT_CHARS = 200
_GAP_CHARS = 3
_MOST_READ = 400_000
"""Characters of the newest text that are read."""


@dataclass(frozen=True)
class Remark:
    """A sentence or a short message."""

    entry_id: EntryId
    role: str
    text: str
    place: int
    """The position of its message in the conversation."""

    @lazy_property
    def head(self) -> str:
        """What precedes the first remark of a message: its entry and who said it."""
        return f"#{self.entry_id} {self.role}: " if self.entry_id > 0 else f"{self.role}: "

    @property
    def chars(self) -> int:
        """What it takes as a line of its own."""
        return len(self.head) + len(self.text) + 1

    @lazy_property
    def words(self) -> dict[str, float]:
        """Its words; numbers and names weigh more."""
        return _weigh_words(self.text)


def list_remarks(items: Sequence[Item], *, split_user: bool = True) -> list[Remark]:
    """Split what the user and the model said into remarks, in order.

    With `split_user` false each message of the user is one remark, word for word.
    """
    found: list[Remark] = []
    start, chars = len(items), 0
    while start > 0 and chars < _MOST_READ:
        start -= 1
        chars += len(items[start].message.text)
    for place in range(start, len(items)):
        item = items[place]
        if item.kind is ItemKind.USER:
            text = find_request(item.message.text)
        elif item.kind is ItemKind.ASSISTANT:
            text = item.message.text.strip()
        else:
            continue
        if item.entry_id == NO_ENTRY:
            said = enumerate(_read_digest(text), start=1)
            found += (Remark(NO_ENTRY, role, one, -number) for number, (role, one) in said)
            continue
        whole = text and item.kind is ItemKind.USER and not split_user
        parts = [text] if whole else _split(text)
        found += (Remark(item.entry_id, str(item.message.role), one, place) for one in parts)
    return found


def _read_digest(text: str) -> Iterator[tuple[str, str]]:
    """Read the remarks of an earlier digest, which takes the place of the messages before it."""
    role = "assistant"
    for line in text.split("\n"):
        spoken = _SPOKEN.match(line)
        if spoken:
            role = spoken.group(1)
        if line:
            yield role, line[spoken.end() :] if spoken else line


def _split(text: str) -> Iterator[str]:
    """Yield a message that is not too long whole; the paragraphs or sentences of others.

    A heading is a part of what follows it: alone it tells nothing.
    """
    if len(text) <= _WHOLE_CHARS:
        if text:
            yield text
        return
    heading = ""
    for paragraph in text.split("\n\n"):
        if _HEADING.fullmatch(paragraph.strip()):
            heading += f"{paragraph.strip()}\n"
            continue
        pieces = [paragraph] if len(paragraph) <= _WHOLE_CHARS else _SENTENCE.split(paragraph)
        for piece in pieces:
            line = piece.strip()
            if line:
                yield heading + truncate(line, _WHOLE_CHARS)
                heading = ""
    if heading:
        yield heading.strip()


_MOST_DELAYS = 16
"""Remarks are compared again this often; more would take long where all say nearly the same."""


def take_newest(
    remarks: Sequence[Remark], *, max_chars: int, spare: int = 0, taken: Container[int] = ()
) -> list[int]:
    """Return the newest remarks that fit, beside those in `taken`.

    Short messages of the model that name nothing in particular ("Let me check.") are passed over.
    `spare` more characters may complete the message that fits only in part.
    """
    found: list[int] = []
    parts = Counter(remark.place for remark in remarks)
    for index in range(len(remarks) - 1, -1, -1):
        remark = remarks[index]
        if index in taken:
            continue
        if remark.role != "user" and parts[remark.place] == 1 and _says_little(remark):
            continue
        cost = remark.chars
        if cost > max_chars:
            return found + _complete(remarks, found, index, room=max_chars + spare)
        max_chars -= cost
        found.append(index)
    return found


def _complete(
    remarks: Sequence[Remark], found: Sequence[int], index: int, *, room: int
) -> list[int]:
    """Return the rest of the message that `found` ends in, from `index` back, if it fits."""
    place = remarks[index].place
    if not found or remarks[found[-1]].place != place:
        return []
    rest: list[int] = []
    while index >= 0 and remarks[index].place == place:
        room -= len(remarks[index].text) + _GAP_CHARS
        rest.append(index)
        index -= 1
    return rest if room >= 0 else []


def choose_remarks(
    remarks: Sequence[Remark], *, max_chars: int, chosen: Iterable[int] = ()
) -> list[int]:
    """Return the indices of the remarks to quote, in order.

    Written with `render_remarks` they have at most `max_chars` characters. Those in `chosen`
    are taken in any case and count as said.
    """
    words = [remark.words for remark in remarks]
    rarity = _measure_rarity(words)
    said: Counter[str] = Counter()
    taken = dict.fromkeys(chosen)
    places = {remarks[index].place for index in taken}
    room = max_chars
    for index in taken:
        room -= remarks[index].chars
        said.update(words[index].keys())

    distances = [*accumulate(len(remark.text) for remark in reversed(remarks))][::-1]

    def value(index: int) -> float:
        worth = sum(
            rarity[word] * weight * _REPEATED ** said[word] for word, weight in words[index].items()
        )
        remark = remarks[index]
        worth /= math.pow(1 + distances[index] / _RECENT_CHARS, _RECENCY)
        if remark.role == "user":
            worth *= _USER_WEIGHT
        return -worth / remark.chars

    newest = {remark.text: index for index, remark in enumerate(remarks)}
    queue = [(value(index), -index) for index in newest.values() if index not in taken]
    heapify(queue)
    delays = [0] * len(remarks)
    while queue and room > 0:
        _, negative = heappop(queue)
        now = value(-negative)
        if queue and now > queue[0][0] and delays[-negative] < _MOST_DELAYS:
            # What was chosen since has made it worth less.
            delays[-negative] += 1
            heappush(queue, (now, negative))
            continue
        remark = remarks[-negative]
        cost = len(remark.text) + _GAP_CHARS if remark.place in places else remark.chars
        if cost <= room:
            taken[-negative] = None
            places.add(remark.place)
            said.update(words[-negative].keys())
            room -= cost
    return sorted(taken)


def _says_little(remark: Remark) -> bool:
    """Return whether a remark is short and has no number and no name."""
    return len(remark.text) < _SHORT_CHARS and max(remark.words.values(), default=0.0) <= 1.0


def _measure_rarity(words: Sequence[Mapping[str, float]]) -> dict[str, float]:
    spread = Counter(word for weights in words for word in weights)
    return {word: math.log((len(words) + 1) / count) for word, count in spread.items()}


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
        special = is_name or any(char.isdigit() for char in word)
        weights[word.casefold()] = _PARTICULAR if special else 1.0
    return weights


def render_remarks(remarks: Sequence[Remark], chosen: Iterable[int]) -> str:
    """Write the chosen remarks, one line per message; `…` marks what is omitted in it."""
    lines: list[str] = []
    last: int | None = None
    previous = -1
    for index in chosen:
        remark = remarks[index]
        if remark.place == last:
            gap = " " if index == previous + 1 else " … "
            lines[-1] += gap + remark.text
        else:
            lines.append(remark.head + remark.text)
        last, previous = remark.place, index
    return "\n".join(lines)
