"""Text as the words by which it is found, the same in every store.

A query finds a text when each of its words begins a word of the text; case and accents do
not matter. Scripts that put no spaces between words are cut into overlapping pairs of
characters, so that any stretch of two or more can be found.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import cache

_LONGEST = 40
"""Characters of a word that count; what is longer is rarely typed to the end."""
_MOST_BYTES = 400_000
"""Bytes of words per text: PostgreSQL refuses a text with a megabyte of different words."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_PLAIN = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    """Return the different words of `text`, in the order in which they come."""
    found: dict[str, None] = {}
    size = 0
    for word in _split(text, query=False):
        if word not in found:
            size += len(word.encode()) + 1
            if size > _MOST_BYTES:
                break
            found[word] = None
    return list(found)


def terms(query: str) -> list[str]:
    """Return the beginnings of words that a text must have to be found by `query`."""
    return list(dict.fromkeys(_split(query, query=True)))


def matches(wanted: Collection[str], there: Collection[str]) -> bool:
    """Say whether every wanted beginning begins one of the words that are there."""
    return all(any(word.startswith(term) for word in there) for term in wanted)


def _split(text: str, *, query: bool) -> Iterator[str]:
    if text.isascii():
        for match in _PLAIN.finditer(text.lower()):
            yield match.group()[:_LONGEST]
        return
    word_of_any, is_unspaced = _patterns()
    for match in word_of_any.finditer(_folded(text)):
        word = match.group()
        if is_unspaced.match(word):
            yield from _pairs(word, query=query)
        else:
            yield word[:_LONGEST]


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what matches a word of any script, and what tells those without spaces.

    Such classes take a while to compile, and many sessions are in ASCII.
    """
    word_of_any = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_])+")
    return word_of_any, re.compile(rf"[{_UNSPACED}]")


def _folded(text: str) -> str:
    apart = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(char for char in apart if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", bare)


def _pairs(run: str, *, query: bool) -> Iterator[str]:
    for start in range(len(run) - 1):
        yield run[start : start + 2]
    if not query or len(run) == 1:
        yield run[-1]
