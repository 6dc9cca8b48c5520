"""Finding and reading Markdown files that others wrote: skills, commands, agents.

A project folder may be hostile. A file is read only if it is a plain file, text, and not too
long; no link may lead out of the tree that it is looked for in. What is not read is a
`Refused` with a reason, never an exception.
"""

import codecs
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct

from clew.extensions.frontmatter import MAX_HEAD
from clew.files.safe_read import NotRegularFile, open_regular

MAX_BYTES = 1_000_000
"""The longest file that is read."""
MAX_FILES = 20_000
"""The most files or folders that are taken from one folder."""
MAX_DEPTH = 8
"""How deep folders are searched."""

_FIRST = 4_096
"""Bytes that hold nearly every head."""
_CLOSED = re.compile(rb"[\r\n]---[ \t]*[\r\n]")
_OUT = "leads out of {tree} through a link"
_LOST = "is a link that leads nowhere"


class Named(Protocol):
    """Something that people call by its name."""

    @property
    def name(self) -> str:
        """What to call it."""
        ...


_Named = TypeVar("_Named", bound=Named)


class Refused(Struct, frozen=True):
    """A file or folder that was not taken, and why."""

    path: Path
    why: str
    """Goes on after the name of the file: `is empty`."""

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


class Room:
    """How much may be read in one search, of files that the user did not write."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def take(self, characters: int) -> None:
        """Say how much was read."""
        self._left -= characters

    def refusal(self, path: Path) -> Refused | None:
        """Return why a file is not read any more, or None while there is room."""
        if self._left >= 0:
            return None
        return Refused(path, f"comes after {self._most:,} characters of others; no more is read")


class Folder(Struct, frozen=True):
    """A folder to look into, and the tree that links in it may not leave."""

    path: Path
    tree: Path | None = None
    """None where links may lead anywhere: in a folder that the user made."""
    room: Room | None = None
    """None where as much is read as there is."""

    def __truediv__(self, name: str) -> "Folder":
        return Folder(self.path / name, self.tree, self.room)


class _Unfit(Exception):
    """The reason why a file is not read."""


def read_head(path: Path, *, tree: Path | None = None) -> str | Refused | None:
    """Return the beginning of a file, up to the end of its fields and a little more.

    None when there is no such file. The folders above it are taken as they are: `folders_in`
    and `markdown_in` have looked at them.
    """
    try:
        return _read(path, tree, whole=False)
    except FileNotFoundError:
        return None


def read_whole(path: Path, *, tree: Path | None = None) -> str | Refused:
    """Return the text of a file, as it is now."""
    if tree is not None and not _within(path, tree):
        return Refused(path, _OUT.format(tree=tree))
    try:
        return _read(path, tree, whole=True)
    except FileNotFoundError:
        return Refused(path, "is no longer there")


def folders_in(folder: Folder) -> Iterator[Path | Refused]:
    """Yield the folders in a folder, by name. A folder that is not there holds none."""
    found = (
        entry if isinstance(entry, Refused) else _as_folder(entry, folder.tree)
        for entry in _entries(folder)
    )
    yield from _at_most(folder, (path for path in found if path))


def markdown_in(folder: Folder) -> Iterator[Path | Refused]:
    """Yield the `*.md` files in a folder and in those below it, the upper ones first."""
    yield from _at_most(folder, _markdown_in(folder))


def _markdown_in(folder: Folder) -> Iterator[Path | Refused]:
    seen = {os.path.realpath(folder.path)}
    level = [folder]
    for _ in range(MAX_DEPTH):
        below: list[Folder] = []
        for entry in (entry for upper in level for entry in _entries(upper)):
            if isinstance(entry, Refused):
                yield entry
            elif entry.name.lower().endswith(".md"):
                yield Path(entry.path)
            elif isinstance(found := _as_folder(entry, folder.tree), Refused):
                yield found
            elif found and (real := os.path.realpath(found)) not in seen:
                seen.add(real)
                below.append(Folder(found, folder.tree))
        level = below
    for deep in level:
        yield Refused(deep.path, f"lies more than {MAX_DEPTH} folders deep")


def _at_most(folder: Folder, found: Iterator[Path | Refused]) -> Iterator[Path | Refused]:
    yield from islice(found, MAX_FILES)
    if next(found, None):
        yield Refused(folder.path, f"holds more than {MAX_FILES:,} files; the rest is not read")


def _entries(folder: Folder) -> Iterator["os.DirEntry[str] | Refused"]:
    try:
        with os.scandir(folder.path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield Refused(folder.path, f"cannot be read: {error.strerror}")
        return
    if folder.tree and not _within(folder.path, folder.tree):
        yield Refused(folder.path, _OUT.format(tree=folder.tree))
    else:
        yield from entries


def _as_folder(entry: "os.DirEntry[str]", tree: Path | None) -> Path | Refused | None:
    """Return the folder that an entry is; None when it is something else."""
    path = Path(entry.path)
    try:
        if entry.is_dir():
            out = entry.is_symlink() and tree and not _within(path, tree)
            return Refused(path, _OUT.format(tree=tree)) if out else path
        lost = entry.is_symlink() and not entry.is_file()
    except OSError as error:
        return Refused(path, f"cannot be read: {error.strerror}")
    return Refused(path, _LOST) if lost else None


def _within(path: Path, tree: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(tree))


def _read(path: Path, tree: Path | None, *, whole: bool) -> str | Refused:
    try:
        return _text(_data(path, tree, whole=whole), whole=whole)
    except _Unfit as unfit:
        return Refused(path, str(unfit))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        return Refused(path, f"cannot be read: {getattr(error, 'strerror', error)}")


def _data(path: Path, tree: Path | None, *, whole: bool) -> bytes:
    try:
        with open_regular(_follow_link(path, tree)) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > MAX_BYTES:
                raise _Unfit(f"has {size:,} bytes; at most {MAX_BYTES:,} are read")
            data = stream.read(MAX_BYTES if whole else _FIRST)
            if not whole and len(data) == _FIRST and _has_open_head(data):
                data += stream.read(MAX_HEAD)
    except NotRegularFile as error:
        raise _Unfit("is no plain file") from error
    return data


def _has_open_head(data: bytes) -> bool:
    return b"---" in data[:8] and not _CLOSED.search(data, 8)


def _follow_link(path: Path, tree: Path | None) -> Path:
    """Return the target of a link if it stays within the tree; any other path as it is."""
    if not path.is_symlink():
        return path
    if tree is not None and not _within(path, tree):
        raise _Unfit(_OUT.format(tree=tree))
    target = Path(os.path.realpath(path))
    if not target.exists():
        raise _Unfit(_LOST)
    return target


def _text(data: bytes, *, whole: bool) -> str:
    if not data.removeprefix(codecs.BOM_UTF8).strip():
        raise _Unfit("is empty")
    if b"\0" in data:
        raise _Unfit("is no text")
    try:
        # A head may end in the middle of a character.
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError as error:
        raise _Unfit(f"is no UTF-8 text (byte {error.start:,})") from error


def first_of_each(
    found: Iterable[_Named | Refused],
) -> tuple[dict[str, _Named], list[Refused], list[_Named]]:
    """Part what was found: the first of each name, what was refused, and what comes too late."""
    chosen: dict[str, _Named] = {}
    refused: list[Refused] = []
    shadowed: list[_Named] = []
    for each in found:
        if isinstance(each, Refused):
            refused.append(each)
        elif chosen.setdefault(each.name, each) is not each:
            shadowed.append(each)
    return chosen, refused, shadowed
