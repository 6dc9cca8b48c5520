"""A journal that is opened from a snapshot is the journal, and is opened without reading it."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.estimate import text_units
from clew.core.entries import (
    Body,
    Charged,
    Cleared,
    Entry,
    MessageAdded,
    SessionRecord,
    SetupChanged,
    Undone,
)
from clew.core.errors import StoreUnavailable
from clew.core.events import Event, Warned
from clew.core.ids import EntryId, SessionId
from clew.core.messages import assistant, user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.scripted import ScriptedProvider
from clew.session.journal import Journal
from clew.session.journal_snapshot import encode_snapshot, restore_state
from clew.session.journal_state import is_snapshot_due, load_state
from clew.session.session import Session
from clew.stores.memory import MemoryStore
from clew.stores.sqlite import SqliteStore
from tests.event_buses import bus_for
from tests.histories import entries_of, histories, turns

pytestmark = pytest.mark.anyio

A = SessionId("a")
RECORD = SessionRecord(id=A, cwd="/work", created_at=1.0, updated_at=1.0)
USAGE = Usage(input_tokens=50, output_tokens=5)


def conversation(length: int) -> list[Body]:
    bodies: list[Body] = [SetupChanged(model=ModelFacts(name="m"))]
    for number in range(length // 2):
        bodies.append(MessageAdded(message=user(f"question {number}")))
        bodies.append(MessageAdded(message=assistant(f"answer {number}"), usage=USAGE, cost=0.01))
    return bodies


def same(one: Journal, other: Journal) -> bool:
    return (
        one.entries == other.entries
        and one.view == other.view
        and one.spending == other.spending
        and one.call_ids == other.call_ids
    )


class Watched(MemoryStore):
    """Counts snapshots, and can refuse them or lose them."""

    def __init__(self) -> None:
        super().__init__()
        self.saved = 0
        self.bytes = 0
        self.refuses = False
        self.forgets = False

    async def save_snapshot(self, session_id: SessionId, data: bytes) -> None:
        """Keep it, if allowed."""
        if self.refuses:
            raise StoreUnavailable("no room")
        self.saved += 1
        self.bytes += len(data)
        await super().save_snapshot(session_id, data)

    async def snapshot(self, session_id: SessionId) -> bytes | None:
        """Return it, if it is still there."""
        return None if self.forgets else await super().snapshot(session_id)


async def begun(store: MemoryStore | SqliteStore, bodies: Sequence[Body]) -> None:
    """Write a session, open it once and close it, which leaves a snapshot."""
    await store.create(RECORD)
    await store.append(A, entries_of(bodies))
    await (await Journal.reopen(store, A)).aclose()


@pytest.mark.req("STO-3")
@given(histories(min_turns=3, max_turns=6), st.lists(turns(), max_size=2), st.data())
def test_it_makes_no_difference_whether_a_journal_comes_from_a_snapshot(
    entries: list[Entry], later: list[list[MessageAdded]], data: st.DataObject
) -> None:
    whole = load_state(entries, text_units)
    snapshot = encode_snapshot(whole.view, whole.spending, whole.call_ids, entries)
    more: list[Body] = [body for turn in later for body in turn]
    clears, undoes = data.draw(st.booleans()), data.draw(st.booleans())
    if clears:
        more += [Charged(why="a summary", cost=0.5), Cleared()]
    if more and undoes:
        more.append(Undone(target=EntryId(len(entries) + len(more))))
    longer = [*entries, *entries_of(more, start=len(entries) + 1)]

    from_snapshot, from_entries = (
        restore_state(longer, text_units, snapshot),
        load_state(longer, text_units),
    )

    assert from_snapshot.spending == from_entries.spending
    assert from_snapshot.call_ids == from_entries.call_ids
    assert from_snapshot.view == from_entries.view
    assert from_snapshot.kept in (0, len(entries))


@pytest.mark.req("STO-3")
async def test_a_long_session_is_opened_without_reading_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    await begun(store, conversation(2_000))
    await store.append(A, entries_of([MessageAdded(message=user("new"))], start=2_002))

    journal = await Journal.reopen(store, A)

    assert len(journal.view.items) == 2_001
    assert journal.spending.calls == 1_000
    assert [index for index, _ in journal.entries.iter_made()] == [2_001]
    await store.aclose()


@pytest.mark.req("STO-3")
async def test_a_resumed_session_sends_what_it_would_have_sent() -> None:
    requests = []
    for forgets in (False, True):
        store = Watched()
        await begun(store, conversation(200))
        store.forgets = forgets
        provider = ScriptedProvider(["yes", "and more"])
        async with Session(provider, model="m", store=store, session_id=A) as session:
            await session.run("still there?")
            await session.run("and now?")
            assert len(session.get_history()) == 204
            assert session.search("question 77")[0].id == 156
        requests.append(provider.requests)

    assert requests[0] == requests[1]


async def test_after_every_change_the_journal_is_what_its_entries_say() -> None:
    store = Watched()
    await begun(store, conversation(200))
    journal = await Journal.reopen(store, A)
    for body in (
        Cleared(),
        MessageAdded(message=user("anew")),
        Undone(target=EntryId(202)),
        MessageAdded(message=assistant("again"), usage=USAGE),
    ):
        await journal.append(body)
        store.forgets = True
        assert same(journal, await Journal.reopen(store, A))
        store.forgets = False


@pytest.mark.parametrize("snapshot", [b"", b"\xc1", b"\x80", b"torn"])
async def test_a_snapshot_that_cannot_be_read_is_passed_over(snapshot: bytes) -> None:
    store = Watched()
    await begun(store, conversation(10))
    await store.save_snapshot(A, snapshot)

    assert len((await Journal.reopen(store, A)).view.items) == 10


def test_a_snapshot_of_another_release_or_of_more_entries_is_passed_over() -> None:
    entries = entries_of(conversation(10))
    standing = load_state(entries, text_units)
    snapshot = encode_snapshot(standing.view, standing.spending, standing.call_ids, entries)
    fields = msgspec.msgpack.decode(snapshot)

    assert restore_state(entries, text_units, snapshot).kept == 11
    assert restore_state(entries[:-1], text_units, snapshot).kept == 0
    assert restore_state(entries, len, snapshot).kept == 0
    other = msgspec.msgpack.encode({**fields, "release": "0.0.1"})
    assert restore_state(entries, text_units, other).kept == 0


@pytest.mark.req("STO-3")
async def test_snapshots_cost_each_entry_the_same_however_long_the_session() -> None:
    store = Watched()
    journal = await Journal.open(store, cwd=Path("/work"))
    spent: list[int] = []
    for number in range(1, 16_001):
        await journal.append(MessageAdded(message=user("a word")))
        if number in (8_000, 16_000):
            spent.append(store.bytes // number)

    assert spent[1] < spent[0] * 1.5 < 100
    assert 5 < store.saved < 40


def test_a_snapshot_is_due_when_an_eighth_is_new() -> None:
    assert not is_snapshot_due(511, 0)
    assert is_snapshot_due(512, 0)
    assert not is_snapshot_due(16_999, 15_000)
    assert is_snapshot_due(17_200, 15_000)


async def test_a_session_goes_on_without_a_snapshot(caplog: pytest.LogCaptureFixture) -> None:
    store = Watched()
    store.refuses = True

    with anyio.fail_after(60):
        await begun(store, conversation(600))
        journal = await Journal.reopen(store, A)
        for _ in range(3):
            await journal.append(MessageAdded(message=user("go on")))
        await journal.aclose()

    assert "the snapshot of session a could not be stored: no room" in caplog.text
    assert (await store.record(A)).entries == 604


async def test_a_journal_that_cannot_have_a_snapshot_has_none() -> None:
    store = Watched()
    gap = [*entries_of(conversation(200)), *entries_of(conversation(2), start=300)]
    await store.create(RECORD)
    await store.append(A, gap)

    await (await Journal.reopen(store, A)).aclose()

    assert store.saved == 0


@pytest.mark.req("STO-2")
async def test_a_message_that_is_damaged_after_the_snapshot_is_not_the_end(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    await begun(store, conversation(200))
    await store.aclose()
    with sqlite3.connect(tmp_path / "s.db") as database:
        line = "CAST(line AS TEXT) LIKE '%question 77%'"
        assert database.execute(f"UPDATE entries SET line = x'00' WHERE {line}").rowcount == 1
    database.close()

    store, provider = SqliteStore(tmp_path / "s.db"), ScriptedProvider(["yes"])
    warnings: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Warned):
            warnings.append(event.text)

    session = Session(provider, model="m", store=store, session_id=A, event_bus=bus_for(hear))
    async with session:
        assert await session.run("still there?") == "yes"

    sent = [message.text for message in provider.requests[0].messages]
    assert len(sent) == 200
    assert "question 77" not in sent
    assert sent[154] == "answer 77"
    assert any("#156" in text for text in warnings), warnings
    await store.aclose()
