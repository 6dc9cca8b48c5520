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

from msgspec import Struct

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


class FileContent(Struct, frozen=True, kw_only=True):
    """A file as it was read."""

    path: Path
    content: bytes
    problem: str = ""
    """Why there is no content; empty for most."""


def read_folder(
    folder: Path, ending: str, *, max_files: int, max_bytes: int
) -> tuple[FileContent, ...]:
    """Return the files of a folder whose names have that ending, by name; none without a folder.

    Names that begin with an underscore or a dot are left out. Larger files, and files beyond
    `max_files`, are listed without their content.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(ending) and not entry.name.startswith(("_", "."))
            )
    except OSError:
        return ()
    found = [_read_up_to(folder / name, max_bytes) for name in names[:max_files]]
    too_many = f"only {max_files} files are loaded"
    found += (
        FileContent(path=folder / name, content=b"", problem=too_many) for name in names[max_files:]
    )
    return tuple(found)


def _read_up_to(path: Path, limit: int) -> FileContent:
    try:
        content = read_regular(path, limit=limit + 1)
    except OSError as error:
        why = error.strerror or str(error)
        return FileContent(path=path, content=b"", problem=f"it cannot be read: {why}")
    if len(content) > limit:
        return FileContent(path=path, content=b"", problem=f"it has more than {limit:,} bytes")
    return FileContent(path=path, content=content)
