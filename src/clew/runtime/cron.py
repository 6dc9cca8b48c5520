"""Cron lines: parse them, and find the next time, in any time zone.

A line has five fields: minute, hour, day of the month, month, day of the week. When both days are
restricted, either is enough, as in cron. Around a change of the clocks, a line with fixed hours
runs exactly once a day: a time that is skipped runs when the clocks have moved, and of a time that
comes twice the first counts. A line for every hour follows real time. `@every 45m` is an interval.
"""

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo

from msgspec import Struct

from clew.core.errors import ConfigError

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_INTERVAL = re.compile(r"@every (\d{1,6})([mh])")
_LEAP_YEAR = 2024
_MOST_DAYS = 366 * 9
"""29 February can be eight years away."""


class Cron(Struct, frozen=True, kw_only=True):
    """A parsed cron line."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    month_days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    week_days: frozenset[int] = frozenset()
    """0 is Sunday."""
    every_hour: bool = False
    any_month_day: bool = False
    any_week_day: bool = False
    interval: int = 0
    """Seconds; 0 for a line with fields."""

    def covers(self, day: date) -> bool:
        """Return whether the line runs on that day."""
        if day.month not in self.months:
            return False
        in_month = day.day in self.month_days
        in_week = day.isoweekday() % 7 in self.week_days
        if self.any_month_day or self.any_week_day:
            return in_month and in_week
        return in_month or in_week


def parse_cron(line: str) -> Cron:
    """Parse a cron line.

    Raises:
        ConfigError: It is not one, or its day never comes.
    """
    line = " ".join(line.lower().split())
    if found := _INTERVAL.fullmatch(line):
        seconds = int(found[1]) * (60 if found[2] == "m" else 3_600)
        if not seconds:
            raise ConfigError("an interval must be at least a minute")
        return Cron(interval=seconds)
    fields = _SHORTHANDS.get(line, line).split()
    if len(fields) != 5:
        raise ConfigError(
            f"{line!r} is not a cron line: it needs five fields, such as `0 9 * * mon-fri`"
        )
    minute, hour, month_day, month, week_day = fields
    week_days = _parse_field(week_day, _WEEK_DAY)
    cron = Cron(
        minutes=_parse_field(minute, _MINUTE),
        hours=_parse_field(hour, _HOUR),
        month_days=_parse_field(month_day, _MONTH_DAY),
        months=_parse_field(month, _MONTH),
        week_days=frozenset(day % 7 for day in week_days),
        every_hour=hour == "*",
        any_month_day=month_day.startswith(("*", "?")),
        any_week_day=week_day.startswith(("*", "?")),
    )
    if cron.any_week_day and not _has_day(cron):
        raise ConfigError(f"{line!r} never runs: no such day is in these months")
    return cron


def find_next(cron: Cron, after: float, zone: tzinfo) -> float:
    """Return the first time after `after` at which a line runs.

    Args:
        cron: The line.
        after: Seconds since 1970; the result is later than this.
        zone: The time zone of the line.
    """
    if cron.interval:
        return (after // cron.interval + 1) * cron.interval
    today = datetime.fromtimestamp(after, zone).date()
    # A time that was skipped yesterday may run today.
    for number in range(-1, _MOST_DAYS):
        day = today + timedelta(days=number)
        if cron.covers(day):
            for moment in _iter_moments(cron, day, zone):
                if moment > after:
                    return moment
    raise ConfigError("the cron line never runs")


def next_time(line: str, after: float, zone: tzinfo) -> float:
    """Return the first time after `after` at which a cron line runs; see `find_next`.

    Raises:
        ConfigError: It is not a cron line.
    """
    return find_next(parse_cron(line), after, zone)


class _Field(Struct, frozen=True):
    """What one field of a line may hold."""

    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()


_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_MONTH_DAY = _Field("day of the month", 1, 31)
_MONTH = _Field("month", 1, 12, MONTHS)
_WEEK_DAY = _Field("day of the week", 0, 7, DAYS)


def _parse_field(text: str, field: _Field) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        values = _parse_part(part, field)
        if values is None:
            raise ConfigError(
                f"{part!r} is not a valid {field.name}: use {field.least}-{field.most}, lists such"
                " as 1,3, ranges such as 1-5, and steps such as */2"
            )
        found.update(values)
    return frozenset(found)


def _parse_part(part: str, field: _Field) -> range | None:
    span, slash, step = part.partition("/")
    try:
        first, last = _parse_span(span, field, stepped=bool(slash))
        width = _parse_value(step, _MINUTE) if slash else 1
    except ValueError:
        return None
    is_valid = field.least <= first <= last <= field.most and width >= 1
    return range(first, last + 1, width) if is_valid else None


def _parse_span(span: str, field: _Field, *, stepped: bool) -> tuple[int, int]:
    if span in ("*", "?"):
        return field.least, field.most
    begin, dash, end = span.partition("-")
    first = _parse_value(begin, field)
    if not dash:
        return first, field.most if stepped else first
    last = _parse_value(end, field)
    is_sunday_last = field is _WEEK_DAY and last == 0 and first > 0
    return first, 7 if is_sunday_last else last


def _parse_value(text: str, field: _Field) -> int:
    if text in field.words:
        return field.words.index(text) + field.least
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


def _has_day(cron: Cron) -> bool:
    longest = max(monthrange(_LEAP_YEAR, month)[1] for month in cron.months)
    return min(cron.month_days) <= longest


def _iter_moments(cron: Cron, day: date, zone: tzinfo) -> Iterator[float]:
    """Yield the times of a day, in order."""
    if cron.every_hour:
        start, end = _find_moment(day, 0, 0, zone), _find_moment(day + timedelta(1), 0, 0, zone)
        for moment in range(start, end, 60):
            if datetime.fromtimestamp(moment, zone).minute in cron.minutes:
                yield float(moment)
        return
    for hour in sorted(cron.hours):
        for minute in sorted(cron.minutes):
            yield float(_find_moment(day, hour, minute, zone))


def _find_moment(day: date, hour: int, minute: int, zone: tzinfo) -> int:
    """Return when the clocks first show a time, or have moved past it."""
    wanted = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
    moment = int(wanted.timestamp())
    shown = datetime.fromtimestamp(moment, zone)
    if shown.replace(tzinfo=None) == wanted.replace(tzinfo=None):
        return moment
    return _find_change(moment, zone)


def _find_change(near: int, zone: tzinfo) -> int:
    """Return when the clocks move forward, near a time that they skip."""
    low, high = near - 86_400, near + 86_400
    before = datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def describe_moment(moment: float, zone: tzinfo) -> str:
    """Return a time for a person, such as `Mon 2026-11-16 09:00 CET`."""
    shown = datetime.fromtimestamp(moment, UTC).astimezone(zone)
    return shown.strftime("%a %Y-%m-%d %H:%M %Z")
