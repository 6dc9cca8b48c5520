"""File contents, each kept once under the name of its SHA-256."""

import hashlib
from collections.abc import Set
from pathlib import Path

from clew.checkpoints.states import File, State, load
from clew.core.errors import StoreDamaged
from clew.files.atomic import replace_file, sync_folder


class Blobs:
    """A folder of contents. All methods block.

    A content is there whole or not at all: it is written under another name, forced to disk,
    and then gets its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def capture(self, path: Path, *, limit: int) -> State:
        """Return what stands at `path`; if it is a file of at most `limit` bytes, keep it.

        Raises:
            OSError: It could not be kept.
        """
        state, data = load(path, limit=limit)
        if isinstance(state, File) and not (self._folder / state.digest).exists():
            if not self._folder.is_dir():
                self._folder.mkdir(mode=0o700)
                sync_folder(self._folder.parent)
            replace_file(self._folder / state.digest, data, mode=0o600)
        return state

    def read(self, digest: str) -> bytes:
        """Return a content.

        Raises:
            StoreDamaged: It is not there, or not what was kept.
        """
        try:
            data = (self._folder / digest).read_bytes()
        except FileNotFoundError:
            raise StoreDamaged("its kept content is gone") from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise StoreDamaged("its kept content is damaged")
        return data

    def sweep(self, wanted: Set[str]) -> None:
        """Remove every content but those `wanted`, and what a crash left half written."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name not in wanted:
                    path.unlink(missing_ok=True)
