"""Search in the journal for what left the view."""

import pytest

from clew.context.recall import RECALL, entry_text, excerpt_around, search
from clew.core.entries import Cleared, Entry, MessageAdded, Noted
from clew.core.ids import CallId
from clew.core.messages import Image, Message, Reasoning, Role, ToolCall, assistant, user
from clew.core.messages import tool_result as result_of
from tests.histories import SETUP, entries_of

READ = ToolCall(call_id=CallId("a"), name="Read", arguments='{"path":"notes.txt"}')
LOOK = ToolCall(call_id=CallId("b"), name=RECALL, arguments='{"query":"marigold"}')
PICTURE = Message(role=Role.USER, parts=(Image(data=b"x"),))
JOURNAL: list[Entry] = entries_of(
    [
        SETUP,
        MessageAdded(message=user("The code word is MARIGOLD-7.")),
        MessageAdded(message=assistant(Reasoning(text="a flower"), "Noted.", READ)),
        MessageAdded(message=result_of(READ, "short"), full_text="the whole marigold garden"),
        MessageAdded(message=assistant(LOOK)),
        MessageAdded(message=result_of(LOOK, "marigold")),
        MessageAdded(message=PICTURE),
        Noted(topic="tool", text="marigold read"),
        Cleared(),
    ]
)


@pytest.mark.req("CMP-10")
def test_the_newest_entries_come_first_and_the_tools_own_results_are_not_found() -> None:
    assert [entry.id for entry in search(JOURNAL, "Marigold")] == [8, 4, 2]
    assert [entry.id for entry in search(JOURNAL, "marigold", limit=1)] == [8]
    assert search(JOURNAL, "tulip") == []


@pytest.mark.req("CMP-10")
def test_an_entry_with_all_words_is_found_before_those_with_some() -> None:
    assert [entry.id for entry in search(JOURNAL, "marigold code")] == [2]


@pytest.mark.req("CMP-10")
def test_the_text_of_an_entry_is_all_that_was_said_called_and_returned() -> None:
    texts = ["", *map(entry_text, JOURNAL)]

    assert texts[3] == 'a flower\nNoted.\nRead {"path":"notes.txt"}'
    assert texts[4] == "the whole marigold garden"
    assert (texts[7], texts[9]) == ("", "")


@pytest.mark.req("CMP-10")
def test_an_excerpt_shows_the_rarest_word_of_the_query() -> None:
    text = "common " * 50 + "rare " + "common " * 50

    assert "rare" in excerpt_around(text, "common rare", chars=60)
    assert excerpt_around("short text", "absent") == "short text"
