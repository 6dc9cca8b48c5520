"""The TodoWrite tool: the list with which a model tracks a task of several steps."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from clew.core.permissions import Risk
from clew.core.text import pluralize
from clew.core.todos import TODO_WRITE, TodoItem, TodoStatus, format_todos
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolOutput

_MOST = 100


class _Todo(Struct, frozen=True, kw_only=True, rename={"active_form": "activeForm"}):
    content: Annotated[str, Meta(min_length=1, description="The task, such as: Run the tests")]
    status: Literal["pending", "in_progress", "completed"]
    active_form: Annotated[
        str, Meta(description="The same while it is being done, such as: Running the tests")
    ] = ""


def todo_tool() -> Tool:
    """Make the TodoWrite tool. The list is in the journal: the arguments of its last call."""

    @tool(name=TODO_WRITE, risk=Risk.INSPECT)
    async def todo_write(
        todos: Annotated[list[_Todo], Meta(max_length=_MOST)],
    ) -> ToolOutput:
        """Write the todo list of this session; each call replaces the whole list. Use it for work
        of three or more steps and when the user gives several tasks. Keep one task in progress,
        and mark each task as completed as soon as it is done. The user sees the list.

        Args:
            todos: All tasks, in the order in which they will be done.
        """  # noqa: D205
        items = [
            TodoItem(
                content=one.content, status=TodoStatus(one.status), active_form=one.active_form
            )
            for one in todos
        ]
        left = sum(one.status is not TodoStatus.COMPLETED for one in items)
        return ToolOutput(
            text=f"The list has {pluralize(len(items), 'task')}; {left} not completed.",
            display="\n".join(format_todos(items)) or "the list is empty",
            data={"todos": msgspec.to_builtins(items)},
        )

    return todo_write
