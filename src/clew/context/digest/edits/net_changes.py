"""Net changes: which lines the edits of a conversation removed and added, on balance.

A line that one edit added and a later one removed is not listed, so what is left tells how the
files differ from before.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from clew.context.digest.edits.edit_texts import EditText, read_edits
from clew.context.digest.steps.file_activity import shorten_path
from clew.context.digest.steps.tool_steps import ToolStep
from clew.core.ids import EntryId


class NetChange(Struct, kw_only=True, gc=False, eq=False):
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
    steps: Iterable[ToolStep], *, root: str = "", undone: Mapping[str, int] | None = None
) -> list[NetChange]:
    """Return what the edits of a conversation left, in order.

    Args:
        steps: The tool steps of the conversation.
        root: Paths inside this folder are relative to it.
        undone: The places at which changes of a file were discarded with git.
    """
    files: dict[str, _FileChanges] = {}
    places = {shorten_path(path, root): place for path, place in (undone or {}).items()}
    for step in steps:
        edits = step.edits
        if not edits:
            continue
        for edit in edits:
            if edit.kind == "delete":
                _drop(files, shorten_path(edit.path, root))
        for text in read_edits(step):
            path = shorten_path(text.path, root)
            file = files.get(path)
            if file is None or text.is_whole or file.last <= places.get(path, -1) < step.place:
                file = files[path] = _FileChanges()
            file.add(path, step, text)
    changes = [
        change
        for path, file in files.items()
        for change in file.changes
        if (change.removed or change.added) and change.place > places.get(path, -1)
    ]
    return sorted(changes, key=lambda change: change.place)


def _drop(files: dict[str, "_FileChanges"], deleted: str) -> None:
    """Forget the changes of a file, or of the files in a folder."""
    folder = f"{deleted.rstrip('/')}/"
    for path in [path for path in files if path == deleted or path.startswith(folder)]:
        del files[path]


class _FileChanges:
    """The changes of one file, and which of them added or removed a line."""

    def __init__(self) -> None:
        self.changes: list[NetChange] = []
        self._added: defaultdict[str, list[NetChange]] = defaultdict(list)
        self._removed: defaultdict[str, list[NetChange]] = defaultdict(list)
        """One entry for each time, newest last."""

    @property
    def last(self) -> int:
        """The place of the last change."""
        return self.changes[-1].place

    def add(self, path: str, step: ToolStep, text: EditText) -> None:
        """Add an edit; earlier ones lose the lines that it takes back."""
        change = NetChange(
            path=path,
            entry_id=step.entry_id,
            place=step.place,
            removed=[],
            added=[],
            is_whole=text.is_whole,
        )
        for line in text.removed:
            if owners := self._added[line]:
                self._take_back(line, owners.pop(), change)
            else:
                self._removed[line].append(change)
                change.removed.append(line)
        for line in text.added:
            if owners := self._removed[line]:
                owners.pop().removed.remove(line)
            else:
                self._added[line].append(change)
                change.added.append(line)
        self.changes.append(change)

    def _take_back(self, line: str, owner: NetChange, change: NetChange) -> None:
        """Remove a line that `owner` added; if it was the last, `change` replaces the old ones."""
        owner.added.remove(line)
        if owner.added:
            return
        for old in owner.removed:
            owners = self._removed[old]
            owners[owners.index(owner)] = change
        change.removed += owner.removed
        owner.removed = []
