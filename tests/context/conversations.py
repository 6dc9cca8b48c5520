"""Small conversations for the ledgers, written as calls and what they printed."""

import json
from itertools import count

from clew.context.items import Item
from clew.context.view import fold
from clew.core.entries import Body, MessageAdded
from clew.core.ids import CallId
from clew.core.messages import Message, ToolCall, assistant, tool_result
from tests.histories import SETUP, entries_of

_ids = count()


def items(*messages: Message | tuple[Message, ...]) -> list[Item]:
    """Return the items of a conversation; entry numbers begin with 2."""
    flat = [
        one
        for message in messages
        for one in (message if isinstance(message, tuple) else (message,))
    ]
    bodies: list[Body] = [SETUP, *(MessageAdded(message=message) for message in flat)]
    return list(fold(entries_of(bodies)).items)


def use(
    name: str, arguments: object, result: str = "", *, failed: bool = False
) -> tuple[Message, ...]:
    """Return a tool call and its result."""
    call = ToolCall(call_id=CallId(f"c{next(_ids)}"), name=name, arguments=json.dumps(arguments))
    return assistant(call), tool_result(call, result, failed=failed)


def run(command: str, output: str = "", *, failed: bool = False) -> tuple[Message, ...]:
    """Return a shell command and its output."""
    return use("Bash", {"command": command}, output, failed=failed)


def edit(path: str) -> tuple[Message, ...]:
    """Return an edit of a file."""
    return use("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}, "done")
