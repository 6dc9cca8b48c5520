"""The todo list of a view: written by tools, kept by compactions, undone with what wrote it."""

import msgspec
import pytest

from clew.context.estimate import text_units
from clew.context.snapshot import restore_view, take_snapshot
from clew.context.view import fold
from clew.core.context_state import LossReport
from clew.core.entries import Body, Cleared, Compacted, Entry, MessageAdded, Rewound, Undone
from clew.core.ids import CallId, EntryId
from clew.core.messages import ToolCall, assistant, tool_result, user
from clew.core.todos import TodoItem, TodoStatus, format_todos
from tests.histories import SETUP
from tests.rows import each_row

REPORT = LossReport(
    kept=(),
    summarised=(),
    cleared=(),
    archived=(),
    tokens_before=0,
    tokens_after=0,
    author="rules",
    why="",
)


def journal(*bodies: Body) -> list[Entry]:
    return [
        Entry(id=EntryId(number), at=0.0, body=body)
        for number, body in enumerate((SETUP, MessageAdded(message=user("go")), *bodies), 1)
    ]


def write(
    arguments: object, *, name: str = "TodoWrite", call_id: str = "1", failed: bool = False
) -> list[Body]:
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    call = ToolCall(call_id=CallId(call_id), name=name, arguments=text)
    return [
        MessageAdded(message=assistant(call)),
        MessageAdded(message=tool_result(call, "written", failed=failed)),
    ]


TWO = {
    "todos": [
        {"content": "Find it", "status": "completed", "activeForm": "Finding it"},
        {"content": "Fix it", "status": "in_progress"},
    ]
}
READ = (
    TodoItem(content="Find it", status=TodoStatus.COMPLETED, active_form="Finding it"),
    TodoItem(content="Fix it", status=TodoStatus.IN_PROGRESS),
)


@pytest.mark.req("TUI-3")
def test_the_last_list_counts() -> None:
    first = write({"todos": [{"content": "Old", "status": "pending"}]}, call_id="0")

    assert fold(journal(*first, *write(TWO))).todos == READ
    assert fold(journal(*write(TWO), *write({"todos": []}, call_id="2"))).todos == ()


@each_row(
    "bodies",
    [
        write(TWO, failed=True),
        write("[]"),
        write("not json"),
        write({"todos": "none"}),
        write({"todos": ["text", {"status": "pending"}]}),
        write(TWO, name="Read"),
        [write(TWO)[1]],
    ],
)
def test_what_is_not_a_list_changes_nothing(bodies: list[Body]) -> None:
    assert fold(journal(*bodies)).todos == ()


def test_lists_of_other_programs_are_read_too() -> None:
    plan = {"plan": [{"step": "Look", "status": "done"}, {"step": "Go", "status": "odd"}]}

    assert fold(journal(*write(plan, name="update_plan"))).todos == (
        TodoItem(content="Look", status=TodoStatus.COMPLETED),
        TodoItem(content="Go"),
    )


def test_another_call_of_the_same_answer_does_not_hide_the_list() -> None:
    read = ToolCall(call_id=CallId("r"), name="Read", arguments="{}")
    todo = ToolCall(
        call_id=CallId("t"), name="TodoWrite", arguments=msgspec.json.encode(TWO).decode()
    )
    entries = journal(
        MessageAdded(message=assistant(read, todo)),
        MessageAdded(message=tool_result(read, "text")),
        MessageAdded(message=tool_result(todo, "written")),
    )

    assert fold(entries).todos == READ


@pytest.mark.req("TUI-3")
def test_a_compaction_keeps_the_list_and_a_clear_removes_it() -> None:
    compacted = Compacted(
        trigger="manual",
        strategy="compact",
        summary="s",
        dropped=(EntryId(2), EntryId(3), EntryId(4)),
        report=REPORT,
    )

    assert fold(journal(*write(TWO), compacted)).todos == READ
    assert fold(journal(*write(TWO), Cleared())).todos == ()
    assert fold(journal(*write(TWO), Cleared(), Undone(target=EntryId(5)))).todos == READ
    assert fold(journal(*write(TWO), Rewound(before=EntryId(3)))).todos == ()


def test_a_list_is_shown_with_marks() -> None:
    running = TodoItem(content="Run", status=TodoStatus.IN_PROGRESS, active_form="Running")

    assert format_todos([*READ, running, TodoItem(content="Wait")]) == [
        "[x] Find it",
        "[>] Fix it",
        "[>] Running",
        "[ ] Wait",
    ]


def test_a_snapshot_has_the_list() -> None:
    entries = journal(*write(TWO))
    taken = take_snapshot(fold(entries), entries)
    assert taken is not None

    view = restore_view(taken, entries, text_units)

    assert view is not None
    assert view.todos == READ
