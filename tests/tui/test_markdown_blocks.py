"""Complete Markdown blocks are found while an answer arrives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.tui.markdown_blocks import MarkdownSplitter
from tests.rows import each_row
from tests.tui.answers import ANSWER, answers, cut

pytestmark = pytest.mark.req("TUI-2")


def feed(*pieces: str) -> tuple[list[str], str]:
    splitter = MarkdownSplitter()
    done = [block for piece in pieces for block in splitter.feed(piece)]
    return done, splitter.tail


@each_row(
    ("text", "done", "tail"),
    [
        ("A paragraph", [], "A paragraph"),
        ("One.\nTwo.\n\n", ["One.\nTwo.\n\n"], ""),
        ("# Title\n", ["# Title\n"], ""),
        ("Title\n=====\n\n", ["Title\n=====\n\n"], ""),
        ("Text\n```sh\nls\n\n", ["Text\n"], "```sh\nls\n\n"),
        ("```sh\nls\n\n# no title\n```\n", ["```sh\nls\n\n# no title\n```\n"], ""),
        ("~~~\n```\n~~~\n", ["~~~\n```\n~~~\n"], ""),
        ("- one\n\n- two\n\n", [], "- one\n\n- two\n\n"),
        ("- one\n\n  more\n\nText", [], "- one\n\n  more\n\nText"),
        ("- one\n\nText\n", ["- one\n\n"], "Text\n"),
        (
            "- a\n\n  ```\n  x\n\n  y\n  ```\n\nEnd\n",
            ["- a\n\n  ```\n  x\n\n  y\n  ```\n\n"],
            "End\n",
        ),
        ("|a|b|\n|-|-|\n|1|2|\n", [], "|a|b|\n|-|-|\n|1|2|\n"),
        ("|a|b|\n|-|-|\n|1|2|\n\n", ["|a|b|\n|-|-|\n|1|2|\n\n"], ""),
        ("    code\n\n    more\n\n", [], "    code\n\n    more\n\n"),
        ("> quote\nlazy\n\n", ["> quote\nlazy\n\n"], ""),
        ("one\rtwo\r\n\r\nthree\n\n", ["one\rtwo\r\n\r\n", "three\n\n"], ""),
    ],
)
def test_a_block_is_complete_when_nothing_can_continue_it(
    text: str, done: list[str], tail: str
) -> None:
    assert feed(text) == (done, tail)


@given(answers() | st.just(ANSWER), st.data())
def test_the_pieces_are_the_text_and_do_not_depend_on_how_it_arrives(
    text: str, data: st.DataObject
) -> None:
    at_once, tail = feed(text)
    done, rest = feed(*cut(text, data))

    assert "".join(at_once) + tail == text
    assert (done, rest) == (at_once, tail)


def test_a_long_answer_is_not_kept_open() -> None:
    done, tail = feed(*ANSWER)

    assert len(done) > 8
    assert len(tail) < len(ANSWER) / 4
