"""Read files in folders that other people write to.

Only regular files are opened, a symbolic link is not followed, and a pipe does not block.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
)


class NotRegularFile(OSError):
    """The path leads to a folder, a pipe, a device or a socket."""


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading, unless its name is a symbolic link.

    Links in the folders above it are followed; resolve the path first if that matters.

    Raises:
        NotRegularFile: Something else is there.
        FileNotFoundError: Nothing is there.
        OSError: The file cannot be opened; `errno` is `ELOOP` for a symbolic link.
    """
    handle = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotRegularFile(errno.EINVAL, "Not a regular file", str(path))
        with os.fdopen(handle, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(handle)


def read_regular(path: Path, *, limit: int = -1) -> bytes:
    """Return a regular file, or its first `limit` bytes; see `open_regular`.

    Raises:
        OSError: As `open_regular`, or the file cannot be read.
    """
    with open_regular(path) as stream:
        return stream.read(limit)
