"""A session as a file: one line for the record, one for each entry.

The record's line is shaped like an entry, so whoever reads only entries passes it over. What
this release does not understand goes out and comes in byte for byte.
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
from clew.stores.protocol import Store
from clew.stores.reading import damaged, read_entry
from clew.stores.record import StoredSession

_BATCH = 500
_HEAD = EntryId(0)
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class _Head(Struct, frozen=True, kw_only=True, tag_field="kind", tag="exported_session"):
    record: StoredSession


class Exported(Struct, frozen=True, kw_only=True):
    """A session that was read from a file."""

    record: StoredSession | None
    """None when the file has only entries."""
    entries: list[Entry]
    problems: tuple[str, ...] = ()
    """What had to be left out, in words."""


def export_lines(record: StoredSession, entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield the lines of the file, each with its end; entries that are damaged are left out."""
    head = UnknownBody(msgspec.json.encode(_Head(record=record)))
    kept = list(entries)
    lost = set(damaged(kept))
    for entry in (Entry(id=_HEAD, at=record.updated_at, body=head), *kept):
        if entry.id not in lost:
            # Between the values of JSON, which is the only place for it, a line's end is a space.
            yield encode(entry).translate(_ONE_LINE) + b"\n"


def read_export(lines: Iterable[bytes]) -> Exported | None:
    """Read such a file; None when no line of it is an entry.

    A line that cannot be read is passed over and told of, such as the last one of a file that
    breaks off.
    """
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        if line and not line.isspace():
            reader.take(number, line)
    if reader.record is None and not reader.entries:
        return None
    return Exported(record=reader.record, entries=reader.entries, problems=tuple(reader.problems))


async def import_export(
    store: Store, exported: Exported, *, cwd: str, clock: Callable[[], float] = time.time
) -> StoredSession:
    """Write a session into `store`; when that fails, nothing of it stays.

    It keeps its id, unless the store has a session of that id already.

    Args:
        store: Where to write it.
        exported: What was read.
        cwd: The folder of a session whose file does not say.
        clock: Dates a session whose file does not say when it was.

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
    """Takes a file line by line."""

    def __init__(self) -> None:
        self.record: StoredSession | None = None
        self.entries: list[Entry] = []
        self.problems: list[str] = []

    def take(self, number: int, line: bytes) -> None:
        """Keep what a line holds, or note why not."""
        try:
            entry = read_entry(line)
        except StoreDamaged as error:
            self.problems.append(f"line {number} was left out: {error}")
            return
        if entry.id == _HEAD:
            self._take_head(number, entry.body)
        elif self.entries and entry.id <= self.entries[-1].id:
            self.problems.append(f"line {number} was left out: entry #{entry.id} is out of order")
        else:
            self.entries.append(entry)

    def _take_head(self, number: int, body: Body) -> None:
        raw = body.raw if isinstance(body, UnknownBody) else b""
        try:
            self.record = msgspec.json.decode(raw, type=_Head).record
        except msgspec.DecodeError as error:
            self.problems.append(f"line {number} was left out: the record is damaged: {error}")


def _record(entries: list[Entry], *, cwd: str, now: float) -> StoredSession:
    times = [entry.at for entry in entries if entry.at > 0] or [now]
    return StoredSession(id=new_session_id(), cwd=cwd, created_at=times[0], updated_at=times[0])
