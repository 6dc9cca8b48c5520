"""What a person or a model looks for: words, exact phrases, names, and filters."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from clew.context.recall.words import fold, split_parts, split_terms
from clew.core.errors import SessionError

_PHRASE = re.compile(r'["“]([^"“”]+)["”]')
_FILTER = re.compile(
    r"(?<!\S)(role|tool|file|since|after|until|before|latest):(\S+)", re.IGNORECASE
)
_NAME = re.compile(r"[^\s\"'`“”‘’(){}\[\]<>,;!?、。，！？]+")
_VERSION = re.compile(r"[vV]?(\d+\.\d.*)", re.DOTALL)
_ENDS = ".:*#@$&=|\\"
_RELATIVE = re.compile(r"(\d+)([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHORTEST_STEM = 3
_ENDINGS = ("s", "es", "e", "ed", "ing", "y", "ies")
_MOST_TERMS = 16
_QUESTION_WORDS = """
a about after all also am an and any are as at be been before being but by can could did do does
done earlier else entry ever exact exactly for from get give given got had has have he her here him
his how i if in into is it its just know let like me mention mentioned my no not of on one or our
out over please said say session she should show so some than that the their them then there these
they thing this those to told too up us use used using was we were what when where which who whom
whose why will with would you your
"""
_STOP_WORDS = frozenset(_QUESTION_WORDS.split())
"""Words of questions that say nothing about the text that answers them."""
ROLES = ("user", "assistant", "tool", "summary", "note")


class Term(Struct, frozen=True):
    """One word or name of a query."""

    text: str
    """As it is looked for in a text, without case and accents."""
    patterns: tuple[str, ...]
    """What an index must have: all of these. Each is a word, forms of one (`fail|failed`, `2|v2`),
    or the beginning of words (`3f9a*`)."""
    parts: tuple[str, ...] = ()
    """The words of an identifier, a path or another name, each a pattern of its own."""


class RecallQuery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to look for. All filters must hold; entries with more and rarer words come first."""

    terms: tuple[Term, ...] = ()
    """Words, names and phrases."""
    phrases: tuple[str, ...] = ()
    """Texts that an entry must contain exactly, without regard to case."""
    role: str = ""
    tool: str = ""
    file: str = ""
    since: float | None = None
    until: float | None = None
    latest: bool = False
    """Show the latest version of `file`, with the edits after it."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to look for."""
        return self == RecallQuery()


def parse_query(text: str, *, now: float = 0.0, **filters: str) -> RecallQuery:
    """Return the query that `text` stands for.

    Args:
        text: Words, names, `"exact phrases"` and filters such as `tool:Bash`.
        now: The time that `since:2h` is relative to.
        filters: `role`, `tool`, `file`, `since`, `until` or `latest`; these win over the text.

    Raises:
        SessionError: A filter has a value that cannot be used.
    """
    given = {name.lower(): value for name, value in _FILTER.findall(text)}
    given |= {name: value for name, value in filters.items() if value}
    rest = _FILTER.sub(" ", text)
    phrases = tuple(fold(" ".join(found.split())) for found in _PHRASE.findall(rest))
    exact = [phrase for phrase in phrases if split_terms(phrase)]
    terms = [*map(_make_term, exact), *_parse_terms(_PHRASE.sub(" ", rest))]
    query = RecallQuery(terms=tuple(terms[:_MOST_TERMS]), phrases=tuple(exact))
    for name, value in given.items():
        query = _set_filter(query, name, value, now)
    return query


def stem(word: str) -> str:
    """Return the beginning that the forms of an English word share: `cach` for `caching`."""
    for ending in ("ies", "ing", "ed", "es", "s", "e", "y"):
        bare = word.removesuffix(ending)
        if bare != word and len(bare) > _SHORTEST_STEM and not bare.endswith("s"):
            return bare[:-1] if len(ending) > 1 and bare[-1] == bare[-2] else bare
    return word


def pattern_of(word: str) -> str:
    """Return the pattern for a word and its other forms."""
    if not word.isascii():
        return f"{word}*"
    bare = stem(word)
    if not word.isalpha() or len(bare) <= _SHORTEST_STEM:
        return word
    forms = (bare, word, *(bare + ending for ending in _ENDINGS), f"{bare}{bare[-1]}ing")
    return "|".join(dict.fromkeys(forms))


def widen(pattern: str) -> str:
    """Return a pattern for all words that begin like this one, for when there is no such word."""
    return pattern.removesuffix("*").partition("|")[0] + "*"


def _parse_terms(text: str) -> Iterator[Term]:
    found = dict.fromkeys(name.strip(_ENDS + "-/") for name in _NAME.findall(text))
    words = [name for name in found if name and split_terms(name)]
    telling = [word for word in words if fold(word) not in _STOP_WORDS]
    for word in telling or words:
        yield _make_term(word)


def _make_term(word: str) -> Term:
    version = _VERSION.fullmatch(word)
    if version:
        return _make_version(version[1])
    terms = split_terms(word)
    parts = [
        part for part in (terms if len(terms) > 1 else split_parts(word)) if part not in _STOP_WORDS
    ]
    patterns = (pattern_of(terms[0]),) if len(terms) == 1 else tuple(map(_exact, terms))
    return Term(fold(word), patterns, tuple(map(pattern_of, parts)) if parts != terms[:1] else ())


def _make_version(number: str) -> Term:
    """Return the term for `2.3.1-rc4`, which stands for `v2.3.1-rc4` as well."""
    first, *others = split_terms(number)
    patterns = (f"{first}|v{first}", *map(_exact, others))
    return Term(fold(number), patterns, tuple(map(pattern_of, (first, *others))))


def _exact(word: str) -> str:
    return word if word.isascii() else f"{word}*"


def _set_filter(query: RecallQuery, name: str, value: str, now: float) -> RecallQuery:
    match name:
        case "role":
            if value.lower() not in ROLES:
                raise SessionError(f"there is no role {value!r}; use one of: {', '.join(ROLES)}")
            return replace(query, role=value.lower())
        case "tool":
            return replace(query, tool=value)
        case "file":
            return replace(query, file=value)
        case "since" | "after":
            return replace(query, since=parse_time(value, now=now))
        case "until" | "before":
            return replace(query, until=parse_time(value, now=now))
        case _:
            return replace(query, file=value, latest=True)


def parse_time(text: str, *, now: float) -> float:
    """Return the seconds since the epoch for `2026-01-31`, `2026-01-31T14:00` or `2h` ago.

    Raises:
        SessionError: The text is not a time.
    """
    relative = _RELATIVE.fullmatch(text)
    if relative:
        return now - timedelta(**{_UNITS[relative[2]]: int(relative[1])}).total_seconds()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise SessionError(
            f"{text!r} is not a time; write 2026-01-31, 2026-01-31T14:00, or 30m, 2h, 3d ago"
        ) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
