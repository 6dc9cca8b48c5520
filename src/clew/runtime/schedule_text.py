"""Schedules in words, such as `every weekday 9:00` or `every 15 minutes`, and as cron lines."""

import re
from collections.abc import Sequence

from clew.core.errors import ConfigError
from clew.runtime.cron import parse_cron

_EXAMPLES = (
    "`every weekday 9:00`, `every day at 18:30`, `every monday and friday 8:00`,"
    " `every 15 minutes`, `every hour`, `monthly on the 1st at 9am`,"
    " or a cron line such as `0 9 * * mon-fri`"
)
_CRON = re.compile(r"@.*|[\d*?/,-]+( [\w*?/,-]+){4}")
_DAY_NAMES = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAYS: dict[str, tuple[int, ...]] = {
    **{name: (number,) for number, name in enumerate(_DAY_NAMES)},
    **{name[:3]: (number,) for number, name in enumerate(_DAY_NAMES)},
    "tues": (2,),
    "weds": (3,),
    "thur": (4,),
    "thurs": (4,),
    "day": tuple(range(7)),
    "daily": tuple(range(7)),
    "weekday": (1, 2, 3, 4, 5),
    "workday": (1, 2, 3, 4, 5),
    "weekend": (0, 6),
}
_FILLERS = frozenset({"and", "at", "each", "every", "on", "the", "&"})
_TIME = re.compile(r"(\d{1,2})(?:[:.](\d{2}))?(am|pm)?")
_CLOCK_WORDS = {"noon": (12, 0), "midnight": (0, 0)}
_INTERVAL = re.compile(r"(?:every|each) (?:(\d{1,4}) ?)?(minute|min|hour|h|m)s?")
_HOURLY = re.compile(r"(?:every hour|hourly)(?: at)?(?: :?(\d{1,2}))?")
_MONTHLY = re.compile(
    r"(?:monthly|every month)(?:,? on)?(?: the)?(?: (\d{1,2})(?:st|nd|rd|th)?)?(?: ?,? at (.+))?"
)
_COUNTED_DAYS = re.compile(r"every (?:other|second|\d+) (?:day|week|month)s?\b.*")


def parse_schedule(text: str) -> str:
    """Return the cron line for a schedule in words; without a time of day, it is midnight.

    Raises:
        ConfigError: The text is not understood, or cron cannot express it.
    """
    words = " ".join(text.lower().split())
    line = words if _CRON.fullmatch(words) else _parse_words(words)
    if line is None:
        raise ConfigError(f"the schedule {text!r} is not understood; examples: {_EXAMPLES}")
    parse_cron(line)
    return line


def _parse_words(words: str) -> str | None:
    if _COUNTED_DAYS.fullmatch(words):
        raise ConfigError(
            f"{words!r} has no fixed days; name the days, such as `every monday and thursday 9:00`"
        )
    if found := _INTERVAL.fullmatch(words):
        return _make_interval(int(found[1] or 1), is_hours=found[2].startswith("h"))
    if found := _HOURLY.fullmatch(words):
        return f"{int(found[1] or 0)} * * * *"
    if found := _MONTHLY.fullmatch(words):
        times = _parse_times(_split(found[2] or "midnight"))
        return times and f"{times} {int(found[1] or 1)} * *"
    return _parse_days(_split(words))


def _make_interval(count: int, *, is_hours: bool) -> str:
    """Return a line for an interval, at round times where these are evenly spaced."""
    if count == 0:
        raise ConfigError("an interval must be at least a minute")
    whole = 24 if is_hours else 60
    if count == 1:
        return "0 * * * *" if is_hours else "* * * * *"
    if count < whole and whole % count == 0:
        return f"0 */{count} * * *" if is_hours else f"*/{count} * * * *"
    return f"@every {count}{'h' if is_hours else 'm'}"


def _split(words: str) -> list[str]:
    """Return the words that matter, times such as `9 am` as one."""
    joined = re.sub(r"(\d) ?(a|p)\.?m\b\.?", r"\1\2m", words.replace("working day", "workday"))
    return [word for word in re.split(r"[\s,]+", joined) if word and word not in _FILLERS]


def _parse_days(words: Sequence[str]) -> str | None:
    days: set[int] = set()
    is_weekly = words[:1] == ["weekly"]
    rest = list(words[1:] if is_weekly else words)
    while rest and (named := _DAYS.get(rest[0]) or _DAYS.get(rest[0].removesuffix("s"))):
        days.update(named)
        del rest[0]
    if is_weekly and not days:
        days = {0}
    times = _parse_times(rest or ["midnight"]) if days else None
    if times is None:
        return None
    return f"{times} * * {_write_days(days)}"


def _write_days(days: set[int]) -> str:
    if len(days) == 7:
        return "*"
    return "1-5" if days == {1, 2, 3, 4, 5} else ",".join(map(str, sorted(days)))


def _parse_times(words: Sequence[str]) -> str | None:
    """Return the minute and the hours of a line; None if one is not a time."""
    found = [_parse_time(word) for word in words]
    times = [time for time in found if time is not None]
    if not times or len(times) < len(found):
        return None
    minutes = {minute for _, minute in times}
    if len(minutes) > 1:
        raise ConfigError(
            "one schedule cannot have times with different minutes; make one schedule for each"
        )
    return f"{minutes.pop()} {','.join(str(hour) for hour in sorted({hour for hour, _ in times}))}"


def _parse_time(word: str) -> tuple[int, int] | None:
    if word in _CLOCK_WORDS:
        return _CLOCK_WORDS[word]
    found = _TIME.fullmatch(word)
    if found is None:
        return None
    hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
    if minute > 59 or hour > 23 or (half and not 1 <= hour <= 12):
        raise ConfigError(f"{word!r} is not a time of day; use 9:00, 18:30 or 9am")
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return hour, minute
