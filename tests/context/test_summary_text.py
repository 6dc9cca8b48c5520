"""Of a summary only its text is kept: no draft before it, no instructions after it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.summary_text import clean_summary, drop_code


@pytest.mark.parametrize(
    "answer",
    [
        "<analysis>\nLet me see.\n</analysis>\n\n<summary>\nThe ferry is late.\n</summary>",
        "<summary>The ferry is late.",
        "<analysis>Let me see.</analysis>\nThe ferry is late.",
        "<think>Let me see.</think>The ferry is late.",
        "Analysis:\nLet me see.\n\nSummary:\nThe ferry is late.",
        "Here are the notes.\n\n## Analysis\n\nLet me see.\n\n## Summary\nThe ferry is late.\n",
        "  The ferry is late.\n",
        "The ferry is late.\n\nPlease continue the conversation from where we left it off.",
        "The ferry is late.\nIf you need specific details from before compaction, read the log.\n",
    ],
)
def test_only_the_summary_is_kept(answer: str) -> None:
    assert clean_summary(answer) == "The ferry is late."


@pytest.mark.parametrize(
    "answer",
    [
        "Goal: a report.\nAnalysis: it is late.\nSummary: none yet.",
        "1. Done\n\nSummary:\n- the ferry is late",
        "<analysis>Let me see.</analysis>",
        "<analysis>Let me see.",
        "Analysis:\nLet me see.",
        "<summary></summary>",
    ],
)
def test_an_answer_without_both_parts_is_kept_as_it_is(answer: str) -> None:
    assert clean_summary(answer) == answer


@given(st.text(alphabet="ab<>/\nsumary:Analysis ", max_size=200))
def test_nothing_is_made_up_and_nothing_is_left_empty(answer: str) -> None:
    kept = clean_summary(answer)

    assert bool(kept) == bool(answer.strip())
    assert set(kept) <= set(answer)


NOTES = """\
1. The user wants a ferry that is never late.
```python
boats = sorted(fleet, key=lambda boat: boat.delay)
```
2. Next: ask the harbour.
~~~
wind = 7
```
~~~
3. Then sleep."""


def test_code_can_be_left_out() -> None:
    assert drop_code(NOTES).splitlines() == [
        "1. The user wants a ferry that is never late.",
        "2. Next: ask the harbour.",
        "3. Then sleep.",
    ]


def test_what_is_between_two_pieces_of_code_stays() -> None:
    listed = "- ```py\n  a()\n  ```\n- the rule\n- ```py\n  b()\n  ```\nend"
    inline = "```make test``` runs all.\nthe rule\n````\nx\n```\ny\n````\nend"

    assert drop_code(listed) == "- the rule\nend"
    assert drop_code(inline) == "```make test``` runs all.\nthe rule\nend"


@pytest.mark.parametrize("text", ["```\nsail()\n```", "1. Sail\n```\nnever closed\n2. Land"])
def test_text_that_is_only_code_or_unclosed_code_stays(text: str) -> None:
    assert drop_code(text) == text
