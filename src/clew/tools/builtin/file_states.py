"""The state of files as the file tools of one session last saw them, and their replacement.

Write and Edit change a file only if it still holds what was read, so no change of another
process or person is overwritten.
"""

import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.files.atomic import remove_stale_temporaries, replace_file
from clew.files.locks import file_lock
from clew.files.no_links import open_file
from clew.tools.builtin.files import ToolFailure, decode, describe_error
from clew.tools.protocol import ToolContext


class FileStates:
    """Remembers the content of each file as it was last read or written.

    It compares contents, not modification times: two writes may fall into one tick of the
    clock, and a file that was touched but not changed is still the one that was read.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Path, bytes] = {}

    @contextmanager
    def lock(self, path: Path) -> Iterator[None]:
        """Keep the file at `path` from being changed between its check and its replacement.

        Holds for the threads that share these states and for other Clew processes.
        """
        with self._lock, file_lock(path):
            yield

    def note(self, path: Path, data: bytes) -> None:
        """Record that the file at `path` holds `data`."""
        self._seen[path.resolve()] = _digest(data)

    def knows(self, path: Path) -> bool:
        """Return whether this file was read or written before."""
        return path.resolve() in self._seen

    def check(self, path: Path, data: bytes, shown: str) -> None:
        """Compare the file's current content with what was last seen, if anything was.

        Raises:
            ToolFailure: They differ.
        """
        if self._seen.get(path.resolve(), digest := _digest(data)) != digest:
            raise ToolFailure(f"{shown} has changed since it was read. Read it again first.")

    def replace(
        self,
        path: Path,
        data: bytes,
        shown: str,
        *,
        expected: bytes | None,
        context: ToolContext,
    ) -> None:
        """Replace the file at `path` atomically, and note its new content.

        The path must be resolved: a link in it is refused. Permissions, extended attributes and,
        where possible, the owner of an existing file are kept; missing folders are made. A file
        that an editor writes is written by the editor.

        Args:
            path: The file.
            data: The new content.
            shown: The path as the model wrote it.
            expected: The current content; None if the file does not exist.
            context: Where the call runs.

        Raises:
            ToolFailure: The file cannot be written, or holds something else than expected; it is
                unchanged.
        """
        try:
            _refuse_unwritable(path, shown)
            if context.before_change is not None:
                context.before_change(path)
            if not _write_document(path, data, shown, context):
                remove_stale_temporaries(path.parent)
                replace_file(
                    path,
                    data,
                    follow_folders=False,
                    before_rename=lambda: _refuse_changed(path, expected, shown),
                )
        except (OSError, ValueError, RuntimeError) as error:
            raise ToolFailure(f"{shown} cannot be written: {describe_error(error)}.") from error
        self.note(path, data)


def _write_document(path: Path, data: bytes, shown: str, context: ToolContext) -> bool:
    """Let the editor write the file, if there is one; returns whether it did."""
    if context.documents is None:
        return False
    return context.documents.write(path, decode(data, shown).text)


def _refuse_unwritable(target: Path, shown: str) -> None:
    if not target.exists():
        return
    if not stat.S_ISREG(target.stat().st_mode):
        raise ToolFailure(f"{shown} is not a regular file, so it cannot be written.")
    # The rename alone would also replace a file that must not be written.
    if not os.access(target, os.W_OK):
        raise ToolFailure(f"{shown} cannot be written: it is read-only.")


def _refuse_changed(target: Path, expected: bytes | None, shown: str) -> None:
    if _read_if_exists(target) != expected:
        raise ToolFailure(f"{shown} was just changed by another process. Read it again.")


def _read_if_exists(target: Path) -> bytes | None:
    try:
        with open_file(target) as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
