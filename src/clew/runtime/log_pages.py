"""Logs of tasks: append-only files of lines, read page by page."""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from clew.core.errors import BackgroundTaskError
from clew.core.tasks import LogPage, TaskErrorCategory
from clew.core.text import replace_surrogates
from clew.files.atomic import make_private_folder
from clew.files.safe_read import NotRegularFile, open_regular
from clew.runtime.protocol import LOG_PAGE_LINES

MAX_LOG_BYTES = 64_000_000
"""A log stops growing at this size."""
MAX_LINE = 8_000
"""Characters of a line; a longer one is split."""

_FULL = "[clew] this log is full: the output after this line is not kept\n"
_CREATE = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)


def take_page(
    task_id: str, lines: Sequence[str], *, offset: int = 0, limit: int = LOG_PAGE_LINES
) -> LogPage:
    """Return a page of a log that is in memory; a negative offset counts from the end."""
    start = max(0, len(lines) + offset) if offset < 0 else offset
    page = tuple(lines[start : start + limit])
    end = start + len(page)
    following = end if page and end < len(lines) else None
    return LogPage(task_id=task_id, lines=page, offset=start, next_offset=following)


def read_page(path: Path, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES) -> LogPage:
    """Return a page of a log file; blocks. A line that is being written is left out.

    Raises:
        BackgroundTaskError: There is no such log, or it cannot be read.
    """
    try:
        with open_regular(path) as file:
            return _find_page(_complete_lines(file), task_id, offset=offset, limit=limit)
    except FileNotFoundError:
        raise BackgroundTaskError(
            f"{task_id} has no log: it has not started, or the log was deleted",
            category=TaskErrorCategory.VALIDATION,
        ) from None
    except (OSError, NotRegularFile) as error:
        raise BackgroundTaskError(
            f"the log of {task_id} cannot be read: {error}", category=TaskErrorCategory.RUNNER
        ) from error


def _find_page(lines: Iterator[str], task_id: str, *, offset: int, limit: int) -> LogPage:
    if offset < 0:
        last: deque[tuple[int, str]] = deque(enumerate(lines), maxlen=-offset)
        start = last[0][0] if last else 0
        texts = [text for _, text in last]
        page = take_page(task_id, texts, limit=limit)
        following = page.next_offset
        return LogPage(
            task_id=task_id,
            lines=page.lines,
            offset=start,
            next_offset=None if following is None else start + following,
        )
    page_lines = tuple(islice(lines, offset, offset + limit))
    more = next(lines, None) is not None
    end = offset + len(page_lines)
    return LogPage(
        task_id=task_id, lines=page_lines, offset=offset, next_offset=end if more else None
    )


def _complete_lines(file: Iterable[bytes]) -> Iterator[str]:
    return (line[:-1].decode(errors="replace") for line in file if line.endswith(b"\n"))


def remove_old_logs(folder: Path, *, older_than: float) -> None:
    """Remove the logs that were not written to since then; blocks."""
    for path in folder.glob("*.log"):
        with suppress(OSError):
            if path.stat().st_mtime < older_than:
                path.unlink()


class TaskLogFile:
    """Appends lines to a log. What it gets must be redacted."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._size = os.fstat(handle).st_size
        self._is_full = False

    def add(self, label: str, lines: Iterable[str]) -> None:
        """Append lines of one stream, such as `[stdout] ready`.

        Raises:
            OSError: The log cannot be written.
        """
        if self._is_full:
            return
        text = "".join(f"[{label}] {part}\n" for line in lines for part in _split_line(line))
        data = replace_surrogates(text).encode()
        if self._size + len(data) > MAX_LOG_BYTES:
            room = max(0, MAX_LOG_BYTES - self._size)
            data = data[: data.rfind(b"\n", 0, room) + 1] + _FULL.encode()
            self._is_full = True
        self._size += len(data)
        while data:
            data = data[os.write(self._handle, data) :]


@contextmanager
def open_log(path: Path) -> Iterator[TaskLogFile]:
    """Open a log for appending; only its owner can read it.

    Raises:
        OSError: It cannot be written.
    """
    make_private_folder(path.parent)
    handle = os.open(path, _CREATE, 0o600)
    try:
        yield TaskLogFile(handle)
    finally:
        os.close(handle)


def _split_line(line: str) -> Iterator[str]:
    if len(line) <= MAX_LINE:
        yield line
        return
    for start in range(0, len(line), MAX_LINE):
        yield line[start : start + MAX_LINE]
