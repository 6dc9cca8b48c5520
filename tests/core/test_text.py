"""Text functions that every layer shares."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.entries import Noted
from clew.core.text import (
    end_sentence,
    format_ago,
    make_encodable,
    one_line,
    pluralize,
    replace_surrogates,
    split_validation_error,
    truncate,
)


def test_one_line_joins_lines_and_drops_what_a_terminal_would_obey() -> None:
    assert one_line("  a\n\tb\x1b[31m c\u2028d\u202ee ") == "a b [31m c d e"


def test_one_line_keeps_joined_emoji_and_replaces_lone_surrogates() -> None:
    assert one_line("\U0001f469\u200d\U0001f4bb a\udcff") == "\U0001f469\u200d\U0001f4bb a\ufffd"


@pytest.mark.parametrize(
    ("text", "most", "line"),
    [
        ("one two", 7, "one two"),
        ("one two", 6, "one t…"),
        ("one two", 5, "one…"),
        ("a" + " " * 100, 10, "a…"),
        ("a b" * 1000, 4, "a b…"),
        ("", 3, ""),
    ],
)
def test_one_line_is_truncated_to_its_limit(text: str, most: int, line: str) -> None:
    assert one_line(text, most) == line


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_one_line_is_printable_as_one_line_and_never_too_long(text: str, most: int) -> None:
    line = one_line(text, most)

    assert len(line) <= most
    assert len(line.splitlines()) <= 1
    line.encode()


def test_truncate_marks_the_cut() -> None:
    assert truncate("four", 4) == "four"
    assert truncate("fives", 4) == "fiv…"
    assert truncate("a b c", 3) == "a…"


def test_a_number_agrees_with_its_noun() -> None:
    assert pluralize(1, "file") == "1 file"
    assert pluralize(0, "file") == "0 files"
    assert pluralize(1234, "entry", "entries") == "1,234 entries"


def test_lone_surrogates_become_replacement_characters() -> None:
    assert replace_surrogates("plain") == "plain"
    assert replace_surrogates("ünïcödé") == "ünïcödé"
    assert replace_surrogates("a\udcffb") == "a\ufffdb"
    body = Noted(topic="t", text="a\ud800", data={"k\udcff": ["\udcff", 1]})
    assert make_encodable(body) == Noted(topic="t", text="a\ufffd", data={"k\ufffd": ["\ufffd", 1]})
    fine = Noted(topic="t", text="é")
    assert make_encodable(fine) is fine


@pytest.mark.parametrize(
    ("value", "split"),
    [
        ({"a": [1, "x"]}, ("Expected `int`, got `str`", "a[1]")),
        ({}, ("Object missing required field `a`", "")),
        ([], ("Expected `object`, got `array`", "")),
    ],
)
def test_a_validation_error_is_split_into_problem_and_path(
    value: object, split: tuple[str, str]
) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Numbers)

    assert split_validation_error(caught.value) == split


class Numbers(msgspec.Struct):
    a: list[int]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("no", "no."),
        ("no.", "no."),
        ("no. .", "no."),
        ("why?", "why?"),
        ("and so on …", "and so on …"),
    ],
)
def test_a_sentence_ends_with_one_full_stop(text: str, sentence: str) -> None:
    assert end_sentence(text) == sentence


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2026-03-04T12:00:40", "just now"),
        ("2026-03-04T13:00:00", "just now"),
        ("2026-03-04T11:59:00", "2 minutes ago"),
        ("2026-03-04T11:00:59", "1 hour ago"),
        ("2026-03-04T00:30:00", "11 hours ago"),
        ("2026-03-03T20:00:00", "yesterday"),
        ("2026-03-03T00:30:00", "yesterday"),
        ("2026-03-02T23:30:00", "2 days ago"),
        ("2026-02-26T12:00:00", "6 days ago"),
        ("2026-02-25T12:00:00", "2026-02-25"),
        ("2020-01-01T12:00:00", "2020-01-01"),
    ],
)
def test_an_age_is_told_in_the_largest_unit_and_beyond_a_week_as_a_date(at: str, said: str) -> None:
    zone = timezone(timedelta(hours=2))
    now = datetime(2026, 3, 4, 12, 1, 0, tzinfo=zone)

    then = datetime.fromisoformat(at).replace(tzinfo=zone)

    assert format_ago(then.timestamp(), now.timestamp(), zone) == said


def test_hours_are_told_across_midnight() -> None:
    now = datetime(2026, 3, 4, 1, 0, 0, tzinfo=UTC).timestamp()

    assert format_ago(now - 3 * 3_600, now, UTC) == "3 hours ago"
