"""Of a summary only its text is kept: no draft before it, no instructions after it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.estimate import text_units
from clew.context.summary_text import clean_summary, shorten_notes


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
2. Messages:
   - "Please look at the timetable first, and only then at the boats."
3. Code:
```python
boats = sorted(fleet, key=lambda boat: boat.delay)
```
4. Next: ask the harbour."""
SAID = ["Please look at the timetable first,\nand only then at the boats. Then write to me."]


def test_notes_that_are_short_enough_stay_as_they_are() -> None:
    assert shorten_notes(NOTES, max_units=1_000, said=SAID) == NOTES


def test_longer_notes_lose_code_and_what_the_user_said() -> None:
    without_code = NOTES.replace(NOTES[NOTES.index("```") : NOTES.index("4.")], "")
    enough = text_units(without_code)

    assert shorten_notes(NOTES, max_units=enough, said=SAID) == without_code
    assert shorten_notes(NOTES, max_units=enough - 1, said=SAID).splitlines() == [
        "1. The user wants a ferry that is never late.",
        "2. Messages:",
        "3. Code:",
        "4. Next: ask the harbour.",
    ]


def test_notes_never_become_empty() -> None:
    code, words = "```\nsail()\n```", "Please look at the timetable first"

    assert shorten_notes(code, max_units=0, said=[]) == code
    assert shorten_notes(words, max_units=0, said=SAID) == words
