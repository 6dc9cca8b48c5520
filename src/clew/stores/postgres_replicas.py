"""Replicas of a server as rows in PostgreSQL; the server's clock dates their heartbeats."""

from collections.abc import Sequence

import msgspec

from clew.core.ids import SessionId
from clew.core.json_text import decode_json
from clew.stores.leases import OwnLease, ProcessKey, has_ended
from clew.stores.replica_protocol import ReplicaRow
from clew.stores.sql import SqlConnection, SqlDatabase
from clew.stores.sql_leases import LeaseRows, SqlLeases

TABLE = """
CREATE TABLE clew_replicas (
    replica TEXT PRIMARY KEY,
    address TEXT NOT NULL,
    secret TEXT NOT NULL,
    pid BIGINT NOT NULL,
    started TEXT NOT NULL,
    machine TEXT NOT NULL,
    host TEXT NOT NULL,
    users BYTEA NOT NULL,
    silent_after DOUBLE PRECISION NOT NULL,
    beat TIMESTAMPTZ NOT NULL
)
"""
_BEAT = """
INSERT INTO clew_replicas VALUES (:replica, :address, :secret, :pid, :started, :machine, :host,
    :users, :silent_after, clock_timestamp())
ON CONFLICT (replica) DO UPDATE SET users = excluded.users, beat = excluded.beat,
    silent_after = excluded.silent_after
"""
_LIST = """
SELECT replica, address, secret, pid, started, machine, host, users, silent_after,
    extract(epoch FROM clock_timestamp() - beat)::float8
FROM clew_replicas ORDER BY replica
"""
_HELD = """
SELECT id FROM clew_leases JOIN clew_sessions ON session = number
WHERE pid = :pid AND started = :started AND machine = :machine AND owner <> ''
    AND kind = '' ORDER BY id
"""
_OWN = """
SELECT id, epoch FROM clew_leases JOIN clew_sessions ON session = number WHERE owner = :owner
"""
_LEAVE = """
UPDATE clew_leases SET owner = :left, silent_after = 0 WHERE owner = :owner
    AND session = (SELECT number FROM clew_sessions WHERE id = :id)
"""
_LEFT = "left by "


class PostgresReplicas:
    """The replicas that share a database; see `ReplicaStore`."""

    def __init__(self, database: SqlDatabase, rows: LeaseRows, leases: SqlLeases) -> None:
        self._database = database
        self._rows = rows
        self._leases = leases

    @property
    def process(self) -> ProcessKey:
        """This process."""
        return self._leases.holder.process

    async def beat(self, row: ReplicaRow) -> None:
        """Add a replica of this process, or note that it is alive."""
        pid, started, machine = self.process
        values = {
            "replica": row.replica,
            "address": row.address,
            "secret": row.secret,
            "pid": pid,
            "started": started,
            "machine": machine,
            "host": self._leases.holder.host,
            "users": msgspec.json.encode(row.users),
            "silent_after": row.silent_after,
        }
        await self._database.write(lambda connection: connection.execute(_BEAT, values))

    async def list_replicas(self) -> list[ReplicaRow]:
        """Return all replicas, dead ones too."""
        return await self._database.read(self._list)

    async def remove(self, replica: str) -> None:
        """Forget a replica."""
        query, values = "DELETE FROM clew_replicas WHERE replica = :replica", {"replica": replica}
        await self._database.write(lambda connection: connection.execute(query, values))

    async def find_holder(self, session_id: SessionId) -> ProcessKey | None:
        """Return the process that has a session's lease; None if it is free or its holder dead."""
        lease = await self._database.read(self._rows.find, session_id)
        if lease is None or not lease.holder.owner or lease.is_dead(me=self._leases.holder):
            return None
        return lease.holder.process

    async def list_held(self, process: ProcessKey) -> Sequence[SessionId]:
        """Return the sessions of people whose leases a process has, or had when it died."""
        pid, started, machine = process
        values = {"pid": pid, "started": started, "machine": machine}
        rows = await self._database.read(lambda one: one.execute(_HELD, values).fetchall())
        return [SessionId(session_id) for (session_id,) in rows]

    async def list_own(self) -> dict[SessionId, int]:
        """Return the sessions whose leases this store has, with the epochs."""
        values = {"owner": self._leases.holder.owner}
        rows = await self._database.read(lambda one: one.execute(_OWN, values).fetchall())
        return {SessionId(session_id): epoch for session_id, epoch in rows}

    def find_own(self, session_id: SessionId) -> OwnLease | None:
        """Return a lease that this store took; it may have lost it since."""
        return self._leases.find_own(session_id)

    async def leave(self, session_id: SessionId) -> None:
        """Let others take over a session at once, as if this process had died."""
        owner = self._leases.holder.owner
        values = {"owner": owner, "left": f"{_LEFT}{owner}", "id": session_id}
        self._leases.forget(session_id)
        await self._database.write(lambda connection: connection.execute(_LEAVE, values))

    def _list(self, connection: SqlConnection) -> list[ReplicaRow]:
        me, found = self._leases.holder, []
        for row in connection.execute(_LIST).fetchall():
            replica, address, secret, pid, started, machine, host, users, silent_after, silent = row
            process = (pid, started, machine)
            found.append(
                ReplicaRow(
                    replica=replica,
                    address=address,
                    secret=secret,
                    process=process,
                    host=host,
                    users=decode_json(users, type=tuple[str, ...]),
                    silent_after=silent_after,
                    silent=max(0.0, silent),
                    is_dead=silent >= silent_after or has_ended(process, me=me),
                )
            )
        return found
