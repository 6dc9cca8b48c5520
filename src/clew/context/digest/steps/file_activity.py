"""File activity: which files a conversation changed and read, how often and how recently."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec import Struct

from clew.context.digest.steps.shell_edits import is_temporary
from clew.context.digest.steps.tool_steps import ToolStep
from clew.core.ids import NO_ENTRY, EntryId


class FileActivity(Struct, kw_only=True, gc=False):
    """What happened to one file."""

    path: str
    edits: int = 0
    created: bool = False
    """True if it was written whole before it was read or edited."""
    deleted: bool = False
    renamed_from: str = ""
    reads: int = 0
    lines: str = ""
    """The lines of the last read, such as `120-180`; empty for the whole file."""
    changed_at: int = -1
    """The place of the last change; -1 if there was none."""
    read_at: int = -1
    entry_id: EntryId = NO_ENTRY
    """The entry of the last change, or else of the last read."""


def list_files(steps: Iterable[ToolStep], *, root: str = "") -> list[FileActivity]:
    """Return the files of a conversation in the order of their first mention.

    Their paths are relative to `root` where they are inside.
    """
    files = _Files()
    folder = f"{root}/" if root else ""
    for step in steps:
        if step.failed or not step.answered:
            continue
        if step.edits:
            files.note_edits(step, folder)
        path, lines = step.file_read
        if path:
            file = files[path.removeprefix(folder)]
            file.reads, file.lines, file.read_at = file.reads + 1, lines, step.place
            file.entry_id = file.entry_id if file.edits else step.entry_id
    return list(files.values())


def list_paths(steps: Iterable[ToolStep]) -> Iterator[str]:
    """Return each path that a step read or changed."""
    return chain.from_iterable([step.paths for step in steps])


class _Files(dict[str, FileActivity]):
    """Files by their paths; one that is new is added."""

    def __init__(self) -> None:
        super().__init__()
        self._folders: set[str] | None = None
        """Those that a known file is or was in; None until they are needed."""

    def __missing__(self, path: str) -> FileActivity:
        file = FileActivity(path=path)
        self._add(path, file)
        return file

    def _add(self, path: str, file: FileActivity) -> None:
        self[path] = file
        if self._folders is not None:
            self._folders.update(list_folders(path))

    def note_edits(self, step: ToolStep, folder: str) -> None:
        """Note what a step did to files; paths inside `folder` are relative to it."""
        renamed = ""
        for change in step.edits:
            path, target = change.path.removeprefix(folder), change.moved_to.removeprefix(folder)
            is_rename, renamed = path == renamed and change.kind == "write", target
            if change.kind == "delete":
                self._remove(path, target, step)
            elif not is_rename:
                file = self[path]
                is_new = change.kind == "write" and not file.reads + file.edits
                file.created, file.deleted = file.created or is_new, False
                file.edits += 1
                file.changed_at, file.entry_id = step.place, step.entry_id

    def _remove(self, path: str, target: str, step: ToolStep) -> None:
        """Note that a file, or all files of a folder, were renamed; without target, deleted."""
        path, target = path.rstrip("/"), target.rstrip("/")
        if target and self._list_inside(target):
            target = f"{target}/{path.rpartition('/')[2]}"
        for name in self._list_inside(path) or [path]:
            file = self[name]
            if target:
                file.path, first = target + name[len(path) :], file.renamed_from or name
                file.renamed_from = first if first != file.path else ""
                self._add(file.path, self.pop(name))
            file.deleted = not target
            file.changed_at, file.entry_id = step.place, step.entry_id

    def _list_inside(self, folder: str) -> list[str]:
        if self._folders is None:
            self._folders = set(chain.from_iterable(map(list_folders, self)))
        if folder in self or folder not in self._folders:
            return []
        return [name for name in self if name.startswith(f"{folder}/")]


def list_folders(path: str) -> list[str]:
    """Return the folders that a path is in, outermost first."""
    return [path[: slash.start()] for slash in _SLASH.finditer(path)]


_SLASH = re.compile("/")
_AGENT_FOLDER = re.compile(r"/\.(?:clew|claude|codex|cursor|gemini|config|cache|local)/")
"""Plans, notes and settings of agents, in the user's home folder."""
_LEAST_SHARE = 0.85
_PROJECT_DEPTH = 3
"""A folder that contains all files is the project, unless it is only a home folder."""


def find_root(paths: Iterable[str]) -> str:
    """Return the folder that most of `paths` are inside, such as the project; empty if none.

    Relative paths are relative to the working folder: if one also occurs as an absolute path, or
    at least its first folder, that shows the working folder. If nothing shows it, there is none:
    a relative path must not be taken for one of another folder. Without relative paths it is the
    deepest folder of nearly all absolute paths.
    """
    known = list(dict.fromkeys(paths))
    relative = {path for path in known if not path.startswith(("/", "~", "$"))}
    absolute = [path for path in known if path.startswith("/") and not is_temporary(path)]
    if not absolute:
        return ""
    absolute = [path for path in absolute if not _AGENT_FOLDER.search(path)] or absolute
    shown: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for path in absolute:
        folder = path.rpartition("/")[0]
        while folder:
            inside[folder] += 1
            shown[folder] += path[len(folder) + 1 :] in relative
            folder = folder.rpartition("/")[0]
    if shown.total():
        return shown.most_common(1)[0][0]
    if relative:
        tops = {path.partition("/")[0] for path in relative if "/" in path}
        homes = [folder for folder in inside if any(f"{folder}/{top}" in inside for top in tops)]
        return max(homes, key=lambda folder: (inside[folder], len(folder)), default="")
    for share, depth in ((1.0, _PROJECT_DEPTH), (_LEAST_SHARE, 2)):
        least = max(2, len(absolute) * share)
        root = max((folder for folder, n in inside.items() if n >= least), key=len, default="")
        if root.count("/") >= depth:
            return root
    return ""


def shorten_path(path: str, root: str) -> str:
    """Return `path` relative to `root` if it is inside."""
    return path.removeprefix(f"{root}/") if root else path
