"""What the file tools of one session have seen, so that no change is lost unseen."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.tools.builtin.files import Unusable
from clew.tools.claims import claimed


class FileLedger:
    """Remembers the content of each file as it was last read or written.

    Contents are compared, not times: two writes may fall into one tick of a clock, and
    a file that was touched without being changed is still the one that was read.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Path, bytes] = {}

    @contextmanager
    def changing(self, path: Path) -> Iterator[None]:
        """Let nobody else change the file at `path` from its check to its replacement.

        Holds for the threads that share this ledger and for other Clew processes.
        """
        with self._lock, claimed(path):
            yield

    def note(self, path: Path, data: bytes) -> None:
        """Record that the file at `path` is known to hold `data`."""
        self._seen[path.resolve()] = _digest(data)

    def knows(self, path: Path) -> bool:
        """Was this file read or written before?"""
        return path.resolve() in self._seen

    def check(self, path: Path, data: bytes, shown: str) -> None:
        """Compare `data`, found in the file now, with what was seen last, if anything was.

        Raises:
            Unusable: They differ.
        """
        if self._seen.get(path.resolve(), digest := _digest(data)) != digest:
            raise Unusable(f"{shown} has changed since it was read. Read it again first.")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
