"""Leases as rows: who writes to a session, and when it was last heard of."""

import sqlite3

from clew.core.ids import SessionId
from clew.stores.lease import Holder, SessionHeld, is_dead
from clew.stores.refusals import not_found
from clew.stores.sqlite.file import writing

_SELECT = "SELECT owner, pid, started, machine, host, since, beat FROM leases WHERE number = ?"


def check(
    database: sqlite3.Connection, session_id: SessionId, number: int, *, me: Holder, now: float
) -> None:
    """Make sure that nobody else who is alive writes to the session.

    Raises:
        SessionHeld: Somebody does.
    """
    row = database.execute(_SELECT, (number,)).fetchone()
    if row is None or row[0] == me.owner:
        return
    owner, pid, started, machine, host, since, beat = row
    holder = Holder(owner=owner, pid=pid, started=started, machine=machine, host=host, since=since)
    if not is_dead(holder, me=me, silent=now - beat):
        raise SessionHeld(session_id, holder)


def take(database: sqlite3.Connection, session_id: SessionId, *, me: Holder, now: float) -> None:
    """Write `me` down as the holder, unless another one is alive."""
    with writing(database):
        row = database.execute("SELECT number FROM sessions WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            raise not_found(session_id)
        check(database, session_id, row[0], me=me, now=now)
        database.execute(
            "INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (number) DO UPDATE SET owner = excluded.owner, pid = excluded.pid,"
            " started = excluded.started, machine = excluded.machine, host = excluded.host,"
            " since = excluded.since, beat = excluded.beat WHERE owner <> excluded.owner",
            (row[0], me.owner, me.pid, me.started, me.machine, me.host, now, now),
        )


def give_back(
    database: sqlite3.Connection, *, me: Holder, session_id: SessionId | None = None
) -> None:
    """Take one lease of `me` away, or all of them."""
    with writing(database):
        database.execute(
            "DELETE FROM leases WHERE owner = :owner AND (:id IS NULL OR number ="
            " (SELECT number FROM sessions WHERE id = :id))",
            {"owner": me.owner, "id": session_id},
        )


def beat(database: sqlite3.Connection, *, me: Holder, now: float) -> None:
    """Note that `me` is alive."""
    with writing(database):
        database.execute("UPDATE leases SET beat = ? WHERE owner = ?", (now, me.owner))
