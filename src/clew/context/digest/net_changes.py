"""Net changes: which lines the edits of a conversation removed and added, on balance.

A line that one edit added and a later one removed is not listed, so what is left tells how the
files differ from before.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from clew.context.digest.edit_texts import EditText, read_edits
from clew.context.digest.tool_steps import ToolStep
from clew.core.ids import EntryId


class NetChange(Struct, kw_only=True, gc=False):
    """What is left of one edit of one file."""

    path: str
    entry_id: EntryId
    place: int
    removed: list[str]
    """Lines that were there before the conversation; without indentation."""
    added: list[str]
    is_whole: bool = False
    """True if the whole file was written."""


def list_changes(
    steps: Iterable[ToolStep], *, undone: Mapping[str, int] | None = None
) -> list[NetChange]:
    """Return what the edits of a conversation left, in order.

    Args:
        steps: The tool steps of the conversation.
        undone: The places at which changes of a file were discarded with git.
    """
    files: dict[str, list[NetChange]] = {}
    for step in steps:
        edits = step.edits
        if not edits:
            continue
        for edit in edits:
            if edit.kind == "delete":
                files.pop(edit.path, None)
        for text in read_edits(step):
            _add_edit(files.setdefault(text.path, []), step, text)
    for path, place in (undone or {}).items():
        files[path] = [change for change in files.get(path, ()) if change.place > place]
    changes = [change for some in files.values() for change in some]
    changes = [one for one in changes if one.removed or one.added]
    return sorted(changes, key=lambda change: change.place)


def _add_edit(earlier: list[NetChange], step: ToolStep, text: EditText) -> None:
    """Add an edit to the changes of its file, which lose the lines that it takes back."""
    change = NetChange(
        path=text.path,
        entry_id=step.entry_id,
        place=step.place,
        removed=list(text.removed),
        added=list(text.added),
        is_whole=text.is_whole,
    )
    if text.is_whole:
        earlier.clear()
    for other in earlier:
        taken_back = set(change.removed).intersection(other.added)
        restored = set(change.added).intersection(other.removed)
        if taken_back:
            change.removed = [line for line in change.removed if line not in taken_back]
            other.added = [line for line in other.added if line not in taken_back]
        if restored:
            change.added = [line for line in change.added if line not in restored]
            other.removed = [line for line in other.removed if line not in restored]
        if taken_back and not other.added:
            change.removed, other.removed = other.removed + change.removed, []
    earlier.append(change)
