"""Keeping other Clew processes away from a file while it is checked and changed."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 2.0
"""Seconds to wait for another process that is changing a file in the same folder."""
_POLL = 0.005


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Keep other Clew processes from changing files beside `path` meanwhile.

    Held from the check of a file to its replacement, so that no change is lost between
    them. A folder that somebody else keeps locked for long is used all the same: the
    content is compared once more before it is replaced.
    """
    handle = _folder_of(path)
    try:
        if handle is not None:
            _lock(handle)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _folder_of(path: Path) -> int | None:
    try:
        folder = next(up for up in path.resolve().parents if up.is_dir())
        return os.open(folder, os.O_RDONLY)
    except (OSError, ValueError, RuntimeError, StopIteration):
        return None


def _lock(handle: int) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return
            time.sleep(_POLL)
        except OSError:  # a file system without locks
            return
        else:
            return
