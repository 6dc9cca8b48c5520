"""Discovery of Markdown files written by others: skills, commands, agents.

A project folder may be hostile. Discovery reads a file only if it is a regular file, valid text
and not too long; a link may not lead out of the tree that is searched. A file that is not read
becomes a `Refused` with a reason, never an exception.
"""

import codecs
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct

from clew.core.text import one_line
from clew.extensions.frontmatter import MAX_HEAD
from clew.files.safe_read import NotRegularFile, open_regular

MAX_BYTES = 1_000_000
"""Longer files are refused."""
MAX_FILES = 20_000
"""Files or folders taken from one folder at most."""
MAX_DEPTH = 8
"""Levels of folders that are searched."""

_FIRST = 4_096
"""Bytes that contain nearly every frontmatter."""
_CLOSED = re.compile(rb"[\r\n]---[ \t]*[\r\n]")
_NAME = re.compile(r"\w[\w.-]{0,63}")
_OUT = "leads out of {tree} through a link"
_LOST = "is a broken link"


class Named(Protocol):
    """Something with a name."""

    @property
    def name(self) -> str:
        """The name that users type."""
        ...


_Named = TypeVar("_Named", bound=Named)
_T = TypeVar("_T")


class Refused(Struct, frozen=True):
    """A file or folder that was not read, and why."""

    path: Path
    why: str
    """Continues the sentence that begins with the path: `is empty`."""

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


class ReadLimit:
    """Limits how many characters one search reads from files that the user did not write."""

    def __init__(self, max_chars: int) -> None:
        self._max_chars = max_chars
        self._left = max_chars

    def take(self, characters: int) -> None:
        """Count characters that were read."""
        self._left -= characters

    def refusal(self, path: Path) -> Refused | None:
        """Return why a file is not read once the limit is reached; None before that."""
        if self._left >= 0:
            return None
        return Refused(
            path, f"is beyond the limit of {self._max_chars:,} characters for one search"
        )


class Folder(Struct, frozen=True):
    """A folder to search, and the tree that links in it may not leave."""

    path: Path
    tree: Path | None = None
    """None in the user's own folders, where links may lead anywhere."""
    limit: ReadLimit | None = None
    """None for no limit."""

    def __truediv__(self, name: str) -> "Folder":
        return Folder(self.path / name, self.tree, self.limit)


class _Unfit(Exception):
    """The reason why a file is not read."""


def read_head(path: Path, *, tree: Path | None = None) -> str | Refused | None:
    """Return the beginning of a file, including its whole frontmatter; None if there is no file.

    The parent folders are not checked again: `folders_in` and `markdown_in` have done that.
    """
    try:
        return _read(path, tree, whole=False)
    except FileNotFoundError:
        return None


def read_whole(path: Path, *, tree: Path | None = None) -> str | Refused:
    """Return the whole text of a file."""
    if tree is not None and not _within(path, tree):
        return Refused(path, _OUT.format(tree=tree))
    try:
        return _read(path, tree, whole=True)
    except FileNotFoundError:
        return Refused(path, "no longer exists")


def folders_in(folder: Folder) -> Iterator[Path | Refused]:
    """Yield the folders in a folder, sorted by name; none if it does not exist."""
    found = (
        entry if isinstance(entry, Refused) else _as_folder(entry, folder.tree)
        for entry in _entries(folder)
    )
    yield from _at_most(folder, (path for path in found if path))


def markdown_in(folder: Folder) -> Iterator[Path | Refused]:
    """Yield the `*.md` files in a folder and its subfolders, level by level."""
    yield from _at_most(folder, _markdown_in(folder))


def unique_folders(places: Iterable[tuple[Folder, _T]]) -> Iterator[tuple[Folder, _T]]:
    """Yield folders to search, without those that are the same folder under another name."""
    seen: set[str] = set()
    for folder, what in places:
        real = os.path.realpath(folder.path)
        if real not in seen:
            seen.add(real)
            yield folder, what


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
        yield Refused(deep.path, f"is more than {MAX_DEPTH} folders deep")


def _at_most(folder: Folder, found: Iterator[Path | Refused]) -> Iterator[Path | Refused]:
    yield from islice(found, MAX_FILES)
    if next(found, None):
        yield Refused(folder.path, f"has more than {MAX_FILES:,} files; the rest is not read")


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
    """Return the path if the entry is a folder, None if it is something else."""
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
                raise _Unfit(f"has {size:,} bytes; the limit is {MAX_BYTES:,}")
            data = stream.read(MAX_BYTES if whole else _FIRST)
            if not whole and len(data) == _FIRST and _has_open_head(data):
                data += stream.read(MAX_HEAD)
    except NotRegularFile as error:
        raise _Unfit("is not a regular file") from error
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
        raise _Unfit("is not a text file")
    try:
        # The first bytes may end in the middle of a character.
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError as error:
        raise _Unfit(f"is not valid UTF-8 (byte {error.start:,})") from error


def deduplicate_by_name(
    found: Iterable[_Named | Refused],
) -> tuple[dict[str, _Named], list[Refused], list[_Named]]:
    """Return the first thing of each name, what was refused, and what is shadowed by the first."""
    chosen: dict[str, _Named] = {}
    refused: list[Refused] = []
    shadowed: list[_Named] = []
    for each in found:
        if isinstance(each, Refused):
            refused.append(each)
        elif chosen.setdefault(each.name, each) is not each:
            shadowed.append(each)
    return chosen, refused, shadowed


def choose_name(wanted: str, file: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a definition, and the problem with the name that it asks for.

    A name is one word of at most 64 letters, digits, `_`, `.` and `-`, so that users can type
    it. A definition with another name is called after its file or folder.
    """
    if _NAME.fullmatch(wanted):
        return wanted, ()
    name = make_word(file)
    if not wanted:
        return name, ()
    return name, (f"`{one_line(wanted)[:80]}` is not a valid name; it is called `{name}`",)


def make_word(name: str) -> str:
    """Return the name of a file or folder as one word that users can type."""
    return re.sub(r"[^\w.-]+", "-", name)[:64]
