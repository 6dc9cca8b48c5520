"""Conformance checks for stores: run them on a store of your own.

@pytest.mark.anyio
@pytest.mark.parametrize("check", STORE_CHECKS)
async def test_my_store_keeps_the_contract(check):
    await check(MyStore())

`clew.testing.shared_stores` has the checks for two stores in one place.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from clew.core.entries import (
    Cleared,
    Entry,
    MessageAdded,
    SessionRecord,
    SetupChanged,
    UnknownBody,
    encode,
)
from clew.core.errors import SessionBusy, SessionNotFound
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.messages import Message, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from clew.stores.protocol import Store
from clew.stores.record import AGENT_KIND, StoredSession

StoreCheck = Callable[[Store], Awaitable[None]]

A, B, C = SessionId("a"), SessionId("b"), SessionId("c")

_E = TypeVar("_E", bound=Exception)


def a_record(name: str, at: float = 1.0) -> SessionRecord:
    """Return the record of a session that began at a time."""
    return SessionRecord(id=SessionId(name), cwd="/work", created_at=at, updated_at=at)


def agent_record(session_id: SessionId, *, parent: SessionId) -> StoredSession:
    """Return the record of an agent's session."""
    return StoredSession(
        id=session_id, cwd="/work", created_at=1.0, updated_at=1.0, parent=parent, kind=AGENT_KIND
    )


def an_entry(number: int, text: str = "hello", at: float = 2.0) -> Entry:
    """Return an entry with a message of the user."""
    return message_entry(number, user(text), at)


def message_entry(number: int, message: Message, at: float = 2.0) -> Entry:
    """Return an entry with a message."""
    return Entry(id=EntryId(number), at=at, body=MessageAdded(message=message))


async def entries_in(store: Store, session_id: SessionId = A) -> list[Entry]:
    """Read the entries of a session."""
    return list((await store.load(session_id))[1])


async def expect_error(error: type[_E], work: Awaitable[object]) -> _E:
    """Await work that must fail, and return its error."""
    try:
        await work
    except error as raised:
        return raised
    raise AssertionError(f"{error.__name__} was not raised")


async def keeps_entries_in_order(store: Store) -> None:
    """Entries come back equal, in the order of their ids; an empty batch changes nothing."""
    await store.create(a_record("a"))
    await store.append(A, [])
    entries = [an_entry(number, f"words {number} 計算") for number in range(1, 25)]
    await store.append(A, entries[:10])
    for entry in entries[10:]:
        await store.append(A, [entry])

    assert await entries_in(store) == entries


async def keeps_large_batches(store: Store) -> None:
    """A batch may be long, and an entry large."""
    await store.create(a_record("a"))
    entries = [an_entry(number, f"{number} " * 50) for number in range(1, 1_500)]
    entries.append(an_entry(1_500, "".join(f"word{number} " for number in range(200_000))))
    await store.append(A, entries)

    assert await entries_in(store) == entries
    assert (await store.search("word77"))[0].entry_id == 1_500


async def keeps_unknown_bodies(store: Store) -> None:
    """Entries of a newer release come back byte for byte."""
    await store.create(a_record("a"))
    newer = Entry(id=EntryId(1), at=1.0, schema=99, body=UnknownBody(b'{"kind":"new", "x":1}'))
    strange = Entry(id=EntryId(2), at=1.0, body=UnknownBody(b'{"kind" :"strange"}'))
    await store.append(A, [newer, strange])

    assert await entries_in(store) == [newer, strange]


async def keeps_any_text(store: Store) -> None:
    """Every character can be stored, in entries and in the record."""
    odd = "nul \x00 bell \x07 quote ' \" % \\ emoji 🧵 line\r\nend\u2028"
    await store.create(a_record("a"))
    await store.append(A, [an_entry(1, odd)])
    await store.rename(A, f"{odd} \ud800")
    await store.annotate(A, {"note": odd})

    record, entries = await store.load(A)

    assert entries == [an_entry(1, odd)]
    assert "bell \x07 quote ' \" % \\ emoji 🧵" in record.name
    assert record.extra == {"note": odd}
    assert record.title.startswith("nul ")


async def separates_sessions(store: Store) -> None:
    """Sessions do not see each other's entries."""
    await store.create(a_record("a"))
    await store.create(a_record("b"))
    await store.append(A, [an_entry(1, "for a")])
    await store.append(B, [an_entry(1, "for b"), an_entry(2)])

    assert await entries_in(store) == [an_entry(1, "for a")]
    assert len(await entries_in(store, B)) == 2


async def loads_after_an_entry(store: Store) -> None:
    """A reader that has the first entries can load the rest."""
    await store.create(a_record("a"))
    await store.append(A, [an_entry(1), an_entry(2), an_entry(3)])

    assert (await store.load(A, after=EntryId(1)))[1] == [an_entry(2), an_entry(3)]
    assert (await store.load(A, after=EntryId(3)))[1] == []


async def refuses_a_second_writer(store: Store) -> None:
    """An entry id is used once, and a rejected batch changes nothing."""
    await store.create(a_record("a"))
    await store.append(A, [an_entry(1), an_entry(2)])
    before = await store.load(A)

    await expect_error(SessionBusy, store.append(A, [an_entry(2, "mine"), an_entry(3)]))
    await expect_error(SessionBusy, store.append(A, [an_entry(3), an_entry(3, "again")]))
    await expect_error(SessionBusy, store.create(a_record("a")))

    assert await store.load(A) == before


async def reports_unknown_sessions(store: Store) -> None:
    """Unknown sessions raise `SessionNotFound`; deleting or releasing one is harmless."""
    await store.create(a_record("a"))
    gone = SessionId("x")
    await expect_error(SessionNotFound, store.load(gone))
    await expect_error(SessionNotFound, store.record(gone))
    await expect_error(SessionNotFound, store.append(gone, [an_entry(1)]))
    await expect_error(SessionNotFound, store.append(gone, []))
    await expect_error(SessionNotFound, store.rename(gone, "n"))
    await expect_error(SessionNotFound, store.annotate(gone, {"n": 1}))
    await expect_error(SessionNotFound, store.fork(gone))
    await expect_error(SessionNotFound, store.lease(gone))
    await store.release(gone)
    await store.delete(gone)

    assert [record.id for record in await store.sessions()] == [A]


async def updates_the_record(store: Store) -> None:
    """The record follows the entries, and its time never runs backwards."""
    call = ToolCall(call_id=CallId("1"), name="Read")
    batches: Sequence[Sequence[Entry]] = (
        [Entry(id=EntryId(1), at=5.0, body=SetupChanged(model=ModelFacts(name="old")))],
        [
            message_entry(2, user("  first\n words "), at=9.0),
            message_entry(3, assistant("let me see", call)),
        ],
        [message_entry(4, tool_result(call, "a result"))],
        [
            message_entry(5, assistant("last words"), at=7.0),
            message_entry(6, tool_result(call, "b"), at=3.0),
        ],
        [Entry(id=EntryId(7), at=4.0, body=SetupChanged(model=ModelFacts(name="new")))],
    )
    await store.create(a_record("a"))
    for batch in batches:
        await store.append(A, batch)

    assert await store.record(A) == StoredSession(
        id=A,
        cwd="/work",
        created_at=1.0,
        updated_at=9.0,
        model="new",
        title="first words",
        last_words="last words",
        entries=7,
        messages=5,
        size=sum(len(encode(entry)) for batch in batches for entry in batch),
    )
    assert (await store.load(A))[0] == await store.record(A) == (await store.sessions())[0]


async def keeps_extra_fields(store: Store) -> None:
    """The `extra` fields of a record come back, each on its own."""
    begun = StoredSession(
        id=A, cwd="/work", created_at=1.0, updated_at=1.0, extra={"sandbox": "s-1", "n": [1, {}]}
    )
    await store.create(begun)
    await store.annotate(A, {"tasks": [{"id": 7, "done": True}], "sandbox": None})
    await store.append(A, [an_entry(1)])

    assert (await store.record(A)).extra == {"n": [1, {}], "tasks": [{"id": 7, "done": True}]}


async def keeps_a_snapshot(store: Store) -> None:
    """A session keeps its last snapshot until it is deleted."""
    await store.create(a_record("a"))
    await store.save_snapshot(SessionId("x"), b"of nothing")
    assert await store.snapshot(A) is None

    await store.save_snapshot(A, b"first")
    await store.save_snapshot(A, bytes(range(256)))

    assert await store.snapshot(A) == bytes(range(256))
    assert await store.snapshot((await store.fork(A)).id) is None
    await store.delete(A)
    await store.create(a_record("a"))
    assert await store.snapshot(A) is None
    assert await store.snapshot(SessionId("x")) is None


async def lists_the_newest_first(store: Store) -> None:
    """Sessions are listed by when they were last used."""
    for name, at in (("a", 1.0), ("b", 5.0), ("c", 3.0)):
        await store.create(a_record(name, at))
    await store.append(A, [an_entry(1, at=9.0)])

    assert [record.id for record in await store.sessions()] == [A, B, C]
    assert [record.id for record in await store.sessions(limit=2)] == [A, B]
    assert [record.id for record in await store.sessions(since=5.0)] == [A, B]


async def lists_by_folder_and_by_parent(store: Store) -> None:
    """Lists can be limited to one folder, or to the forks of one session."""
    await store.create(a_record("a"))
    await store.create(SessionRecord(id=B, cwd="/else", created_at=2.0, updated_at=2.0))
    fork = await store.fork(B)

    assert [record.id for record in await store.sessions(cwd="/work")] == [A]
    assert [record.id for record in await store.sessions(parent=B)] == [fork.id]
    assert await store.sessions(cwd="/work", parent=B) == []


async def tells_agents_from_other_sessions(store: Store) -> None:
    """Lists can leave out the sessions of agents, and these are deleted with their parent.

    A fork of an agent is not an agent.
    """
    await store.create(a_record("a"))
    await store.create(agent_record(B, parent=A))
    await store.append(A, [an_entry(1, "a thread")])
    await store.append(B, [an_entry(1, "a thread")])
    fork = await store.fork(B)

    assert {one.id for one in await store.sessions()} == {A, B, fork.id}
    assert {one.id for one in await store.sessions(kind="")} == {A, fork.id}
    assert [one.id for one in await store.sessions(kind="agent", parent=A)] == [B]
    assert {hit.session.id for hit in await store.search("thread", kind="")} == {A, fork.id}
    assert [hit.session.id for hit in await store.search("thread", kind="agent")] == [B]
    assert (await store.record(B)).kind == "agent"
    await store.create(agent_record(C, parent=fork.id))
    await store.delete(A)
    assert {one.id for one in await store.sessions()} == {C, fork.id}


async def renames_and_deletes(store: Store) -> None:
    """A name is kept; a deleted session is gone with its entries, and its id is free."""
    await store.create(a_record("a"))
    await store.append(A, [an_entry(1)])
    await store.rename(A, "login bug")
    assert (await store.sessions())[0].name == "login bug"

    await store.delete(A)
    await store.create(a_record("a"))

    assert await entries_in(store) == []
    assert (await store.record(A)).name == ""


async def forks(store: Store) -> None:
    """A fork and its parent do not affect each other."""
    await store.create(a_record("a"))
    empty = await store.fork(A)
    unknown = Entry(id=EntryId(2), at=1.0, body=UnknownBody(b'{"kind" :"strange"}'))
    await store.append(A, [an_entry(1, "first words"), unknown, an_entry(3, "third")])
    await store.annotate(A, {"sandbox": "s-1"})
    before = await store.load(A)

    whole = await store.fork(A, name="another way")
    early = await store.fork(A, upto=EntryId(2))
    await store.append(whole.id, [an_entry(4, "only here")])
    await store.append(early.id, [an_entry(3, "third, anew")])

    assert await store.load(A) == before
    assert (empty.parent, empty.forked_at, empty.entries) == (A, None, 0)
    assert (whole.parent, whole.forked_at, whole.name) == (A, 3, "another way")
    assert (early.parent, early.forked_at, early.entries) == (A, 2, 2)
    assert (early.title, early.messages, early.extra) == ("first words", 1, {"sandbox": "s-1"})
    assert await entries_in(store, whole.id) == [*before[1], an_entry(4, "only here")]
    assert await entries_in(store, early.id) == [*before[1][:2], an_entry(3, "third, anew")]


async def finds_words(store: Store) -> None:
    """Sessions are found by prefixes of words, also of words that are no longer in the view."""
    await store.create(a_record("a", at=1.0))
    await store.create(a_record("b", at=5.0))
    await store.append(A, [an_entry(1, "The Café in the labyrinth 計算機科学")])
    await store.append(A, [Entry(id=EntryId(2), at=2.0, body=Cleared()), an_entry(3, "the exit")])
    await store.append(B, [an_entry(1, "nothing"), an_entry(2, "a labyrinth, and more")])

    async def find(query: str) -> list[tuple[str, int | None]]:
        return [(hit.session.id, hit.entry_id) for hit in await store.search(query)]

    assert await find("LABYR") == [("b", 2), ("a", 1)]
    assert await find("cafe labyrinth") == [("a", 1)]
    assert await find("labyrinth exit") == []
    assert await find("算機") == [("a", 1)]
    assert await find("機算") == []
    assert await find("  -'\"*() ") == []
    assert len(await store.search("the", limit=1)) == 1
    hit = (await store.search("the"))[0]
    assert (hit.matches, hit.entry_id, hit.excerpt) == (2, 3, "the exit")


async def finds_names(store: Store) -> None:
    """A session is found by its current name, and not after it is deleted."""
    named = StoredSession(id=A, cwd="/work", created_at=1.0, updated_at=1.0, name="Ariadne")
    await store.create(named)
    await store.append(A, [an_entry(1, "a thread")])
    assert [hit.entry_id for hit in await store.search("ariadne")] == [None]

    await store.rename(A, "Theseus")

    assert await store.search("ariadne") == []
    assert [hit.session.name for hit in await store.search("thes")] == ["Theseus"]
    await store.delete(A)
    assert await store.search("thread") == await store.search("theseus") == []


async def renews_its_own_lease(store: Store) -> None:
    """A store that holds a lease may take it again, write, and release it more than once."""
    await store.create(a_record("a"))
    await store.lease(A)
    await store.lease(A)
    await store.append(A, [an_entry(1)])
    await store.release(A)
    await store.release(A)

    await store.append(A, [an_entry(2)])
    await store.lease(A)
    await store.delete(A)

    await expect_error(SessionNotFound, store.lease(A))


async def closes_more_than_once(store: Store) -> None:
    """Closing again is harmless."""
    await store.create(a_record("a"))
    await store.lease(A)
    await store.aclose()
    await store.aclose()


STORE_CHECKS: tuple[StoreCheck, ...] = (
    keeps_entries_in_order,
    keeps_large_batches,
    keeps_unknown_bodies,
    keeps_any_text,
    separates_sessions,
    loads_after_an_entry,
    refuses_a_second_writer,
    reports_unknown_sessions,
    updates_the_record,
    keeps_extra_fields,
    keeps_a_snapshot,
    lists_the_newest_first,
    lists_by_folder_and_by_parent,
    tells_agents_from_other_sessions,
    renames_and_deletes,
    forks,
    finds_words,
    finds_names,
    renews_its_own_lease,
    closes_more_than_once,
)
