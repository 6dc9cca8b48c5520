"""`LiveSessions`: the sessions that this process has open, by id."""

import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from clew.core.errors import SessionBusy
from clew.core.events import Envelope
from clew.core.ids import SessionId
from clew.sdk.launch import launch
from clew.sdk.options import InteractiveOptions
from clew.sdk.project_stores import ProjectStores
from clew.sdk.replicas import ReplicaSession
from clew.sdk.server_values import SessionRequest
from clew.sdk.session import InteractiveSession
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import ProjectStore
from clew.server.options import ServerOptions
from clew.server.session_requests import apply_request, make_request_field, restore_request
from clew.server.session_slots import SessionSlot, SessionSlots

logger = logging.getLogger(__name__)

_MOST_FRAMES = 512
_MOST_BYTES = 4 << 20
"""What encoded envelopes of one session may take."""
_PIECE = 256 << 10
"""Bytes in one write: what a slow client can make the server hold, and one envelope more."""


class EnvelopeCache:
    """Encodes each envelope of a session once for all clients, and keeps the newest."""

    def __init__(self) -> None:
        self._frames: OrderedDict[int, bytes] = OrderedDict()
        self._size = 0
        self._encoder = msgspec.json.Encoder()

    def encode_event(self, envelope: Envelope) -> bytes:
        """Return an envelope as a server-sent event."""
        frame = self._frames.get(envelope.seq)
        if frame is None:
            data = self._encoder.encode(envelope)
            head = f"id: {envelope.seq}\nevent: {envelope.name}\ndata: ".encode()
            frame = self._frames[envelope.seq] = b"".join((head, data, b"\n\n"))
            self._size += len(frame)
            while len(self._frames) > _MOST_FRAMES or self._size > _MOST_BYTES:
                self._size -= len(self._frames.popitem(last=False)[1])
        return frame

    def encode_message(self, envelope: Envelope) -> bytes:
        """Return an envelope as a WebSocket message."""
        frame = self.encode_event(envelope)
        start = frame.index(b"\ndata: ") + len(b"\ndata: ")
        return b"".join((b'{"type":"event","envelope":', frame[start:-2], b"}"))

    def join_events(self, envelopes: Sequence[Envelope]) -> Iterator[tuple[int, bytes]]:
        """Yield envelopes as server-sent events, many small ones in one piece.

        With each piece comes the number of its last envelope.
        """
        piece: list[bytes] = []
        size = 0
        for envelope in envelopes:
            piece.append(self.encode_event(envelope))
            size += len(piece[-1])
            if size >= _PIECE or envelope is envelopes[-1]:
                yield envelope.seq, b"".join(piece)
                piece, size = [], 0


class LiveSession:
    """An open session, and how it is used."""

    def __init__(self, client: InteractiveSession, replica: ReplicaSession | None = None) -> None:
        self.id: str = client.get_session_id()
        self.client = client
        self.envelopes = EnvelopeCache()
        self.users = 0
        """Requests and streams that use it now."""
        self.last_used = 0.0
        self.closing = anyio.Event()
        """Set to have it closed."""
        self.closed = anyio.Event()
        self.replica = replica
        """Its lease, where other replicas of the server may take it over."""

    @property
    def is_lost(self) -> bool:
        """True when another replica has taken it: its streams break off, and continue there."""
        return self.replica is not None and self.replica.lost.is_set()

    @property
    def is_busy(self) -> bool:
        """True while it works, waits for an answer, or a client uses it."""
        client = self.client
        return bool(self.users or client.is_executing() or client.parts.tasks.list_open())

    @property
    def questions(self) -> int:
        """How many permission requests wait for an answer."""
        return len(self.client.parts.blueprint.requests.pending)


class LiveSessions:
    """Opens sessions when they are first used, and closes those that were not used for long.

    Each lives in a task of its own. Permission requests wait while no client is attached: one may
    come later.

    Args:
        stores: Where the sessions are.
        tasks: Where they live.
        options: What sessions get that a client does not say, and the limits.
        slots: How many may be open.
    """

    def __init__(
        self, stores: ProjectStores, tasks: TaskGroup, options: ServerOptions, slots: SessionSlots
    ) -> None:
        self.stores = stores
        self._tasks = tasks
        self._options = options
        self._open: dict[str, LiveSession] = {}
        self._opening: dict[str, anyio.Lock] = {}
        self._slots = slots

    def get(self, session_id: str) -> LiveSession | None:
        """Return a session if it is open."""
        found = self._open.get(session_id)
        return None if found is None or found.closing.is_set() else found

    def list_open(self) -> tuple[LiveSession, ...]:
        """Return the open sessions."""
        return tuple(self._open.values())

    def close_idle(self) -> None:
        """Close the sessions that were not used for long."""
        now = time.monotonic()
        for live in self.list_open():
            if live.is_busy:
                live.last_used = now
            elif live.last_used < now - self._options.idle_seconds:
                live.closing.set()

    @asynccontextmanager
    async def use(self, session_id: str) -> AsyncGenerator[LiveSession, None]:
        """Use a session, which is opened if need be; it stays open meanwhile.

        Raises:
            SessionNotFound: There is no such session.
            SessionBusy: Another process has it open.
            RequestError: Too many sessions are open.
        """
        live = await self._acquire(session_id)
        try:
            yield live
        finally:
            self._release(live)

    @asynccontextmanager
    async def create(self, request: SessionRequest) -> AsyncGenerator[LiveSession, None]:
        """Open a new session and use it; `cwd` is relative to the server's folder.

        Raises:
            ConfigError: The folder is not served, or no model is known.
            RequestError: Too many sessions are open.
        """
        folder = self.stores.check_folder(request.cwd)
        spec = apply_request(self._options.defaults, replace(request, cwd=str(folder)))
        live = await self._launch(spec, self.stores.open(folder), make_request_field(request))
        try:
            yield live
        finally:
            self._release(live)

    async def close(self, session_id: str) -> bool:
        """Abort what runs in a session and close it; it stays stored. False if it was not open."""
        live = self._open.get(session_id)
        if live is None:
            return False
        live.closing.set()
        await live.closed.wait()
        return True

    async def close_all(self) -> None:
        """Close every session."""
        for live in self.list_open():
            live.closing.set()
        for live in self.list_open():
            await live.closed.wait()

    async def adopt(self, client: InteractiveSession) -> LiveSession:
        """Serve a session that the program has opened, until `close`; the program shuts it down."""
        live: LiveSession = await self._tasks.start(self._keep, client)
        return live

    async def _acquire(self, session_id: str) -> LiveSession:
        """Return a session that counts as used, which is opened if need be."""
        lock = self._opening.setdefault(session_id, anyio.Lock())
        try:
            async with lock:
                while (live := self._open.get(session_id)) is not None and live.closing.is_set():
                    await live.closed.wait()
                if live is None:
                    return await self._reopen(session_id)
                live.users += 1
                return live
        finally:
            # A task that waited owns it by now, and removes it.
            if not lock.statistics().locked:
                self._opening.pop(session_id, None)

    def _release(self, live: LiveSession) -> None:
        live.users -= 1
        live.last_used = time.monotonic()

    async def _reopen(self, session_id: str) -> LiveSession:
        found = await self.stores.find(session_id)
        spec = restore_request(self._options.defaults, found.record)
        return await self._launch(spec, found.place, {})

    async def _launch(
        self, spec: SessionSpec, place: ProjectStore, fields: Mapping[str, object]
    ) -> LiveSession:
        """Open a session, which counts as used; `fields` are stored with it."""
        slot = await self._slots.take()
        try:
            live: LiveSession = await self._tasks.start(self._host, spec, place, slot, fields)
        except BaseException:
            slot.give_back()
            raise
        return live

    async def _host(
        self,
        spec: SessionSpec,
        place: ProjectStore,
        slot: SessionSlot,
        fields: Mapping[str, object],
        *,
        task_status: TaskStatus[LiveSession],
    ) -> None:
        """Open a session and keep it open until it is closed."""
        live: LiveSession | None = None
        try:
            async with launch(
                spec,
                environ=self._options.environ,
                place=place,
                services=_make_services(self._options),
            ) as launched:
                await launched.save()
                if fields:
                    session_id = SessionId(launched.session.get_session_id())
                    await place.store.annotate(session_id, fields)
                replica = ReplicaSession(launched) if self._options.replica else None
                live = slot.live = self._register(launched.session, replica)
                # Before it can be closed to make room.
                live.users += 1
                if replica is not None:
                    await _continue_cut_run(replica, self._tasks)
                task_status.started(live)
                if replica is not None:
                    await _keep_lease(live, replica)
                await live.closing.wait()
        except Exception:
            # Before the session is open, this is the answer to the request that opens it.
            if live is None:
                raise
            logger.exception("the session %s has failed", live.id)
        finally:
            if live is not None:
                slot.give_back()
                self._forget(live)

    async def _keep(
        self, client: InteractiveSession, *, task_status: TaskStatus[LiveSession]
    ) -> None:
        live = self._register(client)
        task_status.started(live)
        try:
            await live.closing.wait()
        finally:
            self._forget(live)

    def _register(
        self, client: InteractiveSession, replica: ReplicaSession | None = None
    ) -> LiveSession:
        live = LiveSession(client, replica)
        if live.id in self._open:
            raise SessionBusy(f"the session {live.id} is open already")
        live.last_used = time.monotonic()
        self._open[live.id] = live
        return live

    def _forget(self, live: LiveSession) -> None:
        self._open.pop(live.id, None)
        live.closing.set()
        live.closed.set()


def _make_services(options: ServerOptions) -> InteractiveOptions:
    """Return the options of all sessions; a successor must know which tool calls have begun."""
    return {"wait_for_answers": True, "record_calls": options.replica is not None}


async def _continue_cut_run(replica: ReplicaSession, tasks: TaskGroup) -> None:
    """Begin to continue a run that was cut, if there is one; closing the session aborts it."""
    if replica.is_run_cut:
        tasks.start_soon(replica.continue_run)
        await replica.begun.wait()


async def _keep_lease(live: LiveSession, replica: ReplicaSession) -> None:
    """Wait until the session is closed, or another replica has taken it."""

    async def close_when_lost() -> None:
        await replica.lost.wait()
        live.closing.set()

    async with anyio.create_task_group() as group:
        group.start_soon(replica.save_settled)
        group.start_soon(close_when_lost)
        await live.closing.wait()
        group.cancel_scope.cancel()
