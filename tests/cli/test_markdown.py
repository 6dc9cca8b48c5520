"""Markdown that arrives in pieces: what is shown, and when."""

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.cli.markdown import MarkdownStream
from clew.core.sanitize import sanitize

CODES = {"green": 32, "yellow": 33, "red": 31, "dim": 2, "bold": 1, "cyan": 36}
SGR = re.compile(r"\x1b\[(\d+)m")
NAMES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 36: "cyan"}
ENDS = {23: "italic", 24: "underline"}
MARKS = re.compile(r"[*_`#>│─\\\s-]")
WIDTH = 12

Cells = list[tuple[str, frozenset[str]]]


def paint(text: str, style: str) -> str:
    return f"\x1b[{CODES[style]}m{text}\x1b[0m"


def plain(text: str, style: str) -> str:
    return text


def rendered(*deltas: str) -> str:
    stream = MarkdownStream(paint, WIDTH)
    return "".join([*map(stream.feed, deltas), stream.end()])


def cells(output: str) -> Cells:
    """Return what a terminal shows: each character with how it looks."""
    found: Cells = []
    look: frozenset[str] = frozenset()
    for at, part in enumerate(SGR.split(output)):
        if at % 2 == 0:
            found += [(sign, look) for sign in part]
        elif part == "0":
            look = frozenset()
        elif name := ENDS.get(int(part)):
            look -= {name}
        else:
            look |= {NAMES[int(part)]}
    return found


def shown(text: str) -> str:
    return SGR.sub("", rendered(text))


def looks(text: str) -> list[tuple[str, str]]:
    """Return the words that look like something, and what."""
    found: list[tuple[str, str]] = []
    for sign, look in cells(rendered(text)):
        style = "+".join(sorted(look))
        if found and found[-1][1] == style:
            found[-1] = (found[-1][0] + sign, style)
        else:
            found.append((sign, style))
    return [(words, style) for words, style in found if style]


PIECES = st.sampled_from(
    [
        *("*", "**", "***", "_", "__", "`", "``", "```", "~~~", "\\", "[", "](", ")", "("),
        *("\n", "\n\n", " ", "  ", "    ", "\t", "# ", "### ", "> ", ">", "- ", "* ", "+ ", "1. "),
        *("---", "***", "- - -", "|", "| a | b |", "python", "```python\n", "\n```\n"),
        *("word", "two words", "snake_case", "_word_", "**bold**", "*it*", "`code`", "2024."),
        *("[text](https://x.org/a_b)", "src/*.py", "迷宮", "，", "\x1b[31m", "\x07", "é", "."),
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=25).map("".join)


@given(st.data())
def test_however_a_text_is_cut_the_screen_is_the_same(data: st.DataObject) -> None:
    text = data.draw(TEXTS)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=10))
    ends = sorted({0, len(text), *cuts})

    deltas = [text[start:stop] for start, stop in pairwise(ends)]

    assert cells(rendered(*deltas)) == cells(rendered(text))
    assert cells(rendered(*text)) == cells(rendered(text))


@given(TEXTS)
def test_nothing_but_marks_is_lost(text: str) -> None:
    assert MARKS.sub("", shown(text)) == MARKS.sub("", sanitize(text))


@given(TEXTS)
def test_without_colours_the_text_is_left_as_it_is(text: str) -> None:
    stream = MarkdownStream(plain, WIDTH)

    assert "".join(stream.feed(sign) for sign in text) + stream.end() == sanitize(text)


@given(TEXTS)
def test_control_characters_are_sanitized(text: str) -> None:
    assert "\x1b" not in shown(text)
    assert "\x07" not in shown(text)


@given(st.lists(st.text("abcdefg,.!?:;é迷 ", min_size=1), min_size=1).map("".join))
def test_words_are_shown_as_soon_as_they_are_there(text: str) -> None:
    stream = MarkdownStream(paint, WIDTH)
    seen = ""
    for at, sign in enumerate(text, start=1):
        seen += stream.feed(sign)
        assert seen == text[:at] or not text[:at].strip()


@pytest.mark.parametrize("mark", ["**", "*", "`", "### ", "- ", "1. ", "> ", "[x](", "_"])
def test_a_mark_holds_back_nothing_that_follows_it(mark: str) -> None:
    stream = MarkdownStream(paint, WIDTH)

    seen = SGR.sub("", stream.feed(f"{mark}the thread leads out of"))

    assert seen.endswith("the thread leads out of")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**bold** and *italic*", [("bold", "bold"), ("italic", "italic")]),
        ("***both***", [("both", "bold+italic")]),
        ("**a *b* c**", [("a ", "bold"), ("b", "bold+italic"), (" c", "bold")]),
        ("*a _b_ c*", [("a b c", "italic")]),
        ("_word_ (_too_)", [("word", "italic"), ("too", "italic")]),
        ("`code **not bold**`", [("code **not bold**", "cyan")]),
        ("``a`b``", [("a`b", "cyan")]),
        ("**`x`**", [("x", "bold+cyan")]),
        ("**bold\nstill** not", [("bold", "bold"), ("still", "bold")]),
        ("**open\n\nnot", [("open", "bold")]),
        ("# One\ntext", [("One", "bold+underline")]),
        ("### Three `x`", [("Three ", "bold"), ("x", "bold+cyan")]),
        ("- item\n1) other", [("-", "cyan"), ("1)", "cyan")]),
        ("> said *so*\nnot", [("│ said ", "dim"), ("so", "dim+italic")]),
        ("[text](https://x/a_b_(c)) _x", [("https://x/a_b_(c)", "underline")]),
        ("这是**粗体**，**也是**。", [("粗体", "bold"), ("也是", "bold")]),
        ("**.env** is", [(".env", "bold")]),
        ("```py\na **b**\n```\n**c**", [("```py", "dim"), ("```", "dim"), ("c", "bold")]),
        ("> ```\n> x\n> ```\n**c**", [("│ ```", "dim"), ("> ```", "dim"), ("c", "bold")]),
    ],
)
def test_marks_become_looks(text: str, expected: list[tuple[str, str]]) -> None:
    assert looks(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("2 * 3 * 4", "2 ** 3", "a*b*c", "x = y**2", "src/*.py", "**/*.py", "*.py and *.md"),
        *("snake_case_name", "__init__.py", "src/__init__.py", "_two words_", "_private"),
        *("a\\d+ C:\\dir", "array[0] (x)", "[1] note", "#hashtag", "#!/bin/sh", "-flag", "--long"),
        *("+1", "3.14", "2024 was", "| **a** | _b_ |", "trailing *", "f(**", "====", "a > b"),
    ],
)
def test_text_that_only_looks_like_a_mark_stays(text: str) -> None:
    assert shown(text) == text


def test_marks_go_and_lines_stay() -> None:
    text = "# Title\n\nA **b** `c` \\*d\\*\n\n---\n- x\n  - y\n\n```sh\nls *\n```\n> q\n"

    assert shown(text) == (
        "Title\n\nA b c *d*\n\n────────────\n- x\n  - y\n\n```sh\nls *\n```\n│ q\n"
    )


def test_code_keeps_every_character_until_its_fence_ends() -> None:
    code = "````\n# x\n- y\n``` \n  **z** _a_\n   ````\n"

    assert shown(code) == code


def test_a_stream_can_be_used_again_after_its_end() -> None:
    stream = MarkdownStream(paint, WIDTH)
    stream.feed("```\ncode **")
    stream.end()

    assert SGR.sub("", stream.feed("**bold** ")) == "bold "


def test_a_long_text_at_once_and_lines_of_many_blanks_or_marks_take_no_time() -> None:
    start = time.perf_counter()

    rendered("some **bold** words and `code` in a_long line " * 5_000)
    rendered(" " * 50_000 + "x")
    rendered("- " * 50_000 + "x")
    rendered("*" * 50_000 + "x" + "_" * 50_000)
    rendered("[](" * 20_000)

    assert time.perf_counter() - start < 5
