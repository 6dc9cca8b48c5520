"""Replace a path in one step: readers see the old content or the new content, never a part.

The new content is written to a temporary file in the same folder, forced to disk, and renamed. A
crash can leave a temporary file behind; its name begins with `.clew-` and ends with `.tmp`.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from clew.files.no_links import open_folder

_PREFIX, _SUFFIX = ".clew-", ".tmp"
_STALE = 3_600.0
"""Seconds after which the process that made a temporary file is taken to be gone."""


def replace_file(
    path: Path,
    data: bytes,
    *,
    mode: int | None = None,
    durable: bool = True,
    follow_folders: bool = True,
    before_rename: Callable[[], None] | None = None,
) -> None:
    """Put a file at `path` atomically; when this returns, it survives a power cut.

    A symbolic link at `path` is replaced itself. Extended attributes and, where permitted, owner
    and group of a replaced regular file are kept.

    Args:
        path: Where to put the file; its folder must exist.
        data: The new content.
        mode: The permissions. None keeps those of the replaced file; a new file gets the default.
        durable: False does not wait for the disk: a power cut may lose the file.
        follow_folders: False makes missing folders, and refuses a path with a link in it, even one
            that another process puts there meanwhile.
        before_rename: Called when the content is in its temporary file. If it raises, nothing
            changes.

    Raises:
        OSError: The file cannot be written; what was there before is unchanged.
    """
    opened = _open_any_folder if follow_folders else partial(open_folder, create=True)
    with opened(path.parent) as folder, _temporary_name(folder) as temporary:
        _write_beside(path.name, temporary, data, folder=folder, mode=mode, durable=durable)
        if before_rename is not None:
            before_rename()
        os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    if durable:
        sync_folder(path.parent)


def _write_beside(
    name: str, temporary: str, data: bytes, *, folder: int, mode: int | None, durable: bool
) -> None:
    """Write a temporary file that has the owner, permissions and attributes of another one."""
    replaced = _regular_file(name, folder)
    # 0o666 lets the kernel apply the umask; reading it in Python would race with threads.
    first_mode = 0o666 if mode is None and replaced is None else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(temporary, flags, first_mode, dir_fd=folder), "wb") as stream:
        stream.write(data)
        stream.flush()
        if replaced is not None:
            with suppress(OSError):
                os.fchown(stream.fileno(), replaced.st_uid, replaced.st_gid)
            _copy_attributes(stream.fileno(), name, folder)
            mode = stat.S_IMODE(replaced.st_mode) if mode is None else mode
        if mode is not None:
            os.fchmod(stream.fileno(), mode)
        if durable:
            os.fsync(stream.fileno())


def replace_with_link(path: Path, target: str) -> None:
    """Put a symbolic link at `path` atomically.

    Raises:
        OSError: The link cannot be made; what was there before is unchanged.
    """
    with _temporary_path(path) as temporary:
        temporary.symlink_to(target)
        temporary.replace(path)
    sync_folder(path.parent)


def remove_empty_folder(path: Path) -> None:
    """Remove a folder that holds nothing but temporary files of interrupted writes.

    Raises:
        OSError: The folder holds something else, or cannot be removed.
    """
    names = [child.name for child in path.iterdir()]
    if all(map(_is_temporary, names)):
        for name in names:
            (path / name).unlink(missing_ok=True)
    path.rmdir()
    sync_folder(path.parent)


def remove_stale_temporaries(folder: Path) -> None:
    """Remove the temporary files that a crash left in a folder more than an hour ago."""
    with suppress(OSError):
        names = os.listdir(folder)  # noqa: PTH208
        for path in (folder / name for name in names if _is_temporary(name)):
            if time.time() - path.lstat().st_mtime > _STALE:
                path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk, if the file system supports that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, accessible to their owner only.

    Raises:
        OSError: A folder cannot be made.
    """
    if not folder.is_dir():
        make_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def _open_any_folder(path: Path) -> Iterator[int]:
    handle = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _temporary_name(folder: int) -> Iterator[str]:
    """Yield a fresh name in an open folder, and remove what is there if the block fails."""
    name = f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"
    try:
        yield name
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        raise


@contextmanager
def _temporary_path(path: Path) -> Iterator[Path]:
    """Yield a fresh path beside `path`, and remove what is there if the block fails."""
    temporary = path.parent / f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"
    try:
        yield temporary
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_temporary(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def _regular_file(name: str, folder: int) -> os.stat_result | None:
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return facts if stat.S_ISREG(facts.st_mode) else None


def _copy_attributes(handle: int, name: str, folder: int) -> None:
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        replaced = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            for attribute in os.listxattr(replaced):
                _copy_attribute(handle, replaced, attribute)
        finally:
            os.close(replaced)


def _copy_attribute(handle: int, replaced: int, name: str) -> None:
    # Security labels can only be set by privileged processes.
    with suppress(OSError):
        os.setxattr(handle, name, os.getxattr(replaced, name))
