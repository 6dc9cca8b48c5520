"""The state of a path as a value that can be compared and stored: file, folder, link or nothing."""

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
"""Begins a stored path that is not valid text."""


class AbsentState(Struct, frozen=True, tag_field="is", tag="absent"):
    """Nothing is there."""


class FileState(Struct, frozen=True, kw_only=True, tag_field="is", tag="file"):
    """A regular file; `digest` names the blob with its content."""

    digest: str
    size: int
    mode: int


class LinkState(Struct, frozen=True, kw_only=True, tag_field="is", tag="link"):
    """A symbolic link; `target` is encoded by `encode_path`."""

    target: str


class FolderState(Struct, frozen=True, kw_only=True, tag_field="is", tag="folder"):
    """A folder, regardless of its content."""

    mode: int


class UnkeptState(Struct, frozen=True, kw_only=True, tag_field="is", tag="unkept"):
    """Something that is not kept: too large, a device or the like, or not readable."""

    why: str
    size: int = 0
    mode: int = 0
    changed: int = 0
    """Modification time in nanoseconds, by which a later change is noticed."""


PathState: TypeAlias = AbsentState | FileState | LinkState | FolderState | UnkeptState

ABSENT = AbsentState()


def encode_path(path: Path | str) -> str:
    """Return a path as text for JSON; file names need not be valid text."""
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        return _RAW + base64.b64encode(os.fsencode(text)).decode()
    return text


def decode_text(encoded: str) -> str:
    """Return the path that `encode_path` encoded, as a string."""
    if encoded.startswith(_RAW):
        return os.fsdecode(base64.b64decode(encoded[1:]))
    return encoded


def decode_path(encoded: str) -> Path:
    """Return the path that `encode_path` encoded."""
    return Path(decode_text(encoded))


def display_path(encoded: str) -> str:
    """Return an encoded path for people to read."""
    return os.fsencode(decode_text(encoded)).decode(errors="replace")


def canonical_path(path: Path) -> Path:
    """Return the one path to a folder entry that passes through no link.

    The last component is not followed: it may itself be a link.
    """
    if path.name in {"", ".."}:
        return Path(os.path.realpath(path))
    # Unlike Path.resolve, this also has a result for circular links.
    return Path(os.path.realpath(path.parent)) / path.name


def find_affected_paths(path: Path) -> list[Path]:
    """Return all paths that a change of `path` may touch: link targets, and missing folders."""
    found: list[Path] = []
    here = canonical_path(path)
    for _ in range(_MOST_LINKS):
        found += with_missing_folders(here)
        if not here.is_symlink():
            break
        here = canonical_path(here.parent / here.readlink())
    return list(dict.fromkeys(found))


def with_missing_folders(path: Path) -> list[Path]:
    """Return `path`, and the folders that must be made before it can exist."""
    return [path, *takewhile(lambda folder: not os.path.lexists(folder), path.parents)]


def read_state(path: Path, *, limit: int) -> PathState:
    """Return the state of `path`; a file above `limit` bytes is not read."""
    return read_state_and_content(path, limit=limit)[0]


def read_state_and_content(path: Path, *, limit: int) -> tuple[PathState, bytes]:
    """Return the state of `path`, and the content of a file of at most `limit` bytes.

    If a parent folder is a link, nothing counts as being there: the file belongs elsewhere.
    """
    try:
        facts = _facts(path)
        if facts is None:
            return ABSENT, b""
        if not stat.S_ISREG(facts.st_mode):
            return _other_state(path, facts), b""
        if facts.st_size > limit:
            return _make_unkept(facts, f"it has {facts.st_size:,} bytes, more than are kept"), b""
        data = read_regular(path)
    except FileNotFoundError:
        return ABSENT, b""
    except OSError as error:
        return UnkeptState(why=f"it cannot be read: {error.strerror}"), b""
    digest = hashlib.sha256(data).hexdigest()
    return FileState(digest=digest, size=len(data), mode=stat.S_IMODE(facts.st_mode)), data


def _facts(path: Path) -> os.stat_result | None:
    if canonical_path(path) != path:
        return None
    try:
        return path.lstat()
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return None
        raise


def _other_state(path: Path, facts: os.stat_result) -> PathState:
    if stat.S_ISLNK(facts.st_mode):
        target = os.readlink(path)  # noqa: PTH115 - exactly as it is written
        return LinkState(target=encode_path(target))
    if stat.S_ISDIR(facts.st_mode):
        return FolderState(mode=stat.S_IMODE(facts.st_mode))
    return _make_unkept(facts, "it is neither a file nor a folder nor a link")


def _make_unkept(facts: os.stat_result, why: str) -> UnkeptState:
    mode = stat.S_IMODE(facts.st_mode)
    return UnkeptState(why=why, size=facts.st_size, mode=mode, changed=facts.st_mtime_ns)
