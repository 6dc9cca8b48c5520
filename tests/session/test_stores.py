"""Every store keeps one contract; the file survives what files go through."""

import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.core.entries import Entry, MessageAdded, SessionRecord
from clew.core.errors import SessionBusy, StoreDamaged, StoreUnavailable
from clew.core.ids import EntryId, SessionId
from clew.core.messages import user
from clew.session.stores.memory import MemoryStore
from clew.session.stores.protocol import Store
from clew.session.stores.sqlite import SqliteStore
from clew.testing.stores import STORE_CHECKS, Check

pytestmark = pytest.mark.anyio

RECORD = SessionRecord(id=SessionId("a"), cwd="/work", created_at=1.0, updated_at=1.0)


def entry(number: int) -> Entry:
    return Entry(id=EntryId(number), at=1.0, body=MessageAdded(message=user("hello")))


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    yield made
    await made.aclose()


@pytest.mark.req("STO-1")
@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
async def test_the_store_keeps_the_contract(store: Store, check: Check) -> None:
    await check(store)


@pytest.mark.req("STO-1")
async def test_what_was_appended_is_there_for_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "s.db"
    first = SqliteStore(path)
    await first.create(RECORD)
    await first.append(RECORD.id, [entry(1)])
    second = SqliteStore(path)

    assert (await second.load(RECORD.id))[1] == [entry(1)]

    await first.aclose()
    await second.aclose()


async def test_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "s.db"
    store = SqliteStore(path)
    await store.create(RECORD)
    await store.aclose()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.req("STO-4")
async def test_the_second_of_two_writers_is_told_so(tmp_path: Path) -> None:
    one, two = SqliteStore(tmp_path / "s.db"), SqliteStore(tmp_path / "s.db")
    await one.create(RECORD)
    await one.append(RECORD.id, [entry(1)])

    with pytest.raises(SessionBusy, match="another process"):
        await two.append(RECORD.id, [entry(1)])

    await one.aclose()
    await two.aclose()


@pytest.mark.req("STO-4")
async def test_a_file_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()

    with pytest.raises(StoreUnavailable, match="newer Clew"):
        await SqliteStore(path).sessions()


async def test_a_file_that_is_no_database_is_named_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"this is not a database, but it is long enough to be taken for one" * 20)

    with pytest.raises(StoreDamaged, match=r"s\.db is damaged"):
        await SqliteStore(path).sessions()

    assert path.read_bytes().startswith(b"this is not")


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with pytest.raises(StoreUnavailable, match="cannot be made"):
        await SqliteStore(tmp_path / "file" / "s.db").sessions()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a read-only file system")
async def test_a_place_that_cannot_be_written_to_is_named() -> None:
    with pytest.raises(StoreUnavailable, match="cannot be made"):
        await SqliteStore(Path("/proc/clew/s.db")).sessions()
