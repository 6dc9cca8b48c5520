"""Leases as rows, dated by the server's clock: those of many machines do not agree."""

import psycopg

from clew.core.ids import SessionId
from clew.stores.lease import Holder, SessionHeld, is_dead
from clew.stores.refusals import not_found

_SELECT = """
SELECT owner, pid, started, machine, host, since,
    extract(epoch FROM clock_timestamp() - beat)::float8
FROM clew_leases WHERE session = %s
"""
_TAKE = """
INSERT INTO clew_leases VALUES (%s, %s, %s, %s, %s, %s, %s, clock_timestamp())
ON CONFLICT (session) DO UPDATE SET owner = excluded.owner, pid = excluded.pid,
    started = excluded.started, machine = excluded.machine, host = excluded.host,
    since = excluded.since, beat = excluded.beat
WHERE clew_leases.owner <> excluded.owner
"""


def check(
    connection: psycopg.Connection, session_id: SessionId, number: int, *, me: Holder
) -> None:
    """Make sure that nobody else who is alive writes to the session; its row must be locked.

    Raises:
        SessionHeld: Somebody does.
    """
    row = connection.execute(_SELECT, (number,)).fetchone()
    if row is None or row[0] == me.owner:
        return
    owner, pid, started, machine, host, since, silent = row
    holder = Holder(owner=owner, pid=pid, started=started, machine=machine, host=host, since=since)
    if not is_dead(holder, me=me, silent=silent):
        raise SessionHeld(session_id, holder)


def take(connection: psycopg.Connection, session_id: SessionId, *, me: Holder, now: float) -> None:
    """Write `me` down as the holder, unless another one is alive."""
    number = locked(connection, session_id)
    check(connection, session_id, number, me=me)
    connection.execute(_TAKE, (number, me.owner, me.pid, me.started, me.machine, me.host, now))


def locked(connection: psycopg.Connection, session_id: SessionId) -> int:
    """Return a session's number, and keep its row from others until the transaction ends."""
    row = connection.execute(
        "SELECT number FROM clew_sessions WHERE id = %s FOR UPDATE", (session_id,)
    ).fetchone()
    if row is None:
        raise not_found(session_id)
    return int(row[0])


def give_back(
    connection: psycopg.Connection, *, me: Holder, session_id: SessionId | None = None
) -> None:
    """Take one lease of `me` away, or all of them."""
    connection.execute(
        "DELETE FROM clew_leases WHERE owner = %(owner)s AND (%(id)s::text IS NULL OR session ="
        " (SELECT number FROM clew_sessions WHERE id = %(id)s))",
        {"owner": me.owner, "id": session_id},
    )


def beat(connection: psycopg.Connection, *, me: Holder) -> None:
    """Note that `me` is alive."""
    connection.execute(
        "UPDATE clew_leases SET beat = clock_timestamp() WHERE owner = %s", (me.owner,)
    )
