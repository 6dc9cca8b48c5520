"""The summary with which another program continued a conversation is not lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew import fit
from clew.context.digest.rule_summary import prepare_digest
from clew.context.digest.turns.earlier_summary import quote_summary
from clew.core.messages import assistant, user
from tests.context.conversations import items, run

SUMMARY = """This session is being continued from a previous conversation that ran out of context.

Analysis:
First I looked at the harbour office.

Summary:
1. Primary Request and Intent:
   - Rebuild the ferry timetable
2. Files:
   - `timetable.py` has the routes
```python
ferry = 1
```
3. All user messages:
   - "never touch the winter routes"
4. Pending Tasks:
   - print the timetable

Please continue the conversation from where we left it off."""


def digest(*messages: object, notes: str = "", max_chars: int = 5_000) -> str:
    talk = items(*messages, user("Go on"), run("ls", "timetable.py"))  # type: ignore[arg-type]
    return prepare_digest(talk, beside=(notes, "")).write_chars(max_chars)


def test_the_sections_of_an_earlier_summary_are_quoted() -> None:
    text = digest(user(SUMMARY))

    assert "Summary of what was before (#2), by the agent:\n1. Primary Request and Intent:" in text
    assert '   - "never touch the winter routes"' in text
    assert "Analysis" not in text
    assert "Please continue" not in text


@pytest.mark.parametrize(
    "beginning",
    [
        "Another language model started to solve this problem and left this:",
        "The conversation history before this point was compacted into this summary:",
        "Here is a summary of the conversation to date:",
        "<state_snapshot>",
    ],
)
def test_summaries_of_other_programs_are_recognised(beginning: str) -> None:
    text = digest(user(f"{beginning}\n\n- the ferry leaves at nine\n- tickets are sold on board"))

    assert "- the ferry leaves at nine" in text
    assert "user: " not in text.partition("Go on")[0].partition("Requests")[0]


def test_the_last_of_several_summaries_is_quoted() -> None:
    text = digest(user(SUMMARY), assistant("Done."), user(SUMMARY.replace("ferry", "tram")))

    assert "Rebuild the tram timetable" in text
    assert "Rebuild the ferry timetable" not in text


def test_what_the_notes_of_a_model_tell_is_not_quoted_again() -> None:
    text = digest(user(SUMMARY), notes='They said:\n- "never touch the winter routes"')

    assert "Rebuild the ferry timetable" in text
    assert "winter routes" not in text


def test_a_summary_that_can_be_seen_is_not_quoted_again() -> None:
    talk = items(user(SUMMARY), user("Go on"), run("ls", "timetable.py"))

    text = prepare_digest(talk[1:], staying=talk[:1], conversation=talk).write_chars(5_000)

    assert "Summary of what was before" not in text


def test_in_little_room_the_user_comes_first() -> None:
    assert "ferry = 1" in quote_summary(SUMMARY, max_chars=1_000)

    text = quote_summary(SUMMARY, max_chars=200)

    assert "winter routes" in text
    assert "ferry = 1" not in text
    assert "print the timetable" not in text


@given(text=st.text(alphabet="a1. \n#", max_size=300), max_chars=st.integers(0, 300))
def test_a_summary_is_quoted_within_its_size(text: str, max_chars: int) -> None:
    assert len(quote_summary(text, max_chars=max_chars)) <= max_chars


def test_fitting_a_continued_conversation_keeps_the_first_request() -> None:
    messages = [{"role": "user", "content": SUMMARY}, {"role": "user", "content": "Go on"}]
    for n in range(60):
        call = {"id": f"c{n}", "type": "function"}
        call["function"] = {"name": "Bash", "arguments": '{"command": "cat log"}'}  # type: ignore[assignment]
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})  # type: ignore[dict-item]
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"line {n} " * 100})

    fitted = fit(messages, max_tokens=4_000)

    assert "Rebuild the ferry timetable" in str(fitted.messages)
