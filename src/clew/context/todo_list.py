"""The todo list of a conversation, from the tools that write the whole list at once."""

from collections.abc import Mapping, Sequence

from clew.context.items import Item
from clew.core.messages import ToolCall
from clew.core.todos import TodoItem, TodoStatus

WHOLE_LISTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "todowrite": ("todos", ("content",)),
    "update_plan": ("plan", ("step",)),
    "todo_write": ("todos", ("content", "title")),
    "write_todos": ("todos", ("description", "content")),
}
"""Tools that write the whole list: the key of the list, and the keys of a task's text."""
_STATUSES = {
    "in_progress": TodoStatus.IN_PROGRESS,
    "completed": TodoStatus.COMPLETED,
    "done": TodoStatus.COMPLETED,
    "cancelled": TodoStatus.CANCELLED,
    "deleted": TodoStatus.CANCELLED,
}


def update_todos(
    known: tuple[TodoItem, ...], answer: Item, before: Sequence[Item]
) -> tuple[TodoItem, ...]:
    """Return the list after the tool results in `answer`; `known` if they wrote none.

    Args:
        known: The list so far.
        answer: Results of tools.
        before: The items before it: the list is in the arguments of the call.
    """
    written = {
        result.call_id
        for result in answer.message.results
        if not result.failed and result.name.lower() in WHOLE_LISTS
    }
    if not written:
        return known
    asking = next((item for item in reversed(before) if item.asks), None)
    for call in asking.message.calls if asking is not None else ():
        if call.call_id in written:
            listed = _read_arguments(call)
            known = known if listed is None else listed
    return known


def _read_arguments(call: ToolCall) -> tuple[TodoItem, ...] | None:
    try:
        return read_whole_list(call.name, call.decode_arguments())
    except ValueError:
        return None


def read_whole_list(name: str, arguments: Mapping[str, object]) -> tuple[TodoItem, ...] | None:
    """Return the list in the arguments of a call; None if they have no list."""
    key, wordings = WHOLE_LISTS[name.lower()]
    value = arguments.get(key)
    if not isinstance(value, list):
        return None
    tasks = [task for task in value if isinstance(task, dict)]
    read = (
        TodoItem(
            content=next((str(task[key]) for key in wordings if key in task), ""),
            status=_STATUSES.get(str(task.get("status")), TodoStatus.PENDING),
            active_form=str(task.get("activeForm", "")),
        )
        for task in tasks
    )
    return tuple(item for item in read if item.content)
