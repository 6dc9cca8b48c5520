"""`PendingMemoryStore`: facts that wait for approval."""

import hashlib
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError, StoreDamaged
from clew.core.json_text import decode_json
from clew.core.text import one_line
from clew.extensions.memory.facts import Fact, FactKind
from clew.extensions.private_files import read_bounded, resolve_inside, write_private

PENDING: Final = "pending.json"
_MAX_FILE = 1024 * 1024
_MAX_RECORDS = 500
_VERSION = 1


class PendingFact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fact that waits for approval."""

    id: str
    text: str
    topic: str
    kind: FactKind = "project"
    at: float = 0.0
    """When it was proposed, in seconds since the epoch."""
    confidence: float = 1.0
    source: str = ""
    """Where it comes from, such as a session."""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    records: tuple[PendingFact, ...] = ()


class PendingMemoryStore:
    """Stores the waiting facts in one file. All methods block.

    Every change reads the file again before it writes; the caller locks the folder
    (`private_files.lock_folder`). A file that cannot be read is never overwritten.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / PENDING
        self._root = folder.parent.parent

    def all(self) -> tuple[PendingFact, ...]:
        """Return the waiting facts, oldest first.

        Raises:
            StoreDamaged: The file has other content.
            ClewError: It cannot be read.
        """
        data = read_bounded(self._path, inside=self._home(), limit=_MAX_FILE)
        if not data:
            return ()
        try:
            file = decode_json(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._make_error(str(error)) from error
        if file.version != _VERSION:
            raise self._make_error(f"it has version {file.version}, not {_VERSION}")
        if len({record.id for record in file.records}) != len(file.records):
            raise self._make_error("two facts have the same id")
        return file.records

    def get(self, id_: str) -> PendingFact:
        """Return a waiting fact.

        Raises:
            ConfigError: There is no fact with that id.
            ClewError: The file cannot be read.
        """
        for record in self.all():
            if record.id == id_:
                return record
        raise ConfigError(
            f"No fact with the id {id_[:40]!a} waits for approval: it may have been approved or"
            " rejected already. `/memory pending` lists waiting facts."
        )

    def put(self, record: PendingFact) -> bool:
        """Add a fact unless it is waiting already.

        Returns:
            Whether it was added.

        Raises:
            ConfigError: Too many facts wait.
            ClewError: The file cannot be read or written.
        """
        records = self.all()
        if any(record.id == known.id for known in records):
            return False
        if len(records) >= _MAX_RECORDS:
            raise ConfigError(f"{_MAX_RECORDS} facts are waiting. Approve or reject some first.")
        self._write((*records, record))
        return True

    def remove(self, id_: str) -> PendingFact:
        """Remove a fact and return it.

        Raises:
            ConfigError: There is no fact with that id.
            ClewError: The file cannot be read or written.
        """
        found = self.get(id_)
        self._write(tuple(record for record in self.all() if record.id != id_))
        return found

    def _write(self, records: tuple[PendingFact, ...]) -> None:
        data = msgspec.json.encode(_File(_VERSION, records))
        write_private(self._path, msgspec.json.format(data, indent=2) + b"\n", inside=self._home())

    def _home(self) -> Path:
        return resolve_inside(self._folder, inside=self._root)

    def _make_error(self, why: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self._path} cannot be read: {why}. It was not changed: repair it, or remove it"
            " to start with an empty list."
        )


def pending_id(fact: Fact) -> str:
    """Return the id of a fact; facts that say the same about one topic have the same id."""
    digest = hashlib.sha256(f"{fact.topic}\n{fact.key}".encode()).hexdigest()
    return f"mem_{digest[:12]}"


def make_pending(
    fact: Fact, *, at: float, source: str = "", confidence: float = 1.0
) -> PendingFact:
    """Return a fact as a waiting one."""
    return PendingFact(
        id=pending_id(fact),
        text=fact.text,
        topic=fact.topic,
        kind=fact.kind,
        at=at,
        confidence=confidence,
        source=one_line(source),
    )
