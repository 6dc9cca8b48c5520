"""The diff of an edit: numbers, gaps, marks for words and line ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.tools.builtin.diff import compare
from clew.tui.rendering.diff_text import render_diff
from clew.tui.rendering.lines import count_columns, count_line
from clew.tui.theme import make_theme

pytestmark = pytest.mark.req("TUI-1")

OLD = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\n"
MONOCHROME = make_theme(colours=False)


def show(old: str, new: str, width: int = 40, most: int | None = None) -> list[str]:
    lines = render_diff(compare(old, new, "a"), width=width, theme=MONOCHROME, most=most)
    return ["".join(span.text for span in line).rstrip() for line in lines]


def test_stretches_far_apart_have_a_gap_between_them() -> None:
    new = OLD.replace("one\n", "").replace("eleven\n", "11\n")

    assert show(OLD, new) == [
        *(" 1 - one", " 1   two", " 2   three", " 3   four", "   …"),
        *(" 7   eight", " 8   nine", " 9   ten", "11 - eleven", "10 + 11"),
    ]


def test_a_missing_newline_is_marked() -> None:
    assert show("a\n", "a") == ["1 - a", "1 + a", "  \\ no newline at end of file"]


def test_a_long_line_continues_below_its_text() -> None:
    assert show("", "one two three\n", width=10) == ["1 + one tw", "    o thre", "    e"]


def test_words_that_changed_are_marked_and_lines_that_share_little_are_not() -> None:
    dark = make_theme()
    change = compare("value = compute(1)\nabc\n", "value = compute(2)\nsomething else\n", "a")

    marked = [
        span.text
        for line in render_diff(change, width=60, theme=dark)
        for span in line
        if span.sgr in {dark.sgr("added_word"), dark.sgr("removed_word")}
    ]

    assert marked == ["1", "2"]


@given(
    st.text(alphabet="ab\n\t 漢é", max_size=40),
    st.text(alphabet="ab\n\t 漢é", max_size=40),
    st.integers(8, 40),
    st.integers(2, 12) | st.none(),
)
def test_every_row_fits_and_all_lines_are_there(
    old: str, new: str, width: int, most: int | None
) -> None:
    change = compare(old, new, "a")

    rows = render_diff(change, width=width, theme=MONOCHROME, most=most)

    assert all(count_line(row) <= width for row in rows)
    assert most is None or len(rows) <= most
    if most is None:
        text = "".join(span.text for row in rows for span in row)
        for hunk in change.hunks:
            for line in hunk.number_lines():
                shown = line.text.expandtabs(4)
                assert count_columns(shown) > width - 8 or shown in text
