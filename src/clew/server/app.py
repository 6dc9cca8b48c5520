"""The aiohttp application: routes, errors as JSON, and the sessions of each user."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware
from anyio.abc import TaskGroup
from msgspec import structs

from clew.core.errors import SessionBusy
from clew.sdk.project_stores import ProjectStores
from clew.sdk.replicas import is_held_elsewhere
from clew.sdk.server_values import BASE
from clew.sdk.session_store import VARIABLE, separate_address
from clew.server.access import AccessControl, RequestLimits, User, get_user
from clew.server.access.users import OWNER_USER
from clew.server.errors import make_error_response
from clew.server.event_stream import Streams
from clew.server.forward import Forwarder
from clew.server.live_sessions import LiveSessions
from clew.server.metrics import Metrics
from clew.server.openapi import make_document
from clew.server.options import ServerOptions
from clew.server.replicas import Replicas
from clew.server.route import AnyRoute
from clew.server.routes import ROUTES
from clew.server.service import Service
from clew.server.services import Services
from clew.server.session_slots import SessionSlots
from clew.server.static import add_page

_SESSION_ID = "{session_id:(?!search(?:/|$))[^{}/]+}"
"""Any id but the word that stands in the same place of another route."""
_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AppState:
    """What the application holds while it runs."""

    def __init__(self, options: ServerOptions, tasks: TaskGroup) -> None:
        self.options = options
        self.access = AccessControl(options.access) if options.access is not None else None
        self.metrics = Metrics()
        self.streams = Streams(heartbeat=options.heartbeat_seconds, stall=options.stall_seconds)
        self._tasks = tasks
        self._slots = SessionSlots(options.max_sessions)
        self.services = Services(
            self._make_service,
            idle_seconds=options.idle_seconds,
            keep=options.replica is not None,
        )
        self._forwarder = Forwarder(self.streams)
        self.replicas: Replicas | None = None
        if options.replica is not None:
            self.replicas = Replicas(
                options.replica,
                services=self.services.by_user,
                find_service=self.find_service,
                forwarder=self._forwarder,
                tasks=tasks,
            )
        tasks.start_soon(self.streams.watch)
        tasks.start_soon(self.services.watch)

    async def join(self, address: str) -> None:
        """Join the replicas that share the store; this one listens for them at `address`.

        Raises:
            ConfigError: The store cannot be shared.
            StoreError: It cannot be used.
        """
        assert self.replicas is not None  # noqa: S101 - a mistake of the caller
        await self._forwarder.start()
        await self.replicas.start(OWNER_USER, address)

    def find_service(self, user: User = OWNER_USER) -> Service:
        """Return what a user may use."""
        return self.services.find(user)

    async def aclose(self) -> None:
        """End all streams, then close all sessions."""
        self.streams.stop()
        if self.replicas is not None:
            await self.replicas.hand_over()
        await self.services.close_sessions()
        if self.replicas is not None:
            await self.replicas.aclose()
            await self._forwarder.aclose()
        await self.services.aclose()
        if self.access is not None:
            self.access.close()

    def _make_service(self, user: User) -> Service:
        options = _for_user(self.options, user)
        roots = options.roots or (options.defaults.cwd,)
        stores = ProjectStores(
            [Path(root) for root in roots],
            environ=options.environ,
            address=options.defaults.store,
            silent_after=options.replica.silent_after if options.replica else None,
        )
        sessions = LiveSessions(stores, self._tasks, options, self._slots)
        return Service(
            sessions=sessions,
            options=options,
            streams=self.streams,
            metrics=self.metrics,
            document=_make_document,
        )


@cache
def _make_document() -> bytes:
    """Return the OpenAPI document. The routes do not change, so it is made once, when asked for."""
    return msgspec.json.encode(make_document(ROUTES))


def make_app(state: AppState) -> web.Application:
    """Return the application; `state` must be closed by the caller."""
    app = web.Application(
        middlewares=[_answer_errors(state)], client_max_size=_find_max_body(state.options)
    )
    if state.access is not None:
        state.access.install(app)
    for route in ROUTES:
        app.router.add_route(route.method, BASE + _find_path(route), _make_handler(route, state))
    add_page(app)
    return app


def make_replica_app(state: AppState, replicas: Replicas) -> web.Application:
    """Return the application for requests that other replicas forward."""
    app = web.Application(
        middlewares=[_answer_errors(state)], client_max_size=_find_max_body(state.options)
    )
    for route in ROUTES:
        app.router.add_route(
            route.method, BASE + _find_path(route), _make_replica_handler(route, replicas)
        )
    return app


def _find_max_body(options: ServerOptions) -> int:
    return (options.access.limits if options.access is not None else RequestLimits()).max_body


def _find_path(route: AnyRoute) -> str:
    return route.path.replace("{session_id}", _SESSION_ID)


def _make_handler(route: AnyRoute, state: AppState) -> _Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        has_user = state.access is not None and not route.open_to_all
        user = get_user(request) if has_user else OWNER_USER
        with state.services.use(user) as service:
            if state.replicas is None:
                return await route.serve(request, service)
            return await _serve_anywhere(route, request, service, (state.replicas, user))

    return handle


async def _serve_anywhere(
    route: AnyRoute, request: web.Request, service: Service, place: tuple[Replicas, User]
) -> web.StreamResponse:
    """Answer a request here, or have the replica answer that has the session."""
    replicas, user = place
    while True:
        if (answer := await replicas.forward(request, service, user)) is not None:
            return answer
        try:
            return await route.serve(request, service)
        except SessionBusy as error:
            # Another replica has opened it at the same time.
            if not is_held_elsewhere(error) or not await replicas.has_peer_with(request, service):
                raise


def _make_replica_handler(route: AnyRoute, replicas: Replicas) -> _Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await route.serve(request, await replicas.admit(request))

    return handle


def _for_user(options: ServerOptions, user: User) -> ServerOptions:
    """Return the options with a store that no other user has."""
    if not user.namespace:
        return options
    address = separate_address(options.defaults.store, user.namespace, options.environ)
    return replace(
        options,
        defaults=structs.replace(options.defaults, store=address),
        environ={**options.environ, VARIABLE: address},
    )


def _answer_errors(state: AppState) -> Middleware:
    @web.middleware
    async def answer(request: web.Request, handler: _Handler) -> web.StreamResponse:
        start, status = time.monotonic(), 499
        try:
            response = await handler(request)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - the server's handler: each error has an answer
            response = make_error_response(error)
            status = response.status
        else:
            status = response.status
        finally:
            resource = request.match_info.route.resource
            path = resource.canonical if resource is not None else "other"
            state.metrics.count(request.method, path, status, seconds=time.monotonic() - start)
        return response

    return answer
