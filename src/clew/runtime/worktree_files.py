"""Files of a worktree as git objects, byte for byte: without filters and line-ending conversion."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from clew.core.tasks import TaskErrorCategory
from clew.files.atomic import replace_file
from clew.files.no_links import open_file
from clew.runtime.git import make_git_error

_FILE, _PROGRAM, _LINK, _GONE = "100644", "100755", "120000", "000000"
_KINDS = frozenset({_FILE, _PROGRAM, _LINK})
_AUTHOR = "Clew <clew@localhost> 1 +0000"
"""The same for all, so that the same files always make the same commit."""


class ChangedFile(Struct, frozen=True):
    """A file that differs from the last commit, as it is on disk."""

    path: str
    mode: str
    """Git's mode; zeros for a file that is gone."""
    data: bytes = b""
    """The content of a file, the target of a link."""


class WorktreeFiles(Struct, frozen=True, kw_only=True):
    """The files of a worktree that have changed."""

    files: tuple[ChangedFile, ...]
    left_out: tuple[str, ...] = ()
    """Paths that are neither files nor links, such as repositories, or that cannot be read."""


def read_changes(top: Path, paths: Sequence[str], *, limit: int) -> WorktreeFiles:
    """Read the files at these paths.

    Raises:
        BackgroundTaskError: Together they have more than `limit` bytes (category `capacity`).
    """
    sizes = {path: _find_size(top / path) for path in paths}
    if sum(sizes.values()) > limit:
        largest = max(sizes, key=lambda path: sizes[path])
        raise make_git_error(
            f"the files that changed in {top} have more than {limit / 1e6:,.0f} MB; the largest is"
            f" {largest} ({sizes[largest] / 1e6:,.1f} MB). Add large files to .gitignore",
            TaskErrorCategory.CAPACITY,
        )
    found, left_out = [], []
    for path in paths:
        try:
            found.append(_read(top, path))
        except OSError:
            left_out.append(path)
    return WorktreeFiles(files=tuple(found), left_out=tuple(left_out))


def encode_commit(ref: str, parents: Sequence[str], files: Iterable[ChangedFile]) -> bytes:
    """Return the input of `git fast-import` for a commit: the first parent with changed files."""
    first, *others = parents
    message = b"worktree"
    lines = [
        f"commit {ref}\ncommitter {_AUTHOR}\ndata {len(message)}\n".encode(),
        message + b"\n",
        f"from {first}\n".encode(),
        *(f"merge {parent}\n".encode() for parent in others),
    ]
    # A folder can only take the place of a file that is gone.
    for file in sorted(files, key=lambda file: (file.mode != _GONE, file.path)):
        name = _quote(file.path)
        if file.mode == _GONE:
            lines.append(b"D " + name + b"\n")
        else:
            lines.append(f"M {file.mode} inline ".encode() + name + b"\n")
            lines.append(f"data {len(file.data)}\n".encode() + file.data + b"\n")
    return b"".join([*lines, b"\n"])


class FileDifference(Struct, frozen=True):
    """A path that differs between two commits."""

    path: str
    mode: str
    blob: str
    """Its new content; empty for a path that is gone."""


def parse_differences(out: bytes) -> list[FileDifference]:
    """Parse the output of `git diff-tree --raw -z`; submodules are left out."""
    parts = iter(out.split(b"\0"))
    found = []
    for facts, path in zip(parts, parts, strict=False):
        _, mode, _, blob, _ = facts.decode().split()
        if mode in _KINDS:
            found.append(FileDifference(os.fsdecode(path), mode, blob))
        elif mode == _GONE:
            found.append(FileDifference(os.fsdecode(path), mode, ""))
    return found


def parse_blobs(out: bytes) -> dict[str, bytes]:
    """Parse the output of `git cat-file --batch`."""
    found, at = {}, 0
    while at < len(out):
        end = out.index(b"\n", at)
        name, _, size = out[at:end].decode().split()
        start = end + 1
        found[name] = out[start : start + int(size)]
        at = start + int(size) + 1
    return found


def write_files(top: Path, changes: Sequence[FileDifference], blobs: Mapping[str, bytes]) -> None:
    """Bring the files of an unused worktree into another state.

    Raises:
        BackgroundTaskError: A path leads out of the worktree, or cannot be written.
    """
    for change in changes:
        if not _is_inside(change.path):
            raise make_git_error(f"the snapshot has a path that is not allowed: {change.path!r}")
    try:
        # A link that becomes a folder goes before the files in that folder.
        for change in sorted(changes, key=lambda change: change.path):
            _delete(top, change.path)
        for change in changes:
            if change.blob:
                _write(top / change.path, change.mode, blobs[change.blob])
    except OSError as error:
        raise make_git_error(f"the files of the snapshot cannot be written: {error}") from error


def _find_size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _read(top: Path, path: str) -> ChangedFile:
    place = top / path
    try:
        mode = place.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ChangedFile(path, _GONE)
    if stat.S_ISLNK(mode):
        return ChangedFile(path, _LINK, os.fsencode(place.readlink()))
    # A process of the task may put a link into the path meanwhile.
    with open_file(place) as file:
        is_program = os.fstat(file.fileno()).st_mode & 0o100
        return ChangedFile(path, _PROGRAM if is_program else _FILE, file.read())


def _quote(path: str) -> bytes:
    raw = os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + raw + b'"'


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return not any(part in ("", ".", "..") or part.casefold() == ".git" for part in parts)


def _delete(top: Path, path: str) -> None:
    if any(folder.is_symlink() for folder in _iter_folders(top, path)):
        return  # what it leads to is not part of the worktree
    with suppress(FileNotFoundError, NotADirectoryError):
        (top / path).unlink()
    for folder in _iter_folders(top, path):
        try:
            folder.rmdir()
        except OSError:
            return  # other files are in it


def _iter_folders(top: Path, path: str) -> Iterator[Path]:
    """Yield the folders of a path, the innermost first, without the top."""
    for folder in (top / path).parents:
        if folder == top:
            return
        yield folder


def _write(path: Path, mode: str, data: bytes) -> None:
    if mode == _LINK:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.fsdecode(data))
    else:
        permissions = 0o755 if mode == _PROGRAM else 0o644
        replace_file(path, data, mode=permissions, durable=False, follow_folders=False)
