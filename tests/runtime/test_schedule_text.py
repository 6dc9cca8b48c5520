from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import ConfigError
from clew.runtime.cron import describe_moment, next_time, parse_cron
from clew.runtime.schedule_text import parse_schedule
from tests.rows import each_row

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana")


@each_row(
    ("text", "line"),
    [
        ("every weekday 9:00", "0 9 * * 1-5"),
        ("Every Weekday at 9", "0 9 * * 1-5"),
        ("weekdays at 9:30 am", "30 9 * * 1-5"),
        ("every day at 18:30", "30 18 * * *"),
        ("daily", "0 0 * * *"),
        ("daily at noon", "0 12 * * *"),
        ("every monday 8:00", "0 8 * * 1"),
        ("every Monday, Wednesday and Friday at 7.15pm", "15 19 * * 1,3,5"),
        ("mondays at 8am and 5 p.m.", "0 8,17 * * 1"),
        ("on saturdays and sundays at 12am", "0 0 * * 0,6"),
        ("every weekend 10:00", "0 10 * * 0,6"),
        ("weekly on friday at 16:00", "0 16 * * 5"),
        ("weekly", "0 0 * * 0"),
        ("monthly on the 1st at 9am", "0 9 1 * *"),
        ("every month on the 15th", "0 0 15 * *"),
        ("monthly", "0 0 1 * *"),
        ("every minute", "* * * * *"),
        ("every 15 minutes", "*/15 * * * *"),
        ("every 45 minutes", "@every 45m"),
        ("every hour", "0 * * * *"),
        ("hourly", "0 * * * *"),
        ("every hour at :20", "20 * * * *"),
        ("every 6 hours", "0 */6 * * *"),
        ("every 5 hours", "@every 5h"),
        ("0 9 * * mon-fri", "0 9 * * mon-fri"),
        ("  */5   9-17 1,15 jan-jun ? ", "*/5 9-17 1,15 jan-jun ?"),
        ("@hourly", "@hourly"),
    ],
)
def test_words_become_cron_lines(text: str, line: str) -> None:
    assert parse_schedule(text) == line


@each_row(
    ("text", "why"),
    [
        ("", "is not understood"),
        ("sometimes", "is not understood"),
        ("every 9:00", "is not understood"),
        ("every day at lunch", "is not understood"),
        ("every day at 25:00", "not a time of day"),
        ("every day at 13pm", "not a time of day"),
        ("every day at 9:00 and 17:30", "make one schedule for each"),
        ("every 2 days", "name the days"),
        ("every other week on monday", "name the days"),
        ("every 0 minutes", "at least a minute"),
        ("@every 0m", "at least a minute"),
        ("0 24 * * *", "not a valid hour"),
        ("0 9 * * 8", "not a valid day of the week"),
        ("0 9 5-1 * *", "not a valid day of the month"),
        ("0 9 * foo *", "not a valid month"),
        ("*/0 * * * *", "not a valid minute"),
        ("0 0 30 2 *", "never runs"),
        ("@reboot", "five fields"),
        ("monthly on the 32nd", "not a valid day of the month"),
    ],
)
def test_what_cannot_be_a_schedule_is_explained(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_schedule(text)


def run(line: str, after: str, zone: ZoneInfo = BERLIN, *, times: int = 1) -> list[str]:
    """Return the next times of a line, as clocks show them."""
    moment = datetime.fromisoformat(after).replace(tzinfo=zone).timestamp()
    shown = []
    for _ in range(times):
        moment = next_time(line, moment, zone)
        shown.append(datetime.fromtimestamp(moment, zone).isoformat(timespec="minutes"))
    return shown


@each_row(
    ("line", "after", "expected"),
    [
        ("0 9 * * 1-5", "2026-11-13T09:00", "2026-11-16T09:00+01:00"),
        ("0 9 * * 1-5", "2026-11-13T08:59", "2026-11-13T09:00+01:00"),
        ("0 9 * * 7", "2026-11-16T00:00", "2026-11-22T09:00+01:00"),
        ("0 9 * * fri-sun", "2026-11-16T00:00", "2026-11-20T09:00+01:00"),
        ("0 0 29 2 *", "2096-03-01T00:00", "2104-02-29T00:00+01:00"),
        ("0 0 13 * 5", "2026-11-14T00:00", "2026-11-20T00:00+01:00"),
        ("5/20 * * * *", "2026-11-16T10:06", "2026-11-16T10:25+01:00"),
        ("@every 45m", "2026-11-16T10:06", "2026-11-16T10:45+01:00"),
        ("59 23 31 12 *", "2026-12-31T23:59", "2027-12-31T23:59+01:00"),
    ],
)
def test_the_next_time_of_a_line(line: str, after: str, expected: str) -> None:
    assert run(line, after) == [expected]


def test_a_time_that_clocks_skip_runs_when_they_have_moved() -> None:
    assert run("30 2 * * *", "2026-03-28T03:00", times=2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]
    # In Havana, midnight itself is skipped.
    assert run("0 0 * * *", "2026-03-07T12:00", ZoneInfo("America/Havana")) == [
        "2026-03-08T01:00-04:00"
    ]


def test_a_time_that_comes_twice_runs_once() -> None:
    assert run("30 2 * * *", "2026-10-24T03:00", times=2) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]


def test_a_line_for_every_hour_follows_real_time() -> None:
    assert run("0 * * * *", "2026-10-25T01:30", times=3) == [
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T03:00+01:00",
    ]


def test_times_are_shown_with_their_zone() -> None:
    assert describe_moment(0.0, BERLIN) == "Thu 1970-01-01 01:00 CET"


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "*/15", "30", "7,59"]),
    st.sampled_from(["*", "2", "0", "*/6", "1-3", "23"]),
    st.sampled_from(["*", "1", "31", "*/2"]),
    st.sampled_from(["*", "3,10,11", "feb-apr"]),
    st.sampled_from(["*", "0", "1-5", "sun,sat"]),
).map(" ".join)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1))  # noqa: DTZ001


@settings(max_examples=100, deadline=None)
@given(line=FIELDS, at=MOMENTS, zone=st.sampled_from(ZONES).map(ZoneInfo))
def test_next_times_are_later_match_the_line_and_leave_none_out(
    line: str, at: datetime, zone: ZoneInfo
) -> None:
    after = at.replace(tzinfo=UTC).timestamp()
    cron = parse_cron(line)

    found = next_time(line, after, zone)

    assert found > after
    # A later start before the result finds the same result, so nothing is between them.
    assert next_time(line, (after + found) / 2, zone) == found
    assert next_time(line, found - 1, zone) == found
    shown = datetime.fromtimestamp(found, zone)
    before = datetime.fromtimestamp(found - 1, zone)
    moved = shown.utcoffset() != before.utcoffset()
    if not moved:
        assert shown.minute in cron.minutes
        assert shown.hour in cron.hours
        assert cron.covers(shown.date())


@given(at=MOMENTS, zone=st.sampled_from(ZONES).map(ZoneInfo), hour=st.integers(0, 23))
def test_a_daily_line_runs_once_on_every_day(at: datetime, zone: ZoneInfo, hour: int) -> None:
    moment = next_time(f"15 {hour} * * *", at.replace(tzinfo=UTC).timestamp(), zone)
    day = datetime.fromtimestamp(moment, zone).date()

    for _ in range(5):
        moment = next_time(f"15 {hour} * * *", moment, zone)
        day += timedelta(days=1)
        assert datetime.fromtimestamp(moment, zone).date() == day


@given(text=st.text(alphabet="every monday 9:0am,*/@-", max_size=30))
def test_any_text_is_a_valid_line_or_an_error(text: str) -> None:
    try:
        line = parse_schedule(text)
    except ConfigError:
        return
    parse_cron(line)
