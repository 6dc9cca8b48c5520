"""The todo list with which a model tracks its work: what clients show and the view holds."""

from enum import StrEnum

from msgspec import Struct


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
