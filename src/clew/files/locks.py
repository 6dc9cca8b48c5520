"""Locks between Clew processes, on folders and open files.

The locks are advisory (`flock`) and end when the process dies. On a file system without locks,
every lock succeeds.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TIMEOUT = 2.0
"""Seconds to wait for another process that is changing a file in the same folder."""
_POLL = 0.005


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Keep other Clew processes from changing files in the folder of `path`.

    Hold it from the check of a file to its replacement. After two seconds of waiting, or when
    the folder cannot be opened, the block runs without the lock: compare the content once more
    before you replace it.
    """
    handle = _open_nearest_folder(path)
    try:
        if handle is not None:
            with suppress(TimeoutError):
                lock_descriptor(handle, timeout=_TIMEOUT)
        yield
    finally:
        if handle is not None:
            os.close(handle)


@contextmanager
def folder_lock(folder: Path, *, timeout: float) -> Iterator[None]:
    """Keep other processes and threads out of an existing folder that they lock the same way.

    Raises:
        TimeoutError: Another process still holds the lock after `timeout` seconds.
        OSError: The folder cannot be opened.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock_descriptor(handle, timeout=timeout)
        yield
    finally:
        os.close(handle)


def lock_descriptor(handle: int, *, timeout: float) -> None:
    """Lock an open file or folder; the lock ends when it is closed.

    Raises:
        TimeoutError: Another process still holds the lock after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError("another process holds the lock") from None
            time.sleep(_POLL)
        except OSError:  # a file system without locks
            return
        else:
            return


def _open_nearest_folder(path: Path) -> int | None:
    try:
        folder = next(up for up in path.resolve().parents if up.is_dir())
        return os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError, RuntimeError, StopIteration):
        return None
