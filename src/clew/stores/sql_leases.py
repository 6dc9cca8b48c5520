"""Leases in a database: who may write to a session, checked in the transaction that writes."""

import logging
import time
from collections.abc import Callable

from anyio import to_thread
from msgspec.structs import asdict

from clew.core.errors import StoreError
from clew.core.ids import SessionId
from clew.stores.leases import (
    Heartbeat,
    Lease,
    LeaseHolder,
    LeaseLost,
    OwnLease,
    ProcessKey,
    SessionHeld,
    Writer,
    current_holder,
    heartbeat_interval,
)
from clew.stores.sql import LOCK_SESSION, SqlConnection, SqlDatabase, SqlStatements

logger = logging.getLogger(__name__)

_LEASE = """
SELECT epoch, {silence}, silent_after, owner, pid, started, machine, host, since FROM {leases}
WHERE {session} = :number
"""
_TAKE = """
INSERT INTO {leases}
    ({session}, owner, pid, started, machine, host, since, beat, epoch, silent_after)
VALUES (:number, :owner, :pid, :started, :machine, :host, :since, {now}, :epoch, :silent_after)
ON CONFLICT ({session}) DO UPDATE SET owner = excluded.owner, pid = excluded.pid,
    started = excluded.started, machine = excluded.machine, host = excluded.host,
    since = excluded.since, beat = excluded.beat, epoch = excluded.epoch,
    silent_after = excluded.silent_after
"""
_KEEP = """
UPDATE {leases} SET beat = {now}, silent_after = coalesce(:silent_after, silent_after)
WHERE {session} = :number
"""
_REVOKE = "UPDATE {leases} SET owner = '', epoch = epoch + 1 WHERE {session} = :number"
_REVOKE_FROM_PROCESS = (
    f"{_REVOKE} AND owner <> '' AND pid = :pid AND started = :started AND machine = :machine"
)
_RELEASE = """
UPDATE {leases} SET owner = '' WHERE owner = :owner
    AND {session} = (SELECT number FROM {sessions} WHERE id = :id)
"""
_RELEASE_ALL = "UPDATE {leases} SET owner = '' WHERE owner = :owner"
_NUMBER = "SELECT number FROM {sessions} WHERE id = :id"
_RENEW = "UPDATE {leases} SET beat = {now} WHERE owner = :owner"


class LeaseRows:
    """Reads and writes leases. Each method runs inside one transaction of its caller."""

    def __init__(self, statements: SqlStatements) -> None:
        self._sql = statements

    def take(
        self,
        connection: SqlConnection,
        session_id: SessionId,
        *,
        writer: Writer,
        silent_after: float | None,
    ) -> OwnLease:
        """Make `writer` the holder of a session's lease and return it.

        Raises:
            SessionHeld: Another holder is alive.
        """
        number = self._sql.lock_session(connection, session_id)
        lease = self._read(connection, number, now=writer.now)
        if lease is not None and writer.has(lease):
            self._sql.run(
                connection, _KEEP, number=number, silent_after=silent_after, now=writer.now
            )
            return OwnLease(epoch=lease.epoch)
        if lease is not None:
            _refuse_if_held(lease, session_id, by=writer.holder)
        epoch = 1 if lease is None else lease.epoch + 1
        facts = {**asdict(writer.holder), "since": writer.now, "now": writer.now, "epoch": epoch}
        self._sql.run(connection, _TAKE, number=number, silent_after=silent_after, **facts)
        was_held = lease is not None and lease.holder.owner not in ("", writer.holder.owner)
        return OwnLease(epoch=epoch, was_held=was_held)

    def check(
        self,
        connection: SqlConnection,
        session_id: SessionId,
        number: int,
        *,
        writer: Writer,
    ) -> None:
        """Check that `writer` may add entries; the session's row must be locked.

        A dead holder loses its lease here, so that it cannot write after this transaction.

        Raises:
            LeaseLost: The writer had the lease, and another process has taken it since.
            SessionHeld: Another holder has it.
        """
        lease = self._read(connection, number, now=writer.now)
        if writer.epoch is not None:
            _refuse_if_lost(lease, session_id, writer)
        elif lease is not None:
            _refuse_if_held(lease, session_id, by=writer.holder)
            if lease.holder.owner not in ("", writer.holder.owner):
                self._sql.run(connection, _REVOKE, number=number)

    def check_not_lost(
        self,
        connection: SqlConnection,
        session_id: SessionId,
        number: int,
        *,
        writer: Writer,
    ) -> None:
        """Check that `writer` still has the lease that it took; it need not have taken one.

        Raises:
            LeaseLost: Another process has taken it since.
        """
        if writer.epoch is not None:
            _refuse_if_lost(self._read(connection, number, now=writer.now), session_id, writer)

    def revoke(
        self, connection: SqlConnection, session_id: SessionId, *, process: ProcessKey
    ) -> None:
        """Take the lease of a session from a process, if it has it."""
        row = self._sql.run(connection, LOCK_SESSION, id=session_id).fetchone()
        if row is not None:
            pid, started, machine = process
            facts = {"pid": pid, "started": started, "machine": machine}
            self._sql.run(connection, _REVOKE_FROM_PROCESS, number=row[0], **facts)

    def release(
        self, connection: SqlConnection, session_id: SessionId, *, holder: LeaseHolder
    ) -> None:
        """Release one lease of `holder`; its epoch stays."""
        self._sql.run(connection, _RELEASE, owner=holder.owner, id=session_id)

    def release_all(self, connection: SqlConnection, *, holder: LeaseHolder) -> None:
        """Release all leases of `holder`."""
        self._sql.run(connection, _RELEASE_ALL, owner=holder.owner)

    def renew(self, connection: SqlConnection, *, holder: LeaseHolder, now: float) -> None:
        """Note in all leases of `holder` that it is alive."""
        self._sql.run(connection, _RENEW, owner=holder.owner, now=now)

    def find(self, connection: SqlConnection, session_id: SessionId) -> Lease | None:
        """Return the lease of a session; None if it never had one, or does not exist."""
        row = self._sql.run(connection, _NUMBER, id=session_id).fetchone()
        return None if row is None else self._read(connection, row[0], now=time.time())

    def _read(self, connection: SqlConnection, number: int, *, now: float) -> Lease | None:
        row = self._sql.run(connection, _LEASE, number=number, now=now).fetchone()
        if row is None:
            return None
        epoch, silent, silent_after, *facts = row
        holder = LeaseHolder(**dict(zip(LeaseHolder.__struct_fields__, facts, strict=True)))
        return Lease(holder=holder, epoch=epoch, silent=silent, silent_after=silent_after)


class SqlLeases:
    """The leases of one store: takes them, renews them on a thread, and knows their epochs."""

    def __init__(
        self,
        database: SqlDatabase,
        rows: LeaseRows,
        *,
        clock: Callable[[], float] = time.time,
        silent_after: float | None = None,
    ) -> None:
        self._silent_after = silent_after
        self._database = database
        self._rows = rows
        self._clock = clock
        self.holder = current_holder()
        self._own: dict[SessionId, OwnLease] = {}
        self._heartbeat = Heartbeat(self.renew)

    def writer(self, session_id: SessionId) -> Writer:
        """Return as whom this store writes to a session."""
        own = self._own.get(session_id)
        epoch = None if own is None else own.epoch
        return Writer(holder=self.holder, epoch=epoch, now=self._clock())

    def find_own(self, session_id: SessionId) -> OwnLease | None:
        """Return a lease that this store took; it may have lost it since."""
        return self._own.get(session_id)

    def forget(self, session_id: SessionId) -> None:
        """Act as if this store had not taken the lease; it is not released."""
        self._own.pop(session_id, None)

    async def take(self, session_id: SessionId, *, silent_after: float | None) -> None:
        """Take the lease of a session, and renew it from now on."""
        silent_after = self._silent_after if silent_after is None else silent_after
        taken = await self._database.write(
            self._rows.take,
            session_id,
            writer=self.writer(session_id),
            silent_after=silent_after,
        )
        before = self._own.get(session_id)
        if before is None or before.epoch != taken.epoch:
            self._own[session_id] = taken
        self._heartbeat.start(heartbeat_interval(silent_after))

    async def release(self, session_id: SessionId) -> None:
        """Release the lease of a session, if this store has it."""
        if self._own.pop(session_id, None) is not None:
            await self._database.write(self._rows.release, session_id, holder=self.holder)

    async def release_all(self) -> None:
        """Release all leases and end the thread; a failure is logged."""
        if await to_thread.run_sync(self._heartbeat.stop):
            self._own.clear()
            try:
                await self._database.write(self._rows.release_all, holder=self.holder)
            except StoreError as error:
                logger.warning("the leases could not be released: %s", error)

    def renew(self) -> None:
        """Renew all leases now; a failure is logged."""
        if not self._own:
            return
        try:
            self._database.write_here(self._rows.renew, holder=self.holder, now=self._clock())
        except StoreError as error:
            logger.warning("the leases could not be renewed: %s", error)


def _refuse_if_held(lease: Lease, session_id: SessionId, *, by: LeaseHolder) -> None:
    if lease.holder.owner not in ("", by.owner) and not lease.is_dead(me=by):
        raise SessionHeld(session_id, lease.holder)


def _refuse_if_lost(lease: Lease | None, session_id: SessionId, writer: Writer) -> None:
    if not writer.has(lease):
        is_mine = lease is None or lease.holder.process == writer.holder.process
        raise LeaseLost(session_id, None if lease is None or is_mine else lease.holder)
