"""What every store must do, shown on all of them; with real processes where that matters."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from clew.context.recall.query import parse_query
from clew.core.errors import MissingExtra, SessionBusy
from clew.providers.scripted import ScriptedProvider
from clew.session.session import Session
from clew.stores import open_store
from clew.stores.leases import SessionHeld
from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store
from clew.testing.recall import RECALL_CHECKS
from clew.testing.shared_stores import SHARED_STORE_CHECKS, SharedStoreCheck
from clew.testing.stores import STORE_CHECKS, StoreCheck
from tests.stores.store_child import RECORD, SHARED, child, entry, line, tell

pytestmark = pytest.mark.anyio

KILLS = 8


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store that processes share is kept."""
    if request.param == "sqlite":
        return str(tmp_path / "s.db")
    url: str = request.getfixturevalue("postgres").fresh()
    return url


@pytest.fixture
async def stores(place: str) -> AsyncIterator[tuple[Store, Store]]:
    """Two stores in one place."""
    async with AsyncExitStack() as stack:
        one, other = open_store(place), open_store(place)
        stack.push_async_callback(one.aclose)
        stack.push_async_callback(other.aclose)
        yield one, other


def kill_unburied(process: "subprocess.Popen[str]") -> None:
    """Kill a process and leave it be: to the system it is still there, if as a dead one."""
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.req("STO-1")
@pytest.mark.parametrize("check", [*STORE_CHECKS, *RECALL_CHECKS], ids=lambda check: check.__name__)
async def test_a_store_in_memory_keeps_the_contract(check: StoreCheck) -> None:
    await check(MemoryStore())


@pytest.mark.req("STO-1")
@pytest.mark.parametrize("check", [*STORE_CHECKS, *RECALL_CHECKS], ids=lambda check: check.__name__)
async def test_the_store_keeps_the_contract(stores: tuple[Store, Store], check: StoreCheck) -> None:
    await check(stores[0])


@pytest.mark.req("STO-1", "STO-4")
@pytest.mark.parametrize("check", SHARED_STORE_CHECKS, ids=lambda check: check.__name__)
async def test_two_stores_in_one_place_keep_the_contract(
    stores: tuple[Store, Store], check: SharedStoreCheck
) -> None:
    await check(*stores)


@pytest.mark.req("CMP-10")
async def test_a_search_finds_what_another_store_appended_and_did_not_index_yet(
    stores: tuple[Store, Store],
) -> None:
    writer, reader = stores
    await writer.create(RECORD)
    for number in range(1, 71):
        await writer.append(SHARED, [entry(number, f"item{number} of the list")])
        if number in (1, 40, 70):
            for asked in (1, number // 2 + 1, number):
                found = await reader.recall(parse_query(f"item{asked}"), session_id=SHARED)
                assert [hit.unit.entry_id for hit in found.hits] == [asked]


@pytest.mark.req("STO-4")
@pytest.mark.slow("starts a process")
async def test_a_second_process_is_told_who_writes(place: str, stores: tuple[Store, Store]) -> None:
    store, _ = stores
    await store.create(RECORD)
    await store.append(SHARED, [entry(1)])

    with child(place, "hold") as holder:
        assert line(holder) == "held"
        with pytest.raises(SessionHeld, match=f"process {holder.pid} on") as refused:
            async with Session(ScriptedProvider([]), model="m", store=store, session_id=SHARED):
                pass
        assert refused.value.holder.pid == holder.pid
        assert refused.value.holder.since > 1_600_000_000


@pytest.mark.req("STO-2", "STO-4")
@pytest.mark.slow("starts processes")
async def test_the_lease_of_a_killed_process_is_taken_over(
    place: str, stores: tuple[Store, Store]
) -> None:
    store, other = stores
    await store.create(RECORD)
    with child(place, "hold") as holder:
        assert line(holder) == "held"

        kill_unburied(holder)
        await store.lease(SHARED)

    await store.append(SHARED, [entry(1)])
    with pytest.raises(SessionBusy, match=f"process {os.getpid()}"):
        await other.append(SHARED, [entry(2)])


@pytest.mark.req("STO-4")
@pytest.mark.slow("starts processes")
async def test_of_processes_that_race_for_a_lease_exactly_one_wins(
    place: str, stores: tuple[Store, Store]
) -> None:
    await stores[0].create(RECORD)
    with child(place, "hold") as dead:
        assert line(dead) == "held"

    for _ in range(3):
        with child(place, "race") as a, child(place, "race") as b, child(place, "race") as c:
            racers = (a, b, c)
            assert [line(racer) for racer in racers] == ["ready"] * 3
            for racer in racers:
                tell(racer)

            assert sorted(line(racer) for racer in racers) == ["lost", "lost", "won"]


@pytest.mark.req("STO-2")
@pytest.mark.slow("starts processes")
async def test_what_a_killed_process_had_written_is_there(
    place: str, stores: tuple[Store, Store]
) -> None:
    store, _ = stores
    await store.create(RECORD)
    moments = random.Random(6)
    acknowledged = 0

    for _ in range(KILLS):
        with child(place, "write") as writer:
            assert writer.stdout is not None
            for _ in range(moments.randrange(1, 12)):
                acknowledged = int(line(writer))
            writer.kill()
            rest = writer.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        record, entries = await store.load(SHARED)

        assert acknowledged <= len(entries) <= acknowledged + 1
        assert [one.id for one in entries] == list(range(1, len(entries) + 1))
        assert (record.entries, record.messages) == (len(entries), len(entries))
        acknowledged = len(entries)
    hits = await store.search(f"word{acknowledged}")
    assert [(hit.session.id, hit.entry_id) for hit in hits] == [(SHARED, acknowledged)]


@pytest.mark.req("STO-4")
@pytest.mark.slow("starts processes")
async def test_processes_that_begin_at_once_make_one_store(place: str) -> None:
    async with AsyncExitStack() as stack:
        starters = [stack.enter_context(child(place, "begin")) for _ in range(4)]
        assert [line(starter) for starter in starters] == ["ready"] * 4
        for starter in starters:
            tell(starter)

        assert [line(starter) for starter in starters] == ["0"] * 4


@pytest.mark.req("STO-3")
async def test_a_session_goes_on_in_another_store_and_forks(stores: tuple[Store, Store]) -> None:
    one, other = stores
    async with Session(ScriptedProvider(["first"]), model="m", store=one) as session:
        await session.run("hello")
        session_id = session.session_id
    await one.aclose()

    fork = await other.fork(session_id)
    for go_on_with in (session_id, fork.id):
        async with Session(
            ScriptedProvider(["again"]), model="m", store=other, session_id=go_on_with
        ) as session:
            await session.run("and now")
            assert [message.text for message in session.get_history()] == [
                *("hello", "first", "and now", "again")
            ]


async def test_the_place_tells_the_kind_of_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    assert type(open_store(tmp_path / "s.db")) is type(open_store("~/s.db"))
    with pytest.raises(MissingExtra, match=r"clew\[postgres\]"):
        open_store("postgresql://host/db")
