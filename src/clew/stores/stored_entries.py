"""Decode stored lines into entries, and the errors that every store raises alike.

A line that cannot be decoded does not hide the rest of its session.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec
from msgspec import Struct

from clew.context.lazy_list import LazyList
from clew.core.entries import SCHEMA, Entry, KnownBody, UnknownBody, decode
from clew.core.errors import SessionBusy, SessionNotFound, StoreDamaged
from clew.core.ids import EntryId, SessionId
from clew.core.json_text import JsonDecoder

_DAMAGED = 0
"""The schema of an entry whose line cannot be decoded; valid ones begin at 1."""


class _Line(Struct, frozen=True, kw_only=True):
    """An entry as this release writes it, as nearly every line is."""

    id: EntryId
    at: float
    schema: int
    body: KnownBody


_line = JsonDecoder(_Line)


class StoredEntries(LazyList[Entry]):
    """The entries of stored lines, each given with its number; decoded when accessed.

    A line that cannot be decoded is logged and becomes an unknown body that keeps its bytes.
    """

    __slots__ = ("_rows", "torn")

    def __init__(self, session_id: SessionId, rows: Sequence[tuple[int, bytes]]) -> None:
        self.torn: list[EntryId] = []
        """Numbers of the lines that could not be decoded, of those accessed so far."""

        def read(index: int) -> Entry:
            entry = _decode_or_keep(session_id, *rows[index])
            if entry.schema == _DAMAGED:
                self.torn.append(entry.id)
            return entry

        super().__init__(len(rows), read)
        self._rows = rows

    def select(self, tag: str) -> list[Entry]:
        """Return the entries whose body has that tag; lines of other bodies are not decoded."""
        mark = f'"kind":"{tag}"'.encode()
        lines = len(self._rows)
        found: list[Entry] = []
        for index in range(len(self)):
            line = self._rows[index][1] if index < lines else mark
            if not isinstance(line, bytes) or mark in line:
                found.append(self[index])
        return [entry for entry in found if _tag_of(entry) == tag]


def select_entries(entries: Sequence[Entry], tag: str) -> list[Entry]:
    """Return the entries whose body has that tag, such as `task`."""
    if isinstance(entries, StoredEntries):
        return entries.select(tag)
    return [entry for entry in entries if _tag_of(entry) == tag]


def _tag_of(entry: Entry) -> object:
    return entry.body.__struct_config__.tag


def find_damaged_ids(entries: Iterable[Entry]) -> list[EntryId]:
    """Return the numbers of the entries that could not be decoded."""
    return [entry.id for entry in entries if entry.schema == _DAMAGED]


def decode_entry(line: bytes) -> Entry:
    """Return the entry of a line; the same as `core.entries.decode`, in a third of the time.

    Raises:
        StoreDamaged: The line is not an entry at all.
    """
    try:
        read = _line.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return decode(line)
    if read.schema > SCHEMA:
        return decode(line)
    return Entry(id=read.id, at=read.at, schema=read.schema, body=read.body)


def check_order(session_id: SessionId, entries: Sequence[Entry]) -> None:
    """Check that the entries of a batch have ascending numbers.

    Raises:
        SessionBusy: They do not, so two writers must have numbered them.
    """
    if any(one.id >= other.id for one, other in pairwise(entries)):
        raise make_changed_error(session_id)


def session_not_found(session_id: SessionId) -> SessionNotFound:
    """Return the error for a session that does not exist."""
    return SessionNotFound(f"there is no session {session_id}")


def session_exists(session_id: SessionId) -> SessionBusy:
    """Return the error for a new session whose id is in use."""
    return SessionBusy(f"session {session_id} exists already")


def make_changed_error(session_id: SessionId) -> SessionBusy:
    """Return the error for entries whose numbers are in use."""
    return SessionBusy(f"session {session_id} was written to by another process; open it again")


def _decode_or_keep(session_id: SessionId, number: int, line: object) -> Entry:
    if not isinstance(line, bytes):
        line = b"null"  # a damaged file holds a value of another type here
    try:
        return decode_entry(line)
    except StoreDamaged as error:
        import logging  # noqa: PLC0415 - slow to import, and seldom needed

        logging.getLogger(__name__).warning("entry %d of session %s: %s", number, session_id, error)
        return Entry(id=EntryId(number), at=0.0, schema=_DAMAGED, body=UnknownBody(line))
