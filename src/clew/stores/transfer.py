"""Export a session to a JSONL file and import it: a line for the record, one for each entry.

The record's line has the shape of an entry, so a reader of entries skips it. Entries that this
release does not understand are exported and imported byte for byte.
"""

import time
from collections.abc import Callable, Iterable, Iterator

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.entries import Body, Entry, UnknownBody, encode
from clew.core.errors import SessionBusy, StoreDamaged
from clew.core.ids import EntryId, new_session_id
from clew.core.json_text import decode_json
from clew.stores.protocol import Store
from clew.stores.record import StoredSession
from clew.stores.stored_entries import decode_entry, find_damaged_ids

_BATCH = 500
_HEAD = EntryId(0)
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class _Head(Struct, frozen=True, kw_only=True, tag_field="kind", tag="exported_session"):
    record: StoredSession


class Exported(Struct, frozen=True, kw_only=True):
    """A session that was read from a file."""

    record: StoredSession | None
    """None if the file has only entries."""
    entries: list[Entry]
    problems: tuple[str, ...] = ()
    """A sentence for each line that was skipped."""


def export_lines(record: StoredSession, entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield the lines of the file, each with its line end; damaged entries are skipped."""
    head = UnknownBody(msgspec.json.encode(_Head(record=record)))
    kept = list(entries)
    lost = set(find_damaged_ids(kept))
    for entry in (Entry(id=_HEAD, at=record.updated_at, body=head), *kept):
        if entry.id not in lost:
            # A raw line end can only stand between JSON values, where a space means the same.
            yield encode(entry).translate(_ONE_LINE) + b"\n"


def read_export(lines: Iterable[bytes]) -> Exported | None:
    """Read an exported file; return None if no line of it is an entry.

    A line that cannot be read, such as the last one of a truncated file, is skipped and
    reported in `problems`.
    """
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        if line and not line.isspace():
            reader.add(number, line)
    if reader.record is None and not reader.entries:
        return None
    return Exported(record=reader.record, entries=reader.entries, problems=tuple(reader.problems))


async def import_export(
    store: Store, exported: Exported, *, cwd: str, clock: Callable[[], float] = time.time
) -> StoredSession:
    """Write a session into `store`; if that fails, nothing of it remains.

    It keeps its id, unless the store already has a session with that id.

    Args:
        store: Where to write it.
        exported: The session from `read_export`.
        cwd: The folder, if the file has no record.
        clock: The time, if the file has no record and no times.

    Raises:
        StoreError: The store cannot be written to.
    """
    record = exported.record or _record(exported.entries, cwd=cwd, now=clock())
    try:
        await store.create(record)
    except SessionBusy:
        record = replace(record, id=new_session_id())
        await store.create(record)
    try:
        for start in range(0, len(exported.entries), _BATCH):
            await store.append(record.id, exported.entries[start : start + _BATCH])
    except BaseException:
        with anyio.CancelScope(shield=True):
            await store.delete(record.id)
        raise
    return await store.record(record.id)


class _Reader:
    """Collects the lines of a file."""

    def __init__(self) -> None:
        self.record: StoredSession | None = None
        self.entries: list[Entry] = []
        self.problems: list[str] = []

    def add(self, number: int, line: bytes) -> None:
        """Add the entry or the record of a line, or a problem."""
        try:
            entry = decode_entry(line)
        except StoreDamaged as error:
            self.problems.append(f"line {number} was skipped: {error}")
            return
        if entry.id == _HEAD:
            self._add_head(number, entry.body)
        elif self.entries and entry.id <= self.entries[-1].id:
            self.problems.append(f"line {number} was skipped: entry #{entry.id} is out of order")
        else:
            self.entries.append(entry)

    def _add_head(self, number: int, body: Body) -> None:
        raw = body.raw if isinstance(body, UnknownBody) else b""
        try:
            self.record = decode_json(raw, type=_Head).record
        except msgspec.DecodeError as error:
            self.problems.append(f"line {number} was skipped: the record is damaged: {error}")


def _record(entries: list[Entry], *, cwd: str, now: float) -> StoredSession:
    times = [entry.at for entry in entries if entry.at > 0] or [now]
    return StoredSession(id=new_session_id(), cwd=cwd, created_at=times[0], updated_at=times[0])
