"""Split text into the words by which a search finds it, the same in every store.

Case and accents do not matter. An identifier such as `getUserName` counts as a whole, by its
parts and by its end `username`; paths and `snake_case` names count by their parts, and a query for
one is checked against the text. Scripts without spaces between words are split into overlapping
pairs of characters, so any two or more characters in a row can be found.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache

_LONGEST = 40
"""Characters of a word that count."""
_MOST_BYTES = 400_000
"""Bytes of words per text: PostgreSQL rejects a text with a megabyte of different words."""
_MOST_PARTS = 6
"""Mixed-case words with more parts are encoded data, not names."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
"""Accents and vowel signs that do not end a word."""
_PLAIN = re.compile(r"[A-Za-z0-9]+")
_ESCAPED = re.compile(r"(?<=\\[nrt])[A-Za-z0-9]+")
"""What follows an escape such as `\\t` in JSON or source code, unless it is a path of Windows."""
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")


def count_words(text: str) -> dict[str, int]:
    """Return the words of `text`, in order, each with how often it occurs."""
    counts: dict[str, int] = {}
    size = 0
    found = Counter(_split(text))
    if "\\" in text:
        found.update(_ESCAPED.findall(text))
    for raw, count in found.items():
        for word in _expand(raw, query=False):
            if word in counts:
                counts[word] += count
                continue
            size += len(word.encode()) + 1
            if size > _MOST_BYTES:
                return counts
            counts[word] = count
    return counts


def split_words(text: str) -> list[str]:
    """Return the different words of `text`, in order."""
    return list(count_words(text))


def split_terms(query: str) -> list[str]:
    """Return the prefixes that the words of a text must have for `query` to find it."""
    words = (word for raw in _split(query) for word in _expand(raw, query=True))
    return list(dict.fromkeys(words))


def split_parts(word: str) -> list[str]:
    """Return the parts of a mixed-case name in lower case; only the word itself if it has none."""
    parts = _CAMEL.findall(word) if word.isascii() and len(word) <= _LONGEST else []
    return [fold(part) for part in parts if 1 < len(parts) <= _MOST_PARTS] or [fold(word)]


def matches(terms: Collection[str], words: Collection[str]) -> bool:
    """Return whether each term is a prefix of one of the words."""
    return all(any(word.startswith(term) for word in words) for term in terms)


def fold(text: str) -> str:
    """Return `text` without differences of case, accents, width and ligatures.

    The words of an index and of a query are folded like this. `FoldedText` folds a whole text in
    the same way and knows the offsets.
    """
    if text.isascii():
        return text.lower()
    compatible = unicodedata.normalize("NFKC", text)
    decomposed = unicodedata.normalize("NFKD", compatible.casefold())
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", bare)


def _split(text: str) -> Iterable[str]:
    if text.isascii():
        return _PLAIN.findall(text)
    return _patterns()[0].findall(unicodedata.normalize("NFKC", text))


def _expand(raw: str, *, query: bool) -> Iterator[str]:
    if raw.isascii():
        yield raw.lower()[:_LONGEST]
        if not (query or raw.islower() or raw.isupper()) and len(parts := split_parts(raw)) > 1:
            yield from parts
            # It is found by its ends too: `getUserName` by `username`.
            yield from ("".join(parts[start:]) for start in range(1, len(parts) - 1))
    elif _patterns()[1].match(folded := fold(raw)):
        yield from _pairs(folded, query=query)
    elif folded:
        yield folded[:_LONGEST]


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns for a word of any script, and for scripts without spaces.

    They take a while to compile, and many sessions are in ASCII.
    """
    any_word = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_][{_MARKS}]*)+")
    return any_word, re.compile(rf"[{_UNSPACED}]")


def _pairs(run: str, *, query: bool) -> Iterator[str]:
    for start in range(len(run) - 1):
        yield run[start : start + 2]
    if not query or len(run) == 1:
        yield run[-1]
