"""The todo list with which a model tracks its work: what clients show and the view holds."""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

TODO_WRITE = "TodoWrite"
"""The tool that writes the list."""


class TodoStatus(StrEnum):
    """How far a task is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class TodoItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task of the list."""

    content: str
    """The task as an instruction: `Run the tests`."""
    status: TodoStatus = TodoStatus.PENDING
    active_form: str = ""
    """What to show while it is in progress: `Running the tests`; may be empty."""


_MARKS = {
    TodoStatus.PENDING: "[ ]",
    TodoStatus.IN_PROGRESS: "[>]",
    TodoStatus.COMPLETED: "[x]",
    TodoStatus.CANCELLED: "[-]",
}


def format_todos(items: Iterable[TodoItem]) -> list[str]:
    """Return one line per task, with a mark for its status."""
    return [f"{_MARKS[one.status]} {_words(one)}" for one in items]


def _words(one: TodoItem) -> str:
    is_active = one.status is TodoStatus.IN_PROGRESS
    return one.active_form if is_active and one.active_form else one.content
