"""Sessions in an SQLite file, and what may happen to the file."""

import logging
import os
import resource
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing, contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from clew.context.recall.query import parse_query
from clew.core.entries import Entry, MessageAdded, SessionRecord, SetupChanged, UnknownBody, encode
from clew.core.errors import SessionNotFound, StoreDamaged, StoreUnavailable
from clew.core.events import Event, Warned
from clew.core.ids import EntryId, SessionId
from clew.core.messages import assistant, user
from clew.core.models import ModelFacts
from clew.providers.scripted import ScriptedProvider
from clew.session.session import Session
from clew.stores.record import StoredSession
from clew.stores.sql import SqlConnection
from clew.stores.sqlite import SqliteStore
from clew.stores.stored_entries import find_damaged_ids
from tests.event_buses import bus_for
from tests.stores.store_child import child, line, tell

pytestmark = pytest.mark.anyio

A, B = SessionId("a"), SessionId("b")
VERSION_1 = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    cwd TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL
) STRICT;
CREATE TABLE entries (
    session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    line BLOB NOT NULL,
    PRIMARY KEY (session_id, id)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 1;
"""
"""The tables of the first release, which kept no counts and had no index."""


def record(session_id: SessionId = A) -> SessionRecord:
    return SessionRecord(id=session_id, cwd="/work", created_at=1.0, updated_at=1.0)


def entry(number: int, text: str = "hello") -> Entry:
    message = user(text) if number % 2 else assistant(text)
    return Entry(id=EntryId(number), at=float(number), body=MessageAdded(message=message))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "s.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(path)
    yield made
    await made.aclose()


async def filled(path: Path, *, entries: int, sessions: tuple[SessionId, ...] = (A,)) -> None:
    """Make a file and close it, so that all of it is in the one file."""
    store = SqliteStore(path)
    for session_id in sessions:
        await store.create(record(session_id))
        batch = [entry(number, f"{session_id}{number}. ") for number in range(1, entries + 1)]
        await store.append(session_id, batch)
    await store.aclose()


WITHOUT_TASKS = (
    "DROP TABLE tasks; DROP TABLE task_messages; DROP TABLE workers; DROP TABLE schedules;"
    " DROP TABLE blobs; DROP INDEX sessions_parent; ALTER TABLE sessions DROP COLUMN kind;"
    " ALTER TABLE leases DROP COLUMN epoch; ALTER TABLE leases DROP COLUMN silent_after"
)
"""What the fifth format added, taken away again."""
WITHOUT_BLOB_TIMES = "DROP INDEX tasks_snapshot; ALTER TABLE blobs DROP COLUMN stored_at"
"""What the sixth format added, taken away again."""
WITH_OLD_INDEX = (
    f"{WITHOUT_TASKS}; DROP TABLE documents; CREATE VIRTUAL TABLE words USING"
    " fts5(text, detail=none, columnsize=0, tokenize=ascii)"
)


def fingerprint(path: Path) -> dict[str, tuple[str, int]]:
    """Return what is in a folder, byte for byte, with the modes."""
    return {
        file.name: (sha256(file.read_bytes()).hexdigest(), file.stat().st_mode)
        for file in sorted(path.parent.iterdir())
    }


def old_file(path: Path, *, entries: int) -> list[Entry]:
    """Make a file as the first release made it."""
    path.parent.mkdir(parents=True)
    setup = SetupChanged(model=ModelFacts(name="gpt-4o"))
    written = [Entry(id=EntryId(1), at=1.0, body=setup)]
    written += [entry(number, f"thread {number}") for number in range(2, entries)]
    unknown = UnknownBody(b'{"kind":"later" }')
    written.append(Entry(id=EntryId(entries), at=9.0, schema=9, body=unknown))
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(VERSION_1)
        rows = [("a", "/work", "a name", 1.0, 8.0), ("b", "/else", "", 2.0, 3.0)]
        database.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", rows)
        lines = [("a", one.id, encode(one)) for one in written]
        database.executemany("INSERT INTO entries VALUES (?, ?, ?)", lines)
        database.commit()
    return written


async def test_the_file_is_private(store: SqliteStore, path: Path) -> None:
    await store.create(record())

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in path.parent.iterdir())


@pytest.mark.req("STO-2")
async def test_every_commit_is_written_ahead_and_flushed(store: SqliteStore) -> None:
    def settings(database: SqlConnection) -> tuple[str, int]:
        journal = database.execute("PRAGMA journal_mode").fetchone()[0]
        return journal, database.execute("PRAGMA synchronous").fetchone()[0]

    assert await store._database.read(settings) == ("wal", 2)


@pytest.mark.req("STO-4")
async def test_a_file_of_the_first_release_is_brought_up_to_date(
    store: SqliteStore, path: Path
) -> None:
    written = old_file(path, entries=1_500)

    found, entries = await store.load(A)

    assert entries == written
    assert found == StoredSession(
        id=A,
        cwd="/work",
        name="a name",
        created_at=1.0,
        updated_at=8.0,
        model="gpt-4o",
        title="thread 3",
        last_words="thread 1499",
        entries=1_500,
        messages=1_498,
        size=sum(len(encode(one)) for one in written),
    )
    assert [one.id for one in await store.sessions()] == [A, B]
    assert [hit.entry_id for hit in await store.search("thread 777")] == [777]
    await store.append(A, [entry(1_501)])
    async with Session(ScriptedProvider(["yes"]), model="m", store=store, session_id=A) as session:
        assert await session.run("still there?") == "yes"


@pytest.mark.req("STO-4")
async def test_a_file_without_snapshots_gets_room_for_them(path: Path) -> None:
    await filled(path, entries=5)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"DROP TABLE snapshots; {WITH_OLD_INDEX}; PRAGMA user_version = 2")
    store = SqliteStore(path)

    await store.save_snapshot(A, b"data")

    assert await store.snapshot(A) == b"data"
    assert (await store.record(A)).entries == 5
    await store.aclose()


@pytest.mark.req("STO-4")
@pytest.mark.slow("starts processes")
async def test_processes_that_open_an_older_file_at_once_bring_it_up_to_date(path: Path) -> None:
    await filled(path, entries=5)
    with closing(sqlite3.connect(path)) as database:
        held = "INSERT INTO leases VALUES (1, 'o', 1, '', 'm', 'h', 1.0, 1.0)"
        database.executescript(f"{WITHOUT_TASKS}; {held}; PRAGMA user_version = 4")
    with ExitStack() as stack:
        starters = [stack.enter_context(child(str(path), "begin")) for _ in range(4)]
        assert [line(starter) for starter in starters] == ["ready"] * 4
        for starter in starters:
            tell(starter)
        assert [line(starter) for starter in starters] == ["1"] * 4

    store = SqliteStore(path)
    await store.lease(A)
    await store.append(A, [entry(6)])
    assert await store.tasks.tasks() == []
    assert (await store.record(A)).kind == ""
    await store.aclose()


@pytest.mark.req("STO-4", "CMP-10")
async def test_a_file_with_an_older_index_is_searched_like_a_new_one(path: Path) -> None:
    await filled(path, entries=150)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            f"{WITH_OLD_INDEX}; UPDATE sessions SET name = 'Ariadne'; PRAGMA user_version = 3"
        )
    store = SqliteStore(path)

    found = await store.recall(parse_query("a77"), session_id=A)

    assert found.hits[0].unit.entry_id == 77
    assert [hit.session.id for hit in await store.search("ariadne")] == [A]
    await store.aclose()


@pytest.mark.req("CMP-10")
@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM documents_data",
        "UPDATE documents_data SET block = X'FFFFFFFFFFFFFFFF' WHERE id > 10",
        "UPDATE documents_data SET block = substr(block, 1, 9)",
        "UPDATE documents_data SET block = X'00000000000000' WHERE id = 10",
        "DELETE FROM documents",
    ],
)
async def test_a_damaged_index_is_built_again(path: Path, damage: str) -> None:
    await filled(path, entries=150)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(damage)
    store = SqliteStore(path)

    found = await store.recall(parse_query("a77"), session_id=A)

    assert found.hits[0].unit.entry_id == 77
    assert [hit.entry_id for hit in await store.search("a78")] == [78]
    await store.aclose()


@pytest.mark.req("CMP-10")
async def test_a_search_without_hits_leaves_a_sound_index_alone(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await filled(path, entries=150)
    store = SqliteStore(path)

    found = await store.recall(parse_query("minotaur"), session_id=A)

    assert not found.hits
    assert await store.search("minotaur") == []
    assert "damaged" not in caplog.text
    await store.aclose()


@pytest.mark.req("CMP-10")
async def test_sessions_without_messages_are_not_taken_for_a_damaged_index(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(path)
    setup = SetupChanged(model=ModelFacts(name="gpt-4o"))
    for number in range(20):
        session_id = SessionId(f"empty-{number}")
        await store.create(record(session_id))
        await store.append(session_id, [Entry(id=EntryId(1), at=1.0, body=setup)])

    assert await store.search("minotaur") == []
    assert "damaged" not in caplog.text
    await store.aclose()


@pytest.mark.req("CMP-10")
async def test_an_index_that_is_damaged_does_not_keep_entries_from_being_stored(
    path: Path,
) -> None:
    await filled(path, entries=5)
    with closing(sqlite3.connect(path)) as database:
        database.executescript("DELETE FROM documents_data")
    store = SqliteStore(path)

    await store.append(A, [entry(number, f"word{number}") for number in range(6, 100)])

    assert (await store.record(A)).entries == 99
    found = await store.recall(parse_query("word99"), session_id=A)
    assert [hit.unit.entry_id for hit in found.hits] == [99]
    await store.aclose()


@pytest.mark.req("STO-4")
async def test_a_migration_that_fails_leaves_the_old_file(store: SqliteStore, path: Path) -> None:
    written = old_file(path, entries=1_500)

    with file_size_limit(path.stat().st_size // 2), pytest.raises(StoreUnavailable):
        await store.sessions()

    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        assert database.execute("SELECT count(*) FROM entries").fetchone() == (1_500,)
    assert (await store.load(A))[1] == written


@pytest.mark.req("STO-4")
async def test_a_file_of_a_newer_release_is_left_alone(store: SqliteStore, path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE later (x)")
        database.execute("PRAGMA user_version = 99")
    path.chmod(0o640)
    before = fingerprint(path)

    with pytest.raises(StoreUnavailable, match="newer Clew"):
        await store.create(record())

    assert fingerprint(path) == before


async def test_a_database_of_another_program_is_left_alone(store: SqliteStore, path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE sessions (id TEXT)")
    before = fingerprint(path)

    with pytest.raises(StoreUnavailable, match="another program"):
        await store.create(record())

    assert fingerprint(path) == before


@pytest.mark.req("STO-2")
@pytest.mark.parametrize("what", ["no database", "truncated", "header garbled"])
async def test_a_file_that_is_damaged_is_named_and_left_alone(path: Path, what: str) -> None:
    await filled(path, entries=500)
    whole = path.read_bytes()
    path.write_bytes(
        {
            "no database": b"this is long enough to be taken for a database" * 200,
            "truncated": whole[: len(whole) // 2 + 100],
            "header garbled": b"\xff" * 100 + whole[100:],
        }[what]
    )
    before = fingerprint(path)
    store = SqliteStore(path)

    for work in (store.load(A), store.create(record(B)), store.append(A, [entry(501)])):
        with pytest.raises(StoreDamaged, match=r"s\.db is (damaged|no longer a database)"):
            await work
    await store.aclose()

    assert {name: fingerprint(path)[name] for name in before} == before


@pytest.mark.req("STO-2")
async def test_a_damaged_page_costs_what_is_on_it(path: Path) -> None:
    await filled(path, entries=600, sessions=(A, B))
    whole = path.read_bytes()
    page = whole.index(b"a300. ") // 4_096 * 4_096
    path.write_bytes(whole[:page] + b"\xff" * 4_096 + whole[page + 4_096 :])
    store = SqliteStore(path)

    with pytest.raises(StoreDamaged, match="--salvage"):
        await store.load(A)
    found, entries = await store.salvage(A)
    await store.append(B, [entry(601)])
    others = (await store.load(B))[1]
    await store.aclose()

    assert found.entries == 600
    assert 540 < len(entries) < 600
    assert all(one == entry(one.id, f"a{one.id}. ") for one in entries)
    assert 300 not in {one.id for one in entries}
    assert len(others) == 601


@pytest.mark.req("STO-2")
async def test_an_entry_that_cannot_be_read_is_reported_and_passed_over(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await store.create(record())
    await store.append(A, [entry(number) for number in range(1, 5)])
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE entries SET line = CAST('{\"id\":2,' AS BLOB) WHERE rowid % 4 = 2")
        database.commit()

    with caplog.at_level(logging.WARNING):
        _, entries = await store.load(A)

    assert find_damaged_ids(entries) == [2]
    assert entries[1].body == UnknownBody(b'{"id":2,')
    assert [entries[0], *entries[2:]] == [entry(1), entry(3), entry(4)]
    assert "entry 2 of session a" in caplog.text
    assert await store.search("hello")
    events: list[Event] = []
    async with Session(
        ScriptedProvider(["yes"]),
        model="m",
        store=store,
        session_id=A,
        event_bus=bus_for(events.append),
    ) as session:
        assert await session.run("still there?") == "yes"
    warnings = [event.text for event in events if isinstance(event, Warned)]
    assert "1 entry of this session is damaged and left out: #2" in warnings


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond `size`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def append_until_it_fails(store: SqliteStore) -> tuple[int, str]:
    """Return how many entries were taken, and why the next one was not."""
    await store.create(record())
    for number in range(1, 100_000):
        try:
            await store.append(A, [entry(number, "text " * 400)])
        except StoreUnavailable as error:
            return number - 1, str(error)
    raise AssertionError("it never failed")


@pytest.mark.req("STO-2")
async def test_a_file_that_may_not_grow_loses_nothing(store: SqliteStore) -> None:
    with file_size_limit(400_000):
        taken, why = await append_until_it_fails(store)

        assert "s.db cannot be used" in why
        assert len((await store.load(A))[1]) == taken > 10

    await store.append(A, [entry(taken + 1)])
    assert (await store.record(A)).entries == taken + 1


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Make `folder` a disk of one megabyte; skips the test where that is not allowed."""
    folder.mkdir(parents=True)
    if not mount("-t", "tmpfs", "-o", "size=1m", "clew-test", str(folder)):
        pytest.skip("this user may not mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def mount(*arguments: str) -> bool:
    return not subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode


@pytest.mark.req("STO-2")
async def test_a_full_disk_is_named_and_loses_nothing(path: Path) -> None:
    with small_disk(path.parent):
        ballast = path.with_name("ballast")
        ballast.write_bytes(bytes(300_000))
        store = SqliteStore(path)
        taken, why = await append_until_it_fails(store)
        stored = (await store.load(A))[1]
        ballast.unlink()

        await store.append(A, [entry(taken + 1)])

        assert "full" in why
        assert len(stored) == taken > 10
        assert (await store.record(A)).entries == taken + 1
        await store.aclose()


@pytest.mark.req("STO-2")
async def test_a_full_disk_does_not_end_a_session(path: Path) -> None:
    with small_disk(path.parent):
        store = SqliteStore(path)
        ballast = path.with_name("ballast")
        provider = ScriptedProvider(["one", "two", "three"])
        async with Session(provider, model="m", store=store) as session:
            await session.run("first")
            ballast.write_bytes(bytes(shutil.disk_usage(path.parent).free))

            with pytest.raises(StoreUnavailable, match="full"):
                await session.run("second " * 10_000)
            ballast.unlink()

            await session.run("third")
            assert (await store.load(session.session_id))[1] == session.journal.entries
        await store.aclose()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write to `folder`; root, who may do anything, is kept out by a mount."""
    if os.geteuid():
        folder.chmod(0o500)
        yield
        folder.chmod(0o700)
    elif mount("--bind", "-o", "ro", str(folder), str(folder)):
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
    else:
        pytest.skip("this system does not let root mount anything")


@pytest.mark.req("STO-2")
async def test_a_place_that_may_only_be_read_is_named(path: Path) -> None:
    await filled(path, entries=5)
    before = fingerprint(path)
    store = SqliteStore(path)

    with read_only(path.parent):
        with pytest.raises(StoreUnavailable, match=r"s\.db cannot be used"):
            await store.append(A, [entry(6)])
        assert fingerprint(path) == before

    await store.append(A, [entry(6)])
    assert (await store.record(A)).entries == 6
    await store.aclose()


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with pytest.raises(StoreUnavailable, match="cannot be made"):
        await SqliteStore(tmp_path / "file" / "s.db").sessions()


async def test_a_file_that_was_deleted_while_in_use_is_missed(
    store: SqliteStore, path: Path
) -> None:
    await store.create(record())
    for file in path.parent.iterdir():
        file.unlink()

    with pytest.raises(StoreUnavailable, match="moved or deleted"):
        await store.append(A, [entry(1)])
    with pytest.raises(SessionNotFound):
        await store.append(A, [entry(1)])


@pytest.mark.req("STO-2")
async def test_a_clock_that_goes_back_changes_no_order(store: SqliteStore) -> None:
    await store.create(record())
    for number, at in enumerate((100.0, 50.0, 1.0), 1):
        one = Entry(id=EntryId(number), at=at, body=entry(number).body)
        await store.append(A, [one])

    found, entries = await store.load(A)

    assert [one.id for one in entries] == [1, 2, 3]
    assert found.updated_at == 100.0


@pytest.mark.req("STO-3")
async def test_a_turn_writes_no_more_because_the_history_is_long(store: SqliteStore) -> None:
    await store.create(record())

    async def written(first: int, last: int) -> int:
        before = _bytes_written()
        for number in range(first, last + 1):
            await store.append(A, [entry(number, f"a word and word{number} " * 10)])
        return _bytes_written() - before

    early = await written(1, 256)
    await store.append(A, [entry(number, "more " * 40) for number in range(257, 8_001)])
    late = await written(8_001, 8_256)

    assert late < early * 1.5


def _bytes_written() -> int:
    facts = Path("/proc/self/io")
    if not facts.exists():
        pytest.skip("this system does not tell what a process writes")
    lines = dict(line.split(": ") for line in facts.read_text(encoding="utf-8").splitlines())
    return int(lines["wchar"])


async def test_a_deleted_session_leaves_no_trace_in_the_file(
    store: SqliteStore, path: Path
) -> None:
    await store.create(record(B))
    await store.create(record())
    secret = [entry(number, f"xyzzy{number} ") for number in range(1, 200)]
    await store.append(A, secret)
    await store.rename(A, "xyzzy")
    assert await store.search("xyzzy7")

    await store.delete(A)

    assert not [file for file in path.parent.iterdir() if b"xyzzy" in file.read_bytes()]
    assert [one.id for one in await store.sessions()] == [B]


async def test_the_index_of_words_follows_by_itself_in_batches(store: SqliteStore) -> None:
    def indexed(database: SqlConnection) -> int:
        found: tuple[int] = database.execute("SELECT indexed FROM sessions").fetchone()
        return found[0]

    await store.create(record())
    for number in range(1, 64):
        await store.append(A, [entry(number, f"word{number}")])
    assert await store._database.read(indexed) == 0
    assert [hit.entry_id for hit in await store.search("word63")] == [63]
    assert await store._database.read(indexed) == 63

    await store.append(A, [entry(number, f"word{number}") for number in range(64, 1_200)])

    assert await store._database.read(indexed) == 1_199
    assert [hit.entry_id for hit in await store.search("word1199")] == [1_199]


@pytest.mark.req("STO-3")
async def test_another_process_may_read_while_one_writes(store: SqliteStore, path: Path) -> None:
    await store.create(record())
    await store.append(A, [entry(1)])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    assert (await store.load(A))[1] == [entry(1)]
    assert [one.id for one in await store.sessions()] == [A]

    other.close()


# --- damaged records ---------------------------------------------------------------------------


@pytest.mark.req("STO-2")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sessions SET extra = X'00'",
        "UPDATE sessions SET extra = X'5B5D'",
        "UPDATE sessions SET name = CAST(X'FF9B' AS TEXT), cwd = CAST(X'80' AS TEXT)",
        "UPDATE entries SET line = X'FF' WHERE place & 1",
        "UPDATE sessions SET last = 1 << 60",
    ],
)
async def test_a_session_with_a_damaged_record_can_be_listed_and_saved(
    tmp_path: Path, change: str
) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    async with Session(
        ScriptedProvider(["one", "two"]), model="m", store=store, session_id="aaaa11112222"
    ) as session:
        await session.run("first")
        await session.run("second")
    await store.aclose()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        connection.commit()
    store = SqliteStore(path)

    (listed,) = await store.sessions()
    record, entries = await store.salvage(SessionId("aaaa11112222"))
    await store.aclose()

    assert listed.id == record.id == "aaaa11112222"
    assert len(list(entries)) == listed.entries


@pytest.mark.req("STO-4")
async def test_blobs_of_a_file_without_their_times_are_old(path: Path) -> None:
    store = SqliteStore(path)
    name = await store.tasks.put_blob(b"bundle")
    await store.aclose()
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"{WITHOUT_BLOB_TIMES}; PRAGMA user_version = 5")
    store = SqliteStore(path)

    [unused] = await store.tasks.find_unused_blobs()

    assert unused.name == name
    assert await store.tasks.get_blob(name) == b"bundle"
    await store.aclose()
