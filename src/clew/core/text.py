"""Small text functions that every layer shares: one line, truncate, plural, age, valid Unicode.

`one_line` and `truncate` prepare text from a model, a file or a person for a message or a list.
`replace_surrogates` and `make_encodable` prepare text for disk and wire: file names and broken
streams can contain lone surrogates, which neither UTF-8 nor JSON can represent. Both functions
replace them with U+FFFD, so one odd file name cannot break a session.
"""

import re
from datetime import UTC, datetime, tzinfo
from typing import TypeVar

import msgspec

_T = TypeVar("_T")

_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]"
"""Control characters, line separators, bidirectional overrides and isolates, byte order marks."""
_FILE_LINK = r"\[([^\[\]\n]{1,200}?)(?::\d+)?\]\((?:file://)?[/~.][^)\s]{0,300}?((?::\d+)?)\)"
_HEAD_SHARE = 0.7
"""Share of the head in a text whose middle is omitted."""
_MAX_SPACING = 4
"""`one_line` reads at most this many characters per character of its limit."""
_MINUTE, _HOUR = 60, 3_600
_SAME_DAY = 12 * _HOUR
"""Up to here hours are shown, even if midnight lies between."""
_WEEK = 7


def one_line(text: str, most: int | None = None) -> str:
    """Return `text` as one line: control characters and runs of whitespace become one space.

    Args:
        text: Any text. Lone surrogates become U+FFFD.
        most: Truncate the line to this many characters. Only the beginning of a much longer
            text is read.
    """
    if most is None:
        return _join_words(text)
    beginning = text[: most * _MAX_SPACING]
    line = _join_words(beginning)
    if len(line) <= most and len(beginning) == len(text):
        return line
    return f"{line[: most - 1].rstrip()}…"


def truncate(text: str, most: int) -> str:
    """Return the beginning of `text`, at most `most` characters; `…` marks a cut."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def truncate_middle(text: str, limit: int, *, where: str = "") -> str:
    """Return `text`, or its head and tail if it has more than `limit` characters.

    The result never exceeds `limit`. A marker in the middle gives the full length and
    `where`, which tells the reader where to find the rest.
    """
    if len(text) <= limit:
        return text
    marker = f"\n[… {len(text):,} characters in all, the middle is left out{where} …]\n"
    room = limit - len(marker)
    if room < 2:
        return text[:limit]
    head = round(room * _HEAD_SHARE)
    return text[:head] + marker + text[len(text) - (room - head) :]


def end_sentence(text: str) -> str:
    """Return a text that ends with one full stop, however it ended before."""
    return f"{text.rstrip(' .')}." if not text.endswith(("!", "?", "…")) else text


def pluralize(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 file`, `2 files`.

    Args:
        count: The number; it is written with thousands separators.
        one: The singular.
        many: The plural, where it is not the singular with an `s`.
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def format_ago(at: float, now: float, zone: tzinfo | None = None) -> str:
    """Return how long ago a time was, such as `3 minutes ago` or `yesterday`; else its date.

    Args:
        at: The time, in seconds since the epoch.
        now: The current time.
        zone: Whose days count; None for the local time zone.
    """
    seconds = int(now - at)
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{pluralize(seconds // _MINUTE, 'minute')} ago"
    day, today = (datetime.fromtimestamp(each, UTC).astimezone(zone).date() for each in (at, now))
    days = (today - day).days
    if days == 0 or seconds < _SAME_DAY:
        return f"{pluralize(seconds // _HOUR, 'hour')} ago"
    if days == 1:
        return "yesterday"
    return f"{days} days ago" if days < _WEEK else day.isoformat()


def shorten_links(text: str) -> str:
    """Return `text` with the label, and the line number if any, of each link to a local file."""
    return re.sub(_FILE_LINK, r"\1\2", text) if "](" in text else text


def split_validation_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """Split a message of msgspec into the problem and the path of the value, such as `a.b[0]`."""
    problem, _, path = str(error).partition(" - at `$")
    return problem, path.removesuffix("`").removeprefix(".")


def replace_surrogates(text: str) -> str:
    """Return `text` with U+FFFD for each lone surrogate; the same object if it has none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def make_encodable(value: _T) -> _T:
    """Return `value` without lone surrogates in any text; the same object if it has none."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.convert(_clean(msgspec.to_builtins(value)), type(value))
    return value


def _join_words(text: str) -> str:
    if text.isprintable():  # so it has no control characters and no surrogates
        return " ".join(text.split())
    return " ".join(re.sub(_CONTROL, " ", replace_surrogates(text)).split())


def _clean(value: object) -> object:
    match value:
        case str():
            return replace_surrogates(value)
        case dict():
            return {_clean(key): _clean(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_clean(inner) for inner in value]
        case _:
            return value
