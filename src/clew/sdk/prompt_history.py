"""The prompts that the user typed before, in one private file for all sessions."""

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from clew.core.json_text import decode_json
from clew.core.redaction import redact
from clew.files.atomic import make_private_folder
from clew.files.locks import lock_descriptor

logger = logging.getLogger(__name__)

_MAX_BYTES = 2_000_000
"""A longer file loses its older half."""
_TIMEOUT = 2.0
"""Seconds to wait for another process that writes."""
_MAX_CHARACTERS = 20_000
"""Longer prompts are pastes, and are not stored."""


class PromptHistory:
    """Stores prompts as one JSON string per line, with secrets redacted.

    A history that cannot be read or written is never an error. All methods block.
    """

    def __init__(self, path: Path, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        """Create a history.

        Args:
            path: The file; it is created with the first prompt.
            secrets: Returns the known secrets, such as the keys of providers: they are redacted
                besides what looks like a secret.
        """
        self._path = path
        self._secrets = secrets

    def entries(self) -> list[str]:
        """Return all prompts, oldest first; skips damaged lines."""
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return []
        return list(_read(lines))

    def add(self, text: str) -> None:
        """Append a prompt."""
        if len(text) > _MAX_CHARACTERS:
            return
        # A broken paste may contain half of a surrogate pair, which UTF-8 cannot encode.
        clean = redact(text, extra_values=self._secrets()).encode(errors="replace").decode()
        try:
            self._append(msgspec.json.encode(clean) + b"\n")
        except OSError as error:
            logger.debug("cannot write the prompt history: %s", error)

    def _append(self, line: bytes) -> None:
        make_private_folder(self._path.parent)
        file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        try:
            if os.name == "posix":
                os.fchmod(file, 0o600)
            with contextlib.suppress(TimeoutError):
                lock_descriptor(file, timeout=_TIMEOUT)
            if os.fstat(file).st_size > _MAX_BYTES:
                _truncate(file)
            os.write(file, line if _is_complete(file) else b"\n" + line)
        finally:
            os.close(file)


def _read(lines: list[bytes]) -> Iterator[str]:
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):
            yield decode_json(line, type=str)


def _is_complete(file: int) -> bool:
    """Return whether the file ends with a line break; it does not after an interrupted write."""
    size = os.lseek(file, 0, os.SEEK_END)
    if not size:
        return True
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1) == b"\n"


def _truncate(file: int) -> None:
    size = os.fstat(file).st_size
    os.lseek(file, size - _MAX_BYTES // 2, os.SEEK_SET)
    _, _, kept = os.read(file, _MAX_BYTES).partition(b"\n")
    os.ftruncate(file, 0)
    os.write(file, kept)
