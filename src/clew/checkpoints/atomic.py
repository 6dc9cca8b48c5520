"""Changes of one path in one step: who looks sees what was there or what is new, never a part."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

_PREFIX, _SUFFIX = ".clew-", ".tmp"
"""The file tools name theirs so too, and remove those that a crash left in a folder."""


def write_whole(path: Path, data: bytes, *, mode: int) -> None:
    """Put a file at `path`, whole or not at all; when this returns, it is on disk.

    Whatever stood there is replaced, a link itself and not what it leads to. Owner, group and
    extended attributes of a file that is replaced are kept as far as we may set them.

    Raises:
        OSError: It could not be done; what was there before is untouched.
    """
    fresh = _beside(path)
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            _take_after(stream.fileno(), path)
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync(path.parent)


def link_whole(path: Path, target: str) -> None:
    """Put a symbolic link at `path` in place of what stood there.

    Raises:
        OSError: It could not be done; what was there before is untouched.
    """
    fresh = _beside(path)
    try:
        fresh.symlink_to(target)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder in which there is nothing, or nothing but what a broken-off write left.

    Raises:
        OSError: Something else is in it, or it may not be removed.
    """
    names = [child.name for child in path.iterdir()]
    if all(name.startswith(_PREFIX) and name.endswith(_SUFFIX) for name in names):
        for name in names:
            (path / name).unlink(missing_ok=True)
    path.rmdir()
    sync(path.parent)


def sync(folder: Path) -> None:
    """Force the names in a folder to disk, where the file system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _beside(path: Path) -> Path:
    return path.parent / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"


def _take_after(handle: int, model: Path) -> None:
    try:
        facts = model.lstat()
    except OSError:
        return
    if not stat.S_ISREG(facts.st_mode):
        return
    with suppress(OSError):
        os.fchown(handle, facts.st_uid, facts.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for attribute in os.listxattr(model, follow_symlinks=False):
                value = os.getxattr(model, attribute, follow_symlinks=False)
                os.setxattr(handle, attribute, value)
