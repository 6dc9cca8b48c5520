"""What stores are made of: leases, words, records, and the file that a session travels in."""

import gc
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.core.entries import Entry, MessageAdded, SetupChanged, UnknownBody, decode, encode
from clew.core.errors import SessionError, StoreDamaged
from clew.core.ids import EntryId, SessionId
from clew.core.messages import user
from clew.core.models import ModelFacts
from clew.importers.reader import read_session
from clew.stores.leases import (
    HEARTBEAT_INTERVAL,
    LEASE_TIMEOUT,
    Heartbeat,
    LeaseLost,
    SessionHeld,
    current_holder,
    heartbeat_interval,
    is_dead,
)
from clew.stores.memory import MemoryStore
from clew.stores.record import Growth, StoredSession, new_record
from clew.stores.sqlite import SqliteStore
from clew.stores.stored_entries import decode_entry
from clew.stores.transfer import Exported, export_lines, import_export, read_export
from tests.histories import histories
from tests.rows import each_row

pytestmark = pytest.mark.anyio

A = SessionId("a")
RECORD = StoredSession(id=A, cwd="/work", created_at=1.0, updated_at=1.0)


def entry(number: int, text: str = "hello", at: float = 1.0) -> Entry:
    return Entry(id=EntryId(number), at=at, body=MessageAdded(message=user(text)))


# Leases


@pytest.mark.req("STO-4")
@each_row(
    ("change", "silent", "dead"),
    [
        ({}, 1e9, False),
        ({"started": "1"}, 0.0, True),
        ({"pid": 2**22 + 1}, 0.0, True),
        ({"pid": 2**22 + 1, "started": ""}, 0.0, True),
        ({"started": ""}, 1e9, False),
        ({"machine": "elsewhere", "pid": 1}, LEASE_TIMEOUT - 1, False),
        ({"machine": "elsewhere", "pid": 1}, LEASE_TIMEOUT + 1, True),
        ({"machine": "elsewhere", "pid": 1}, -3600.0, False),
    ],
)
def test_a_holder_is_dead_when_its_process_is_or_when_it_is_silent_elsewhere(
    change: dict[str, object], silent: float, *, dead: bool
) -> None:
    me = current_holder()
    holder = replace(current_holder(), **change)

    assert is_dead(holder, me=me, silent=silent) is dead


def test_two_stores_of_one_process_are_two_owners() -> None:
    assert current_holder().owner != current_holder().owner
    assert current_holder().pid == os.getpid()


@pytest.mark.req("STO-4")
async def test_a_holder_elsewhere_that_is_silent_is_replaced_and_told_so(tmp_path: Path) -> None:
    now = [1_000.0]
    elsewhere = SqliteStore(tmp_path / "s.db", clock=lambda: now[0])
    elsewhere._leases.holder = replace(
        elsewhere._leases.holder, machine="elsewhere", host="far", pid=1
    )
    here = SqliteStore(tmp_path / "s.db", clock=lambda: now[0])
    await elsewhere.create(RECORD)
    await elsewhere.lease(A)
    now[0] += LEASE_TIMEOUT - 1

    with pytest.raises(SessionHeld, match="process 1 on far since 1970"):
        await here.lease(A)
    elsewhere._leases.renew()
    now[0] += LEASE_TIMEOUT - 1
    with pytest.raises(SessionHeld):
        await here.lease(A)
    now[0] += 2
    await here.lease(A)

    with pytest.raises(LeaseLost, match=f"taken over by process {os.getpid()}"):
        await elsewhere.append(A, [entry(1)])
    await elsewhere.aclose()
    await here.append(A, [entry(1)])
    await here.aclose()


async def test_a_clock_that_jumps_takes_no_lease_from_the_living(tmp_path: Path) -> None:
    now = [1_000.0]
    one = SqliteStore(tmp_path / "s.db", clock=lambda: now[0])
    other = SqliteStore(tmp_path / "s.db", clock=lambda: now[0])
    await one.create(RECORD)
    await one.lease(A)

    for number, moment in enumerate((1e9, -1e9), 1):
        now[0] = moment
        with pytest.raises(SessionHeld):
            await other.lease(A)
        await one.append(A, [entry(number)])

    await one.aclose()
    await other.aclose()


class Beating:
    """Something that gives signs of life."""

    def __init__(self) -> None:
        self.beats = 0
        self.third = threading.Event()
        self.heart = Heartbeat(self.beat)

    def beat(self) -> None:
        self.beats += 1
        if self.beats == 3:
            self.third.set()


def test_a_heart_beats_until_it_is_stopped() -> None:
    before = _hearts()
    one = Beating()
    one.heart.start(0.001)
    one.heart.start(0.001)
    assert one.third.wait(5)
    assert len(_hearts() - before) == 1

    one.heart.stop()
    one.heart.stop()

    assert _hearts() - before == set()


def test_a_heart_beats_faster_when_something_needs_it() -> None:
    one = Beating()
    one.heart.start()
    one.heart.start(0.001)

    assert one.third.wait(60)
    one.heart.stop()


def test_a_lease_is_renewed_several_times_before_its_holder_counts_as_dead() -> None:
    assert heartbeat_interval(None) == heartbeat_interval(1e9) == HEARTBEAT_INTERVAL
    assert heartbeat_interval(5.0) == 1.0
    assert heartbeat_interval(0.0) > 0


def test_a_heart_ends_when_what_it_beats_for_is_gone() -> None:
    before = _hearts()
    one = Beating()
    one.heart.start(0.001)
    assert one.third.wait(5)
    (thread,) = _hearts() - before

    del one
    gc.collect()

    thread.join(5)
    assert not thread.is_alive()


def _hearts() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "clew-lease"}


async def test_a_closed_store_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = _hearts()
    store = SqliteStore(tmp_path / "s.db")
    await store.create(RECORD)
    await store.lease(A)
    assert len(_hearts() - before) == 1

    with anyio.fail_after(60):
        await store.aclose()

    assert _hearts() - before == set()


async def test_a_store_is_closed_although_its_user_was_cancelled(tmp_path: Path) -> None:
    before = _hearts()
    store = SqliteStore(tmp_path / "s.db")
    await store.create(RECORD)
    await store.lease(A)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.aclose()
    other = SqliteStore(tmp_path / "s.db")

    await other.lease(A)

    assert len(_hearts() - before) == 1
    await other.aclose()


# Records


@given(histories(), st.data())
def test_the_record_does_not_depend_on_how_entries_are_batched(
    entries: list[Entry], data: st.DataObject
) -> None:
    def grown(record: StoredSession, batch: list[Entry]) -> StoredSession:
        return Growth.of(batch, [encode(one) for one in batch]).apply_to(record)

    cut = data.draw(st.integers(0, len(entries)))
    parts = [part for part in (entries[:cut], entries[cut:]) if part]
    batched = RECORD
    for part in parts:
        batched = grown(batched, part)
    one_by_one = RECORD
    for one in entries:
        one_by_one = grown(one_by_one, [one])

    assert batched == one_by_one


def test_a_field_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(SessionError, match="cannot be stored"):
        new_record(replace(RECORD, extra={"x": object()}))
    with pytest.raises(SessionError, match="cannot be stored"):
        new_record(replace(RECORD, extra={"x": "\ud800"}))


# Lines


LINES = (
    encode(entry(1, "hello")),
    encode(Entry(id=EntryId(2), at=2.0, body=SetupChanged(model=ModelFacts(name="m")))),
    encode(Entry(id=EntryId(3), at=3.0, schema=9, body=UnknownBody(b'{"kind":"message","x":1}'))),
    encode(Entry(id=EntryId(4), at=4.0, body=UnknownBody(b'{"kind":"later"}'))),
    b'{"id":5,"at":1,"schema":1,"body":{"kind":"undo","target":1,"more":2},"extra":1}',
)


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_read_as_ever(line: bytes) -> None:
    assert decode_entry(line) == decode(line)


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b'{"id":1}', LINES[0][:-1], b'{"id":1,"at":1,"schema":1,"body":"\xff"}'],
)
def test_a_line_that_is_no_entry_is_damaged(line: bytes) -> None:
    with pytest.raises(StoreDamaged):
        decode_entry(line)


# Files


async def travelled(
    record: StoredSession, entries: Sequence[Entry]
) -> tuple[StoredSession, Sequence[Entry]]:
    """Send a session through a file into an empty store."""
    lines = b"".join(export_lines(record, entries)).split(b"\n")
    exported = read_export(lines)
    assert exported is not None
    assert exported.problems == ()
    store = MemoryStore()
    made = await import_export(store, exported, cwd="/here")
    return await store.load(made.id)


@pytest.mark.req("STO-3")
async def test_a_session_goes_through_a_file_unchanged() -> None:
    store = MemoryStore()
    begun = replace(RECORD, name="Ariadne\u2028", parent=SessionId("p"), forked_at=EntryId(2))
    await store.create(replace(begun, extra={"sandbox": [1, "\x00"]}))
    entries = [decode_entry(line) for line in LINES]
    await store.append(A, [*entries, entry(6, "lines\r\nand 🧵 and \u2028"), entry(9, "a gap")])
    before = await store.load(A)

    assert await travelled(*before) == before


@pytest.mark.req("STO-3")
@given(histories())
def test_any_journal_goes_through_a_file_unchanged(entries: list[Entry]) -> None:
    exported = read_export(b"".join(export_lines(RECORD, entries)).split(b"\n"))

    assert exported == Exported(record=RECORD, entries=entries)


@pytest.mark.req("STO-2")
async def test_a_file_with_faults_gives_what_it_can() -> None:
    head, one, two = export_lines(RECORD, [entry(1), entry(2)])
    lines = [b"garbage", one, b" \r", one, two[:-9]]

    exported = read_export(lines)
    headless = read_export([head.replace(b'"cwd"', b'"c"'), one])

    assert exported is not None
    assert exported.entries == [entry(1)]
    assert [problem[:20] for problem in exported.problems] == [
        "line 1 was skipped: ",
        "line 4 was skipped: ",
        "line 5 was skipped: ",
    ]
    assert headless is not None
    assert headless.record is None
    assert headless.problems[0].startswith("line 1 was skipped: the record is damaged")
    assert read_export([b"garbage"]) is None


async def test_a_file_without_a_record_is_given_one() -> None:
    store = MemoryStore()
    exported = Exported(record=None, entries=[entry(1, at=5.0), entry(2, at=7.0)])

    made = await import_export(store, exported, cwd="/here")
    empty = await import_export(
        store, Exported(record=None, entries=[]), cwd="/here", clock=lambda: 9.0
    )

    assert (made.cwd, made.created_at, made.updated_at, made.entries) == ("/here", 5.0, 7.0, 2)
    assert (empty.created_at, empty.entries) == (9.0, 0)


class Failing(MemoryStore):
    """A store that is full after so many entries."""

    async def append(self, session_id: SessionId, entries: object) -> None:
        """Refuse."""
        raise StoreDamaged("full")


async def test_an_import_that_fails_leaves_nothing() -> None:
    store = Failing()

    with pytest.raises(StoreDamaged, match="full"):
        await import_export(store, Exported(record=RECORD, entries=[entry(1)]), cwd="/")

    assert await store.sessions() == []


def test_an_export_is_a_recording_that_other_commands_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(export_lines(RECORD, [entry(1, "what is a clew?")])))

    session = read_session(path)

    assert [message.text for message in session.messages] == ["what is a clew?"]


def test_a_damaged_entry_is_not_exported() -> None:
    lost = Entry(id=EntryId(1), at=0.0, schema=0, body=UnknownBody(b"{garbage"))

    lines = list(export_lines(RECORD, [lost, entry(2)]))

    assert len(lines) == 2
    assert read_export(lines) == Exported(record=RECORD, entries=[entry(2)])
