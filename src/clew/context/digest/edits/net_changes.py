"""Net changes: which lines the edits of a conversation removed and added, on balance.

A line that one edit added and a later one removed is not listed, so what is left tells how the
files differ from before.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from clew.context.digest.edits.edit_texts import EditText, read_edits
from clew.context.digest.steps.file_activity import list_folders, shorten_path
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
    steps: Iterable[ToolStep],
    *,
    root: str = "",
    undone: Mapping[str, Sequence[range]] | None = None,
) -> list[NetChange]:
    """Return what the edits of a conversation left, in order.

    Args:
        steps: The tool steps of the conversation.
        root: Paths inside this folder are relative to it.
        undone: The places of changes that were discarded with git, by file.
    """
    changes: list[NetChange] = []
    for path, edits in _group_by_file(steps, root, undone or {}).items():
        file = _FileChanges()
        for step, text in edits:
            file = _FileChanges() if text.is_whole else file
            file.add(path, step, text)
        changes += [change for change in file.changes if change.removed or change.added]
    return sorted(changes, key=lambda change: change.place)


_Edits: TypeAlias = list[tuple[ToolStep, EditText]]


def _group_by_file(
    steps: Iterable[ToolStep], root: str, undone: Mapping[str, Sequence[range]]
) -> dict[str, _Edits]:
    """Return the edits of each file that is still there; they follow one that was renamed."""
    files = _Files()
    for step in steps:
        edits = step.edits
        texts = read_edits(step) if edits else []
        for edit in edits:
            path = shorten_path(edit.path, root)
            if any(step.place in span for span in undone.get(path, ())):
                continue
            if edit.kind == "delete":
                files.move(path, shorten_path(edit.moved_to, root))
            elif text := _take_text(texts, edit.path):
                files.add(path, step, text)
    return files.edits


def _take_text(texts: list[EditText], path: str) -> EditText | None:
    """Remove and return the next text of a file, whose path may be relative to its folder."""
    for text in texts:
        if text.path == path or path.endswith(f"/{text.path}"):
            texts.remove(text)
            return text
    return None


class _Files:
    """The edits of each file, by its present path."""

    def __init__(self) -> None:
        self.edits: dict[str, _Edits] = {}
        self._folders: set[str] = set()
        """Those of which a file was edited."""

    def add(self, path: str, step: ToolStep, text: EditText) -> None:
        """Add an edit of a file."""
        if path not in self.edits:
            self.edits[path] = []
            self._folders.update(list_folders(path))
        self.edits[path].append((step, text))

    def move(self, path: str, target: str) -> None:
        """Rename a file or a folder; without a target, remove it."""
        if target and any(name.startswith(f"{target}/") for name in self._list_inside(target)):
            target = f"{target}/{path.rstrip('/').rpartition('/')[2]}"
        moved = self._take(path)
        if target:
            self.edits.pop(target, None)
        for rest, edits in moved.items() if target else ():
            for step, text in edits:
                self.add(target + rest, step, text)

    def _take(self, path: str) -> dict[str, _Edits]:
        """Remove a file, or the files in a folder; returns them by what follows `path`."""
        path = path.rstrip("/")
        return {name[len(path) :]: self.edits.pop(name) for name in self._list_inside(path)}

    def _list_inside(self, path: str) -> list[str]:
        """Return the path itself, if a file of it was edited, and the files in it."""
        names = [path] if path in self.edits else []
        if path in self._folders:
            names += [name for name in self.edits if name.startswith(f"{path}/")]
        return names


class _FileChanges:
    """The changes of one file, and which of them added or removed a line."""

    def __init__(self) -> None:
        self.changes: list[NetChange] = []
        self._added: defaultdict[str, list[NetChange]] = defaultdict(list)
        self._removed: defaultdict[str, list[NetChange]] = defaultdict(list)
        """One entry for each time, newest last."""

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
