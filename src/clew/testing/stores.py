"""What every store must do, as checks that anyone can run on their own.

@pytest.mark.anyio
@pytest.mark.parametrize("check", STORE_CHECKS)
async def test_my_store_keeps_the_contract(check):
    await check(MyStore())
"""

from collections.abc import Awaitable, Callable

from clew.core.entries import Entry, MessageAdded, SessionRecord, UnknownBody
from clew.core.errors import SessionBusy, SessionNotFound
from clew.core.ids import EntryId, SessionId
from clew.core.messages import user
from clew.session.stores.protocol import Store

Check = Callable[[Store], Awaitable[None]]


def _record(name: str, at: float = 1.0) -> SessionRecord:
    return SessionRecord(id=SessionId(name), cwd="/work", created_at=at, updated_at=at)


def _entry(number: int, text: str = "hello", at: float = 2.0) -> Entry:
    return Entry(id=EntryId(number), at=at, body=MessageAdded(message=user(text)))


async def _fails_with(error: type[Exception], work: Awaitable[object]) -> None:
    try:
        await work
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


async def keeps_entries_in_order(store: Store) -> None:
    """Entries come back equal, in the order of their ids."""
    await store.create(_record("a"))
    entries = [_entry(number, f"words {number} 計算") for number in range(1, 25)]
    await store.append(SessionId("a"), entries[:10])
    for entry in entries[10:]:
        await store.append(SessionId("a"), [entry])

    record, loaded = await store.load(SessionId("a"))

    assert loaded == entries
    assert record.updated_at == 2.0


async def keeps_unknown_bodies(store: Store) -> None:
    """What this release cannot read is returned as it was written."""
    await store.create(_record("a"))
    entry = Entry(id=EntryId(1), at=1.0, schema=99, body=UnknownBody(b'{"kind":"new", "x":1}'))
    await store.append(SessionId("a"), [entry])

    assert (await store.load(SessionId("a")))[1] == [entry]


async def tells_sessions_apart(store: Store) -> None:
    """Sessions do not see each other's entries."""
    await store.create(_record("a"))
    await store.create(_record("b"))
    await store.append(SessionId("a"), [_entry(1, "for a")])
    await store.append(SessionId("b"), [_entry(1, "for b"), _entry(2)])

    assert (await store.load(SessionId("a")))[1] == [_entry(1, "for a")]
    assert len((await store.load(SessionId("b")))[1]) == 2


async def refuses_a_second_writer(store: Store) -> None:
    """An entry id is used once, and a refused batch leaves nothing behind."""
    await store.create(_record("a"))
    await store.append(SessionId("a"), [_entry(1), _entry(2)])

    await _fails_with(SessionBusy, store.append(SessionId("a"), [_entry(2, "mine"), _entry(3)]))
    await _fails_with(SessionBusy, store.create(_record("a")))

    assert (await store.load(SessionId("a")))[1] == [_entry(1), _entry(2)]


async def knows_what_is_not_there(store: Store) -> None:
    """Unknown sessions are named as such; deleting one is harmless."""
    await _fails_with(SessionNotFound, store.load(SessionId("x")))
    await _fails_with(SessionNotFound, store.append(SessionId("x"), [_entry(1)]))
    await _fails_with(SessionNotFound, store.rename(SessionId("x"), "n"))
    await store.delete(SessionId("x"))


async def lists_the_newest_first(store: Store) -> None:
    """Sessions are listed by when they were last used."""
    for name, at in (("old", 1.0), ("new", 5.0), ("middle", 3.0)):
        await store.create(_record(name, at))
    await store.append(SessionId("old"), [_entry(1, at=9.0)])

    assert [record.id for record in await store.sessions()] == ["old", "new", "middle"]


async def renames_and_deletes(store: Store) -> None:
    """A name stays; a deleted session is gone with its entries, and its id is free."""
    await store.create(_record("a"))
    await store.append(SessionId("a"), [_entry(1)])
    await store.rename(SessionId("a"), "login bug")
    assert (await store.sessions())[0].name == "login bug"

    await store.delete(SessionId("a"))
    await store.create(_record("a"))

    assert (await store.load(SessionId("a")))[1] == []


async def takes_an_empty_batch(store: Store) -> None:
    """Appending nothing changes nothing."""
    await store.create(_record("a"))
    await store.append(SessionId("a"), [])

    assert (await store.load(SessionId("a"))) == (_record("a"), [])


async def closes_more_than_once(store: Store) -> None:
    """Closing again is harmless."""
    await store.create(_record("a"))
    await store.aclose()
    await store.aclose()


STORE_CHECKS: tuple[Check, ...] = (
    keeps_entries_in_order,
    keeps_unknown_bodies,
    tells_sessions_apart,
    refuses_a_second_writer,
    knows_what_is_not_there,
    lists_the_newest_first,
    renames_and_deletes,
    takes_an_empty_batch,
    closes_more_than_once,
)
