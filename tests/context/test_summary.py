"""Summaries: what a model is asked, and what rules say without one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.estimate import text_units
from clew.context.excerpt import excerpt
from clew.context.facts import gather
from clew.context.items import Item
from clew.context.summary import digest, facts_text, summary_prompt, transcript_lines
from clew.context.view import fold
from clew.core.entries import Body, MessageAdded
from clew.core.ids import CallId
from clew.core.messages import Image, Message, Reasoning, ToolCall, assistant, tool_result, user
from tests.histories import SETUP, entries_of


def call(name: str, arguments: str, mark: str) -> ToolCall:
    return ToolCall(call_id=CallId(mark), name=name, arguments=arguments)


READ = call("Read", '{"file_path":"src/app.py"}', "r")
EDIT = call("Edit", '{"file_path":"src/app.py","old_string":"a"}', "e")
LIST = call("Bash", '{"command":"ls   -la"}', "b")
FAILED = call("Write", '{"file_path":"nope.py"}', "f")
ODD = call("Bash", "not json", "o")


def items(*messages: Message) -> list[Item]:
    bodies: list[Body] = [SETUP, *(MessageAdded(message=message) for message in messages)]
    return list(fold(entries_of(bodies)).items)


WORK = items(
    user("Fix the login bug", Image(data=b"x")),
    assistant(Reasoning(text="hm"), "On it.", READ, EDIT, LIST, FAILED, ODD),
    tool_result(READ, "def login(): ..."),
    tool_result(EDIT, "done"),
    tool_result(LIST, "total 0"),
    tool_result(FAILED, "read-only", failed=True),
    tool_result(ODD, "ran it anyway"),
    assistant("Fixed it in src/app.py."),
)


@pytest.mark.req("CMP-3")
def test_facts_come_from_the_calls_and_leave_out_failed_ones() -> None:
    facts = gather(WORK)

    assert facts.files_changed == ("src/app.py",)
    assert facts.files_read == ()
    assert facts.commands == ("ls -la",)
    assert facts_text(WORK) == "Files changed: src/app.py\nCommands run: ls -la"
    assert facts_text([]) == ""


def test_a_file_that_was_only_read_is_listed_as_read() -> None:
    assert gather(items(assistant(READ))).files_read == ("src/app.py",)
    assert gather(items(assistant(call("Read", "{}", "x")))).files_read == ()


@pytest.mark.req("CMP-6")
def test_the_summariser_sees_calls_with_arguments_and_the_earlier_notes() -> None:
    prompt = summary_prompt(WORK, previous="old notes", instructions="keep the API names").text

    for expected in (
        "old notes",
        "keep the API names",
        "src/app.py",
        "user: Fix",
        "failed of Write",
    ):
        assert expected in prompt
    assert "hm" not in "\n".join(transcript_lines(WORK))
    assert "[image/png]" in prompt


@pytest.mark.req("CMP-8")
def test_a_transcript_larger_than_the_summarisers_window_is_cut() -> None:
    long = items(user("word " * 10_000))

    assert len(summary_prompt(long, max_chars=2_000).text) < 4_000
    assert len(summary_prompt(long).text) > 40_000


@pytest.mark.req("STR-3")
def test_a_digest_says_what_was_asked_touched_and_answered() -> None:
    text = digest(WORK, max_units=500)

    for expected in ("Fix the login bug", "Files changed: src/app.py", "Fixed it", "nope.py"):
        assert (expected in text) is (expected != "nope.py")


@given(st.integers(20, 400))
def test_a_digest_keeps_to_its_size_and_prefers_what_is_new(size: int) -> None:
    many = items(*(user(f"request number {number} about things") for number in range(100)))

    text = digest(many, max_units=size)

    assert text_units(text) <= max(size, 25)
    if "request" in text:
        assert "request number 99" in text


@pytest.mark.req("STR-7")
@given(st.text(max_size=400), st.integers(1, 300))
def test_an_excerpt_never_exceeds_its_limit(text: str, limit: int) -> None:
    short = excerpt(text, limit)

    assert len(short) <= limit
    assert len(text) > limit or short == text


def test_an_excerpt_shows_head_and_tail_and_where_the_rest_is() -> None:
    short = excerpt("begin" + "x" * 5_000 + "finish", 300, where="; entry #7 has it")

    assert short.startswith("begin")
    assert short.endswith("finish")
    assert "5,011 characters in all" in short
    assert "entry #7 has it" in short
