"""Entries in few words: what was said, and the number to name it by."""

from collections.abc import Iterable, Sequence

from clew.cli.sanitize import sanitize
from clew.core.entries import Entry, MessageAdded
from clew.core.messages import Message, Role
from clew.extensions.commands.entries import list_entries


def listed(entries: Sequence[Entry], most: int) -> list[str]:
    """List the last entries, the oldest of them first."""
    return [
        sanitize(f"#{number} {whose}: {said}")
        for number, whose, said in list_entries(entries, most)
    ] or ["nothing was said yet"]


def numbers(entries: Iterable[Entry]) -> str:
    """Name the messages among new entries, such as `you #3, answer #4`."""
    names: dict[str, str] = {}
    for entry in entries:
        match entry.body:
            case MessageAdded(message=Message(role=Role.USER)):
                names["you"] = f"you #{entry.id}"
            case MessageAdded(message=Message(role=Role.ASSISTANT) as message) if message.text:
                names["answer"] = f"answer #{entry.id}"
            case MessageAdded(message=Message(role=Role.TOOL)):
                names["result"] = f"result #{entry.id}"
            case _:
                pass
    return ", ".join(names.values())
