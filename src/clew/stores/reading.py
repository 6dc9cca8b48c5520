"""Stored lines as entries, fast, and without giving up at one that cannot be read."""

import logging
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from clew.context.lazy_list import LazyList
from clew.core.entries import SCHEMA, Entry, KnownBody, UnknownBody, decode
from clew.core.errors import StoreDamaged
from clew.core.ids import EntryId, SessionId

logger = logging.getLogger(__name__)

_DAMAGED = 0
"""The schema of an entry whose line cannot be read; real ones begin at 1."""


class _Line(Struct, frozen=True, kw_only=True):
    """An entry as this release writes it: what nearly every line is."""

    id: EntryId
    at: float
    schema: int
    body: KnownBody


_line = msgspec.json.Decoder(_Line)


class StoredEntries(LazyList[Entry]):
    """The entries of stored lines, each given with its number; read when looked at.

    A line that cannot be read is reported and stands in its place as an unknown body: the
    rest of the session is not lost for it, and neither is the line.
    """

    __slots__ = ("torn",)

    def __init__(self, session_id: SessionId, rows: Sequence[tuple[int, bytes]]) -> None:
        self.torn: list[EntryId] = []
        """Numbers of the lines that could not be read, as far as they were looked at."""

        def read(index: int) -> Entry:
            entry = _read_or_keep(session_id, *rows[index])
            if entry.schema == _DAMAGED:
                self.torn.append(entry.id)
            return entry

        super().__init__(len(rows), read)


def read_entries(session_id: SessionId, rows: Sequence[tuple[int, bytes]]) -> StoredEntries:
    """Return the entries of stored lines, each given with its number."""
    return StoredEntries(session_id, rows)


def damaged(entries: Iterable[Entry]) -> list[EntryId]:
    """Return the numbers of the entries that could not be read."""
    return [entry.id for entry in entries if entry.schema == _DAMAGED]


def read_entry(line: bytes) -> Entry:
    """Return the entry that a line holds; the same as `decode`, in a third of the time.

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


def _read_or_keep(session_id: SessionId, number: int, line: bytes) -> Entry:
    try:
        return read_entry(line)
    except StoreDamaged as error:
        logger.warning("entry %d of session %s: %s", number, session_id, error)
        return Entry(id=EntryId(number), at=0.0, schema=_DAMAGED, body=UnknownBody(line))
