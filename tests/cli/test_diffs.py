"""Diffs of edits as lines for a screen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.cli.diffs import StyledLine, diff_rows
from clew.tools.builtin.diff import compare
from clew.tui.status import count_columns

OLD = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\n"


def test_lines_carry_their_numbers_and_colours() -> None:
    new = OLD.replace("five\n", "FIVE\n5\n")

    assert diff_rows(compare(OLD, new, "a.txt").data(), width=40) == [
        StyledLine("a.txt +2 -1", "dim"),
        StyledLine("2   two"),
        StyledLine("3   three"),
        StyledLine("4   four"),
        StyledLine("5 - five", "red"),
        StyledLine("5 + FIVE", "green"),
        StyledLine("6 + 5", "green"),
        StyledLine("7   six"),
        StyledLine("8   seven"),
        StyledLine("9   eight"),
    ]


def test_stretches_far_apart_have_a_gap_between_them() -> None:
    new = OLD.replace("one\n", "").replace("eleven\n", "11\n")

    shown = [row.text for row in diff_rows(compare(OLD, new, "a").data(), width=40)]

    assert shown == [
        *("a +1 -2", " 1 - one", " 1   two", " 2   three", " 3   four", "   …"),
        *(" 7   eight", " 8   nine", " 9   ten", "11 - eleven", "10 + 11"),
    ]


def test_a_new_file_and_a_missing_newline_are_marked() -> None:
    data = compare("", "x\ny", "new.txt").data() | {"created": True}

    assert diff_rows(data, width=40) == [
        StyledLine("new.txt (new) +2 -0", "dim"),
        StyledLine("1 + x", "green"),
        StyledLine("2 + y", "green"),
        StyledLine("  \\ no newline at end of file", "dim"),
    ]


def test_a_long_diff_is_cut_and_says_how_much_is_hidden() -> None:
    new = "".join(f"{at}\n" for at in range(1_000))

    rows = diff_rows(compare("", new, "a").data(), width=40, most=5)

    assert len(rows) == 7
    assert rows[-1] == StyledLine("… 995 more", "dim")


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"path": "a", "added": 0, "removed": 0, "hunks": []},
        {"path": "a", "added": 1, "removed": 0, "hunks": "many"},
        {"path": "a", "added": 1, "removed": 0, "hunks": [{"lines": ["+x"]}]},
        {"path": 1, "added": 1, "removed": 0, "hunks": [1]},
        {"total": 7},
    ],
)
def test_data_without_a_diff_gives_no_lines(data: dict[str, object]) -> None:
    assert diff_rows(data, width=40) == []


LINES = st.lists(st.text(max_size=30), max_size=30).map("\n".join)


@given(LINES, LINES, st.integers(10, 60), st.integers(1, 20))
def test_every_line_is_sanitized_and_fits(old: str, new: str, width: int, most: int) -> None:
    rows = diff_rows(compare(old, new, "a/\x1b[2Jb").data(), width=width, most=most)

    assert len(rows) <= most + 2
    for row in rows:
        assert count_columns(row.text) <= width
        assert not set(row.text) & set("\n\r\x1b\x9b")
