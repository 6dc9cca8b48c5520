"""`Replicas`: several servers on one PostgreSQL database; each answers any request.

A session is open in one replica, which has its lease. The others forward requests to it. Each
replica is a row with an address, a secret and a heartbeat; requests go to addresses of these rows
only. When a replica is silent for too long, the others take over its sessions and continue the
runs that were cut.
"""

import hmac
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import anyio
import msgspec
from aiohttp import web
from anyio.abc import TaskGroup
from msgspec import Struct

from clew.core.errors import ClewError, SessionBusy, SessionNotFound, StoreError
from clew.core.ids import SessionId
from clew.core.json_text import decode_json
from clew.sdk.replicas import ProcessKey, ReplicaRow, ReplicaStore, find_replicas
from clew.server.access.users import User, make_user
from clew.server.errors import RequestError
from clew.server.forward import MISDIRECTED, USER_HEADER, Forwarder, Peer, PeerFailed
from clew.server.live_sessions import LiveSession
from clew.server.options import ReplicaOptions
from clew.server.service import Service

logger = logging.getLogger(__name__)

_BEATS = 5
"""Heartbeats in the time after which a replica counts as dead."""
_SLOWEST_BEAT = 2.0
_RETRY_SECONDS = 0.1
_MORE_SECONDS = 10.0
"""How long a request waits for a successor after a replica counts as dead."""
_SAFE = ("GET", "HEAD")

FindService: TypeAlias = Callable[[User], Service]


class _SessionField(Struct, frozen=True):
    session_id: str = ""


async def find_session_id(request: web.Request) -> str:
    """Return the session that a request is about; empty if it is about none."""
    in_address = request.match_info.get("session_id") or request.query.get("session_id")
    if in_address or request.method != "POST" or "/commands/" not in request.path:
        return in_address or ""
    try:
        return decode_json(await request.read(), type=_SessionField).session_id
    except msgspec.DecodeError:
        return ""


class ReplicaRegistry:
    """The replicas that are registered: this one, and those that requests can be sent to.

    Args:
        store: Where they are registered.
        address: Where this one listens for the others.
        secret: What it asks them for.
        silent_after: Seconds without a heartbeat after which it counts as dead.
    """

    def __init__(
        self, store: ReplicaStore, *, address: str, secret: str, silent_after: float
    ) -> None:
        self._store = store
        self._row = ReplicaRow(
            replica=os.urandom(8).hex(),
            address=address,
            secret=secret,
            process=store.process,
            host="",
            silent_after=silent_after,
        )
        self._peers: dict[ProcessKey, Peer] = {}
        self._has_left = False

    async def beat(self, users: Iterable[User]) -> None:
        """Note that this replica is alive, and whose sessions it serves."""
        if not self._has_left:
            names = tuple(sorted(user.name for user in users))
            self._row = msgspec.structs.replace(self._row, users=names)
            await self._store.beat(self._row)

    async def leave(self, *, has_heirs: bool) -> None:
        """Unregister this replica; `has_heirs` has the others look for sessions that it left."""
        self._has_left = True
        if has_heirs:
            await self._store.beat(msgspec.structs.replace(self._row, silent_after=0.0))
        else:
            await self._store.remove(self._row.replica)

    async def remove(self, dead: ReplicaRow) -> None:
        """Forget a replica."""
        await self._store.remove(dead.replica)

    async def list_dead(self) -> list[ReplicaRow]:
        """Look who is alive; return the others."""
        rows = [
            row for row in await self._store.list_replicas() if row.replica != self._row.replica
        ]
        alive = {row.process: row for row in rows if not row.is_dead}
        for process, peer in list(self._peers.items()):
            if process not in alive or alive[process].secret != peer.secret:
                self._peers.pop(process).lost.set()
        for process, row in alive.items():
            self._peers.setdefault(process, Peer(row.address, row.secret))
        return [row for row in rows if row.is_dead]

    async def find(self, process: ProcessKey) -> Peer | None:
        """Return the replica of a process; None if it is not registered."""
        if process not in self._peers:
            await self.list_dead()
        return self._peers.get(process)


class Replicas:
    """This replica and the others.

    Args:
        options: Of this replica.
        services: The services of all users that this server has made; may grow.
        find_service: Returns the service of a user.
        forwarder: Sends requests to others.
        tasks: Where the heartbeat and takeovers run.
    """

    def __init__(
        self,
        options: ReplicaOptions,
        *,
        services: Mapping[User, Service],
        find_service: FindService,
        forwarder: Forwarder,
        tasks: TaskGroup,
    ) -> None:
        self._options = options
        self._services = services
        self._find_service = find_service
        self._forwarder = forwarder
        self._tasks = tasks
        self._secret = os.urandom(32).hex()
        self._registry: ReplicaRegistry | None = None
        """None until it has joined."""
        self._has_heirs = False
        """True when others should continue a session of this replica."""
        self._taking: set[str] = set()
        """Dead replicas whose sessions are being taken over."""
        self._checked = time.monotonic()
        """When this replica last saw which leases it has."""

    async def start(self, owner: User, address: str) -> None:
        """Register this replica, and watch the others from now on.

        Args:
            owner: The user in whose store the replicas are registered.
            address: Where this one listens for the others.

        Raises:
            ConfigError: The store cannot be shared.
            StoreError: It cannot be used.
        """
        registry = ReplicaRegistry(
            _find_leases(self._find_service(owner)),
            address=address,
            secret=self._secret,
            silent_after=self._options.silent_after,
        )
        await registry.beat(self._services)
        self._registry = registry
        self._tasks.start_soon(self._watch, registry)

    async def hand_over(self) -> None:
        """Let the others continue what runs here; call it before the sessions are closed."""
        for service in self._services.values():
            for live in service.sessions.list_open():
                if live.replica is None or not live.client.is_executing():
                    continue
                try:
                    await live.replica.hand_over()
                except StoreError as error:
                    logger.warning("the session %s is not handed over: %s", live.id, error)
                self._has_heirs = True

    async def aclose(self) -> None:
        """Leave; the sessions must be closed."""
        if self._registry is None:
            return
        try:
            await self._registry.leave(has_heirs=self._has_heirs)
        except StoreError as error:
            logger.warning("this replica is still registered: %s", error)

    async def forward(
        self, request: web.Request, service: Service, user: User
    ) -> web.StreamResponse | None:
        """Have the replica that has the session answer; None if this one should.

        Raises:
            RequestError: The other replica does not answer.
        """
        session_id = await find_session_id(request)
        if not session_id:
            return None
        give_up = time.monotonic() + self._options.silent_after + _MORE_SECONDS
        while (peer := await self._find_holder(service, session_id)) is not None:
            try:
                return await self._forwarder.forward(request, peer, user.name)
            except PeerFailed as failure:
                if failure.was_sent and request.method not in _SAFE:
                    raise RequestError(
                        503,
                        "the replica that has the session stopped before it answered; look at the"
                        " session before you repeat the request",
                        kind="ReplicaLost",
                    ) from failure
            if time.monotonic() > give_up:
                raise RequestError(
                    503, "the replica that has the session does not answer", kind="ReplicaLost"
                )
            await anyio.sleep(_RETRY_SECONDS)
        return None

    async def has_peer_with(self, request: web.Request, service: Service) -> bool:
        """Return whether another replica has the session of a request."""
        return await self._find_holder(service, await find_session_id(request)) is not None

    async def admit(self, request: web.Request) -> Service:
        """Return the service that a request of another replica is for.

        Raises:
            RequestError: It does not know the secret, or the session is not here.
        """
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self._secret}".encode()):
            raise RequestError(
                401, "this address is for replicas of the server", kind="NotAuthenticated"
            )
        service = self._find_service(make_user(request.headers.get(USER_HEADER, "")))
        session_id = await find_session_id(request)
        if await self._find_own(service, session_id) is None:
            raise RequestError(MISDIRECTED, "the session is not open here", kind="Misdirected")
        return service

    async def _find_own(self, service: Service, session_id: str) -> LiveSession | None:
        """Return a session that is open here, and not in another replica since."""
        if time.monotonic() - self._checked >= self._options.silent_after:
            # This process was paused: the others may have taken it for dead.
            await self._check_leases()
        return service.sessions.get(session_id)

    async def _find_holder(self, service: Service, session_id: str) -> Peer | None:
        if await self._find_own(service, session_id) is not None:
            return None
        leases = _find_leases(service)
        holder = await leases.find_holder(SessionId(session_id))
        if self._registry is None or holder is None or holder == leases.process:
            return None
        return await self._registry.find(holder)

    async def _watch(self, registry: ReplicaRegistry) -> None:
        interval = min(_SLOWEST_BEAT, self._options.silent_after / _BEATS)
        while True:
            await anyio.sleep(interval)
            try:
                await registry.beat(self._services)
                await self._check_leases()
                for dead in await registry.list_dead():
                    if dead.replica not in self._taking:
                        self._taking.add(dead.replica)
                        self._tasks.start_soon(self._take_over, dead, registry)
            except StoreError as error:
                logger.warning("the other replicas cannot be seen: %s", error)

    async def _check_leases(self) -> None:
        """Close the sessions that another replica has taken."""
        checked = time.monotonic()
        for service in list(self._services.values()):
            held = [live for live in service.sessions.list_open() if live.replica is not None]
            if not held:
                continue
            own = await _find_leases(service).list_own()
            for live in held:
                replica = live.replica
                if replica is not None and own.get(SessionId(live.id)) != replica.epoch:
                    replica.lose()
                    live.closing.set()
        self._checked = checked

    async def _take_over(self, dead: ReplicaRow, registry: ReplicaRegistry) -> None:
        """Open the sessions of a dead replica, which continues their runs; then forget it."""
        try:
            for name in dead.users:
                service = self._find_service(make_user(name))
                for session_id in await _find_leases(service).list_held(dead.process):
                    await _take(service, session_id)
            await registry.remove(dead)
        except ClewError as error:
            logger.warning("the sessions of a dead replica are not taken over yet: %s", error)
        finally:
            self._taking.discard(dead.replica)


async def _take(service: Service, session_id: SessionId) -> None:
    """Open a session; it is closed again where no run has to be continued."""
    try:
        if await _find_leases(service).find_holder(session_id) is not None:
            return
        async with service.sessions.use(session_id) as live:
            pass
        if not live.is_busy:
            live.closing.set()
    except (SessionNotFound, SessionBusy):
        # It is in a folder that this server does not serve, or another replica was faster.
        return
    except (ClewError, RequestError) as error:
        logger.warning("the session %s is not taken over: %s", session_id, error)


def _find_leases(service: Service) -> ReplicaStore:
    return find_replicas(service.sessions.stores.open_shared())
