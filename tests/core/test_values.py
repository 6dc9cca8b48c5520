"""The small promises of messages, usage and states."""

import msgspec
import pytest

from clew.core.context_state import Basis, Breakdown, ContextState, Status
from clew.core.errors import (
    AnswerRejected,
    BackgroundTaskError,
    ContextOverflow,
    MissingExtra,
    ProviderBusy,
    RateLimited,
    ServerBusy,
    TaskNotFound,
)
from clew.core.ids import new_call_id, new_session_id
from clew.core.messages import (
    Image,
    Message,
    Part,
    Text,
    ToolCall,
    assistant,
    merge_split_texts,
    tool_result,
    user,
)
from clew.core.redaction import redact
from clew.core.redaction.marks import find_mark
from clew.core.secret_variables import is_secret_variable
from clew.core.tasks import TaskErrorCategory, TaskStatus, TimeoutReason
from clew.core.usage import Usage
from tests.rows import each_row

READ = ToolCall(call_id=new_call_id(), name="Read")


def test_a_message_tells_its_words_calls_and_results() -> None:
    call = ToolCall(call_id=new_call_id(), name="Read", arguments='{"file_path":"a"}')
    answer = assistant("one ", call, "two")

    assert answer.text == "one two"
    assert answer.calls == (call,)
    assert tool_result(call, "text").results[0].call_id == call.call_id
    assert user("see", Image(data=b"x")).text == "see"


CITED = '{"citations":[{"url":"https://example.org"}]}'


@each_row(
    ("parts", "text"),
    [
        (("Let me look", READ, "Found it"), "Let me look\n\nFound it"),
        (("one", "two"), "one\n\ntwo"),
        (("See", READ, "", "`a.py`", READ), "See\n\n`a.py`"),
        (("a", Text("b", '{"item":{"id":"msg_2"}}')), "a\n\nb"),
        # One text, split to cite a source or to sign a piece.
        (("It is ", "blue", ", not green", "."), "It is blue, not green."),
        (("accor", Text("ding", CITED), "ly"), "accordingly"),
        (("one\n", READ, "two"), "one\ntwo"),
        ((READ, "two"), "two"),
    ],
)
def test_texts_are_joined_with_a_blank_line_unless_one_continues_the_other(
    parts: tuple[str | Part, ...], text: str
) -> None:
    message = assistant(*parts)

    assert message.text == text
    assert Message(role=message.role, parts=merge_split_texts(message.parts)).text == text


def test_a_text_that_was_split_becomes_one_again() -> None:
    parts = assistant("accor", Text("ding", CITED), "ly", READ, Text("b", CITED)).parts

    assert merge_split_texts(parts) == (Text("accordingly"), READ, Text("b", CITED))


def test_arguments_that_are_no_object_are_refused_with_a_reason() -> None:
    assert ToolCall(call_id=new_call_id(), name="t", arguments="").decode_arguments() == {}
    with pytest.raises(ValueError, match="not a JSON object"):
        ToolCall(call_id=new_call_id(), name="t", arguments="[1]").decode_arguments()


@pytest.mark.req("CTX-1")
def test_a_state_tells_used_and_remaining_share() -> None:
    state = ContextState(
        max_tokens=200_000,
        used_tokens=85_000,
        status=Status.OK,
        basis=Basis.EXACT,
        breakdown=Breakdown(user=85_000),
    )

    assert (state.used_percentage, state.remaining_percentage) == (42.5, 57.5)


def test_errors_carry_what_a_caller_needs() -> None:
    assert "pip install 'clew[embedded]'" in str(MissingExtra("It is absent.", extra="embedded"))
    assert ProviderBusy("later", provider="p", retry_after=2.0).retry_after == 2.0
    assert RateLimited("later", retry_after=3.0).retry_after == 3.0
    assert ServerBusy("later").retry_after == 1.0
    assert TaskNotFound("none").category is TaskErrorCategory.VALIDATION


def test_usage_counts_the_context_after_the_answer() -> None:
    assert Usage(input_tokens=10, output_tokens=5, cache_read_tokens=8).context_tokens == 15


@pytest.mark.req("PRV-2")
def test_cache_writes_for_an_hour_add_up_and_are_stored_only_where_there_are_any() -> None:
    hourly = Usage(cache_write_tokens=9, cache_write_1h_tokens=4)

    assert (hourly + hourly).hourly_write_tokens == 8
    assert (Usage() + Usage()) == Usage()
    assert b"1h" not in msgspec.json.encode(Usage() + Usage())
    assert msgspec.json.decode(msgspec.json.encode(hourly), type=Usage) == hourly


def test_session_ids_differ_and_are_safe_as_file_names() -> None:
    assert new_session_id() != new_session_id()
    assert new_session_id().isalnum()


def test_errors_of_answers_and_tasks_say_what_was_wrong() -> None:
    overflow = ContextOverflow("too long", provider="openai", limit=8_000)
    rejected = AnswerRejected("no", errors=("a is missing",))
    failed = BackgroundTaskError(
        "silent for 240 s",
        category=TaskErrorCategory.TIMEOUT,
        timeout_reason=TimeoutReason.IDLE,
        partial="half",
    )

    assert (overflow.limit, rejected.errors) == (8_000, ("a is missing",))
    assert (failed.category, failed.timeout_reason, failed.partial, failed.recoverable) == (
        *(TaskErrorCategory.TIMEOUT, TimeoutReason.IDLE, "half", False),
    )


def test_three_states_of_a_task_are_final() -> None:
    final = [status for status in TaskStatus if status.is_terminal]

    assert final == [TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED]


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [("GITHUB_TOKEN", True), ("api_key", True), ("PWD", False), ("PUBLIC_KEY", False)],
)
def test_secret_variables_are_known_by_their_names(name: str, is_secret: bool) -> None:  # noqa: FBT001
    assert is_secret_variable(name) is is_secret


def test_a_redaction_mark_is_found_anywhere_in_a_document() -> None:
    key = "sk-proj-" + "a1B2" * 12
    marked = redact(f"key {key}")

    assert marked != f"key {key}"
    assert find_mark({"a": ["plain", {"b": marked}], "n": 1}) in marked
    assert find_mark({"a": ["plain", ("words",)]}) == ""
