"""Open files by their real path, without following a link anywhere on the way.

A path is checked before it is used, and meanwhile another process can replace a folder by a link.
These functions open one folder after the other and refuse links, so the file that is opened is the
one that was checked. Pass a resolved path: `/var/x` fails where `/var` is a link.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from clew.files.safe_read import NotRegularFile

_STEP = (
    getattr(os, "O_PATH", os.O_RDONLY)
    | os.O_DIRECTORY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_READ = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


@contextmanager
def open_folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """Open a folder as a handle for `dir_fd`; it is closed at the end.

    Args:
        path: The folder, absolute and resolved.
        create: Whether to make missing folders.

    Raises:
        OSError: It cannot be opened; `errno` is `ELOOP` or `ENOTDIR` if a part of it is a link.
    """
    handle = os.open(path.anchor, _STEP)
    try:
        for name in path.parts[1:]:
            below = _open_step(name, handle, create=create)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)


def _open_step(name: str, folder: int, *, create: bool) -> int:
    try:
        return os.open(name, _STEP, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _STEP, dir_fd=folder)


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; it is closed at the end.

    Raises:
        NotRegularFile: Something else is there.
        OSError: It cannot be opened, or a part of the path is a link.
    """
    with open_folder(path.parent) as folder:
        handle = os.open(path.name, _READ, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotRegularFile(errno.EINVAL, "Not a regular file", str(path))
        with os.fdopen(handle, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(handle)
