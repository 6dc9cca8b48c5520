"""Split text into the words by which a search finds it, the same in every store.

A query finds a text when each of its words begins a word of the text; case and accents do not
matter. Scripts without spaces between words are split into overlapping pairs of characters, so
any two or more characters in a row can be found.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator
from functools import cache

_LONGEST = 40
"""Characters of a word that count."""
_MOST_BYTES = 400_000
"""Bytes of words per text: PostgreSQL rejects a text with a megabyte of different words."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
_PLAIN = re.compile(r"[a-z0-9]+")


def split_words(text: str) -> list[str]:
    """Return the different words of `text`, in order."""
    found: dict[str, None] = {}
    size = 0
    for word in _split(text, query=False):
        if word not in found:
            size += len(word.encode()) + 1
            if size > _MOST_BYTES:
                break
            found[word] = None
    return list(found)


def parse_query(query: str) -> list[str]:
    """Return the prefixes that the words of a text must have for `query` to find it."""
    return list(dict.fromkeys(_split(query, query=True)))


def matches(terms: Collection[str], words: Collection[str]) -> bool:
    """Return whether each term is a prefix of one of the words."""
    return all(any(word.startswith(term) for word in words) for term in terms)


def _split(text: str, *, query: bool) -> Iterator[str]:
    if text.isascii():
        for match in _PLAIN.finditer(text.lower()):
            yield match.group()[:_LONGEST]
        return
    any_word, unspaced = _patterns()
    for match in any_word.finditer(_fold(text)):
        word = match.group()
        if unspaced.match(word):
            yield from _pairs(word, query=query)
        else:
            yield word[:_LONGEST]


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns for a word of any script, and for scripts without spaces.

    They take a while to compile, and many sessions are in ASCII.
    """
    any_word = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_])+")
    return any_word, re.compile(rf"[{_UNSPACED}]")


def _fold(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", bare)


def _pairs(run: str, *, query: bool) -> Iterator[str]:
    for start in range(len(run) - 1):
        yield run[start : start + 2]
    if not query or len(run) == 1:
        yield run[-1]
