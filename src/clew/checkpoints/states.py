"""What can stand at a path, as values that can be compared and written down."""

import base64
import errno
import hashlib
import os
import stat
from itertools import takewhile
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from clew.files.safe_read import read_regular

_MOST_LINKS = 40
_RAW = "\0"


class Absent(Struct, frozen=True, tag_field="is", tag="absent"):
    """Nothing is there."""


class File(Struct, frozen=True, kw_only=True, tag_field="is", tag="file"):
    """A regular file; `digest` names the blob that holds its bytes."""

    digest: str
    size: int
    mode: int


class Link(Struct, frozen=True, kw_only=True, tag_field="is", tag="link"):
    """A symbolic link; `target` is written as `name` does it."""

    target: str


class Folder(Struct, frozen=True, kw_only=True, tag_field="is", tag="folder"):
    """A folder, whatever is in it."""

    mode: int


class Unkept(Struct, frozen=True, kw_only=True, tag_field="is", tag="unkept"):
    """Something that is not kept: too large, no file, or not ours to read."""

    why: str
    size: int = 0
    mode: int = 0
    changed: int = 0
    """Time of the last change in nanoseconds: all by which a later change can be noticed."""


State: TypeAlias = Absent | File | Link | Folder | Unkept

ABSENT = Absent()


def name(path: Path | str) -> str:
    """Return a path as it is written down: file names need not be text, but JSON must be."""
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _RAW + base64.b64encode(os.fsencode(text)).decode()
    return text


def unnamed(written: str) -> str:
    """Return what `name` was given."""
    if written.startswith(_RAW):
        return os.fsdecode(base64.b64decode(written[1:]))
    return written


def real(written: str) -> Path:
    """Return the path that `name` wrote."""
    return Path(unnamed(written))


def shown(written: str) -> str:
    """Return a written path for people."""
    return os.fsencode(unnamed(written)).decode(errors="replace")


def canonical(path: Path) -> Path:
    """Return the one path that leads to an entry of a folder without passing through a link.

    The last part is not followed: it may be a link that is meant itself.
    """
    if path.name in {"", ".."}:
        return Path(os.path.realpath(path))
    # Unlike Path.resolve, this has an answer also where links go in circles.
    return Path(os.path.realpath(path.parent)) / path.name


def trail(path: Path) -> list[Path]:
    """Return all that a change of `path` may touch: what it links to, and folders to be made."""
    found: list[Path] = []
    here = canonical(path)
    for _ in range(_MOST_LINKS):
        found += with_folders(here)
        if not here.is_symlink():
            break
        here = canonical(here.parent / here.readlink())
    return list(dict.fromkeys(found))


def with_folders(path: Path) -> list[Path]:
    """Return `path`, and the folders that must be made before something can stand there."""
    return [path, *takewhile(lambda folder: not os.path.lexists(folder), path.parents)]


def examine(path: Path, *, limit: int) -> State:
    """Return what stands at `path`; a file above `limit` bytes is not read."""
    return load(path, limit=limit)[0]


def load(path: Path, *, limit: int) -> tuple[State, bytes]:
    """Return what stands at `path`, and its content if it is a file of at most `limit` bytes.

    Where a folder on the way is a link, nothing stands there: what can be seen is elsewhere.
    """
    try:
        facts = _facts(path)
        if facts is None:
            return ABSENT, b""
        if not stat.S_ISREG(facts.st_mode):
            return _no_file(path, facts), b""
        if facts.st_size > limit:
            return _unkept(facts, f"it has {facts.st_size:,} bytes, more than are kept"), b""
        data = read_regular(path)
    except FileNotFoundError:
        return ABSENT, b""
    except OSError as error:
        return Unkept(why=f"it cannot be read: {error.strerror}"), b""
    digest = hashlib.sha256(data).hexdigest()
    return File(digest=digest, size=len(data), mode=stat.S_IMODE(facts.st_mode)), data


def _facts(path: Path) -> os.stat_result | None:
    if canonical(path) != path:
        return None
    try:
        return path.lstat()
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return None
        raise


def _no_file(path: Path, facts: os.stat_result) -> State:
    if stat.S_ISLNK(facts.st_mode):
        return Link(target=name(os.readlink(path)))  # noqa: PTH115 - exactly as it is written
    if stat.S_ISDIR(facts.st_mode):
        return Folder(mode=stat.S_IMODE(facts.st_mode))
    return _unkept(facts, "it is neither a file nor a folder nor a link")


def _unkept(facts: os.stat_result, why: str) -> Unkept:
    mode = stat.S_IMODE(facts.st_mode)
    return Unkept(why=why, size=facts.st_size, mode=mode, changed=facts.st_mtime_ns)
