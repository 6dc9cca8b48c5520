"""Sessions and entries for checks of stores."""

from collections.abc import Awaitable
from typing import TypeVar

from clew.core.entries import Entry, MessageAdded, SessionRecord
from clew.core.ids import EntryId, SessionId
from clew.core.messages import Message, user
from clew.stores.protocol import Store

A, B, C = SessionId("a"), SessionId("b"), SessionId("c")

_E = TypeVar("_E", bound=Exception)


def a_record(name: str, at: float = 1.0) -> SessionRecord:
    """Return the record of a session that begins at a time."""
    return SessionRecord(id=SessionId(name), cwd="/work", created_at=at, updated_at=at)


def an_entry(number: int, text: str = "hello", at: float = 2.0) -> Entry:
    """Return an entry in which the user speaks."""
    return said(number, user(text), at)


def said(number: int, message: Message, at: float = 2.0) -> Entry:
    """Return an entry with a message."""
    return Entry(id=EntryId(number), at=at, body=MessageAdded(message=message))


async def entries_in(store: Store, session_id: SessionId = A) -> list[Entry]:
    """Read the entries of a session."""
    return list((await store.load(session_id))[1])


async def fails_with(error: type[_E], work: Awaitable[object]) -> _E:
    """Do what must fail, and return how it failed."""
    try:
        await work
    except error as raised:
        return raised
    raise AssertionError(f"{error.__name__} was not raised")
