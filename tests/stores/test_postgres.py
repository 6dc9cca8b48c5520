"""Sessions in PostgreSQL, and what may happen to the server."""

from collections.abc import AsyncIterator
from contextlib import ExitStack

import anyio
import psycopg
import pytest
from msgspec.structs import replace

from clew.core.entries import Entry, MessageAdded, SessionRecord
from clew.core.errors import ConfigError, SessionBusy, StoreUnavailable
from clew.core.ids import EntryId, SessionId
from clew.core.messages import user
from clew.providers.scripted import ScriptedProvider
from clew.sdk.session_store import separate_address
from clew.session.session import Session
from clew.stores.leases import LEASE_TIMEOUT, SessionHeld
from clew.stores.postgres import PostgresDatabase, PostgresStore
from tests.stores.postgres import Server
from tests.stores.store_child import child, line, tell

pytestmark = pytest.mark.anyio

A = SessionId("a")
RECORD = SessionRecord(id=A, cwd="/work", created_at=1.0, updated_at=1.0)


def entry(number: int, text: str = "hello") -> Entry:
    return Entry(id=EntryId(number), at=1.0, body=MessageAdded(message=user(text)))


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.fresh()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    made = PostgresStore(url)
    yield made
    await made.aclose()


def cut_connections(url: str) -> None:
    """End every other connection to the database, as a failing network would."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def test_a_process_that_is_stopped_in_a_transaction_does_not_hold_its_locks(
    store: PostgresStore, url: str
) -> None:
    """The server ends the transaction, so that others can take over the session."""
    await store.create(RECORD)

    database = PostgresDatabase(url, size=1)
    with psycopg.connect(url) as other, database._connection() as ours:
        found = ours.execute("SHOW idle_in_transaction_session_timeout").fetchone()
        default = other.execute("SHOW idle_in_transaction_session_timeout").fetchone()

    await database.aclose()
    assert (found, default) == (("10s",), ("0",))


@pytest.mark.req("STO-2")
async def test_a_broken_connection_costs_one_call(store: PostgresStore, url: str) -> None:
    await store.create(RECORD)
    await store.append(A, [entry(1)])
    cut_connections(url)

    with pytest.raises(StoreUnavailable, match="cannot be used"):
        await store.append(A, [entry(2)])
    await store.append(A, [entry(2)])

    assert (await store.load(A))[1] == [entry(1), entry(2)]


@pytest.mark.req("STO-2")
async def test_many_broken_connections_cost_one_call_too(store: PostgresStore, url: str) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(store.sessions)
    cut_connections(url)

    with pytest.raises(StoreUnavailable):
        await store.sessions()

    assert await store.sessions() == []


@pytest.mark.req("STO-2", "SES-3")
async def test_a_session_goes_on_after_the_server_was_away(
    postgres: Server, store: PostgresStore
) -> None:
    provider = ScriptedProvider(["one", "two"])
    async with Session(provider, model="m", store=store) as session:
        await session.run("first")
        postgres.control("-m", "immediate", "stop")
        try:
            with pytest.raises(StoreUnavailable, match="cannot be used"):
                await session.run("second")
            with pytest.raises(StoreUnavailable, match="cannot be used"):
                await session.run("still away")
        finally:
            postgres.start()

        assert await session.run("third") == "two"

        said = [message.text for message in session.get_history()]
        assert said[:2] == ["first", "one"]
        assert said[-2:] == ["third", "two"]
        assert (await store.load(session.session_id))[1] == session.journal.entries


@pytest.mark.req("STO-2")
async def test_what_cannot_be_reached_is_named_without_its_password() -> None:
    store = PostgresStore("postgresql://ann:s3cret@127.0.0.1:1/sessions")

    with pytest.raises(StoreUnavailable) as refused:
        await store.sessions()

    assert "sessions on 127.0.0.1" in str(refused.value)
    assert "s3cret" not in str(refused.value)
    await store.aclose()


def test_a_url_that_is_none_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ConfigError, match="URL of the session store"):
        PostgresStore("postgresql://host/db?no-such-option=1")


def remove_tasks(url: str) -> None:
    """Take away what the fourth format of the tables added."""
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE clew_tasks, clew_task_messages, clew_workers")
        connection.execute("DROP TABLE clew_schedules, clew_blobs, clew_replicas")
        connection.execute("DROP INDEX clew_sessions_parent")
        connection.execute("ALTER TABLE clew_sessions DROP COLUMN kind")
        connection.execute("ALTER TABLE clew_leases DROP COLUMN epoch, DROP COLUMN silent_after")
        connection.execute("UPDATE clew_schema SET version = 3")


@pytest.mark.req("STO-4")
@pytest.mark.slow("starts processes")
async def test_processes_that_open_older_tables_at_once_bring_them_up_to_date(
    store: PostgresStore, url: str
) -> None:
    await store.create(RECORD)
    remove_tasks(url)
    with ExitStack() as stack:
        starters = [stack.enter_context(child(url, "begin")) for _ in range(4)]
        assert [line(starter) for starter in starters] == ["ready"] * 4
        for starter in starters:
            tell(starter)
        assert [line(starter) for starter in starters] == ["1"] * 4

    await store.lease(A)
    await store.append(A, [entry(1)])
    assert await store.tasks.tasks() == []


@pytest.mark.req("STO-4")
async def test_tables_of_an_older_release_are_brought_up_to_date(
    store: PostgresStore, url: str
) -> None:
    await store.create(RECORD)
    await store.append(A, [entry(1)])
    remove_tasks(url)
    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE clew_snapshots, clew_documents")
        connection.execute("ALTER TABLE clew_sessions DROP COLUMN indexed")
        connection.execute("ALTER TABLE clew_entries ADD COLUMN words TSVECTOR NOT NULL DEFAULT ''")
        connection.execute("UPDATE clew_schema SET version = 1")
    newer = PostgresStore(url)

    await newer.save_snapshot(A, b"data")

    assert await newer.snapshot(A) == b"data"
    assert list((await newer.load(A))[1]) == [entry(1)]
    await newer.append(A, [entry(2, "a thread")])
    assert [hit.entry_id for hit in await newer.search("thread")] == [2]
    await newer.aclose()


@pytest.mark.req("STO-4")
async def test_tables_of_a_newer_release_are_left_alone(store: PostgresStore, url: str) -> None:
    await store.create(RECORD)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE clew_schema SET version = 99")
    newer = PostgresStore(url)

    for work in (newer.sessions(), newer.append(A, [entry(1)])):
        with pytest.raises(StoreUnavailable, match="newer Clew"):
            await work
    await newer.aclose()

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT version FROM clew_schema").fetchone() == (99,)
        assert connection.execute("SELECT count(*) FROM clew_entries").fetchone() == (0,)


async def test_tables_live_beside_those_of_others(postgres: Server, url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE sessions (id TEXT)")
        connection.execute("CREATE SCHEMA apart")
    beside = PostgresStore(url)
    apart = PostgresStore(f"{url}&options=-csearch_path%3Dapart")

    await beside.create(RECORD)

    assert await apart.sessions() == []
    await apart.create(RECORD)
    await beside.aclose()
    await apart.aclose()


@pytest.mark.req("SRV-3")
async def test_each_user_of_a_server_has_a_schema_that_is_made_when_needed(url: str) -> None:
    ann, bob = (PostgresStore(separate_address(url, name, {})) for name in ("ann-1", "bob-2"))

    await ann.create(RECORD)

    assert await bob.sessions() == []
    assert [record.id for record in await ann.sessions()] == [RECORD.id]
    await ann.aclose()
    await bob.aclose()


@pytest.mark.req("STO-4")
async def test_a_holder_elsewhere_is_dead_by_the_clock_of_the_server(
    store: PostgresStore, url: str
) -> None:
    elsewhere = PostgresStore(url)
    elsewhere._leases.holder = replace(
        elsewhere._leases.holder, machine="elsewhere", host="far", pid=1
    )
    await store.create(RECORD)
    await elsewhere.lease(A)

    def let_pass(seconds: float) -> None:
        with psycopg.connect(url) as connection:
            connection.execute(
                "UPDATE clew_leases SET beat = beat - make_interval(secs => %s)", (seconds,)
            )

    let_pass(LEASE_TIMEOUT - 10)
    with pytest.raises(SessionHeld, match="process 1 on far"):
        await store.lease(A)
    elsewhere._leases.renew()
    let_pass(LEASE_TIMEOUT - 10)
    with pytest.raises(SessionHeld):
        await store.lease(A)
    let_pass(20)
    await store.lease(A)

    with pytest.raises(SessionBusy):
        await elsewhere.append(A, [entry(1)])
    await elsewhere.aclose()
    await store.append(A, [entry(1)])


async def test_a_store_is_closed_although_the_server_is_away(
    postgres: Server, store: PostgresStore
) -> None:
    await store.create(RECORD)
    await store.lease(A)
    postgres.control("-m", "immediate", "stop")

    with anyio.fail_after(60):
        store._leases.renew()
        await store.aclose()

    postgres.start()
    await store.append(A, [entry(1)])


async def test_calls_run_beside_each_other(store: PostgresStore) -> None:
    for number in range(8):
        await store.create(replace(RECORD, id=SessionId(str(number))))

    async def write(session_id: SessionId) -> None:
        for number in range(1, 21):
            await store.append(session_id, [entry(number)])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(write, SessionId(str(number)))

    assert [record.entries for record in await store.sessions()] == [20] * 8
