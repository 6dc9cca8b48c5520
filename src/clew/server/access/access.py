"""`AccessControl`: the middlewares that stand before every route, and what they share."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from clew.core.errors import AccessError, NotAuthenticated, RequestTooLarge
from clew.server.access.audit import AuditLine, AuditLog
from clew.server.access.authentication import Authenticator, Credentials
from clew.server.access.connections import ConnectionGuard, find_connection
from clew.server.access.headers import EVENT_STREAM, add_headers
from clew.server.access.limits import Rate, RateLimiter, StreamCounter, group_address, read_body
from clew.server.access.login import (
    LOGIN_PATH,
    LOGOUT_PATH,
    STYLE_PATH,
    answer_login,
    answer_logout,
    answer_style,
)
from clew.server.access.options import AccessOptions
from clew.server.access.origins import Client, check_host, check_origin, check_path, find_client
from clew.server.access.refusals import make_refusal
from clew.server.access.tokens import LoginCodes
from clew.server.access.users import User

_USER = web.RequestKey("clew_user", User)
_SESSION = web.RequestKey("clew_session", str)
_CLIENT = web.RequestKey("clew_client", Client)
_METHODS = {LOGIN_PATH: ("GET", "POST"), LOGOUT_PATH: ("POST",), STYLE_PATH: ("GET",)}
"""How signing in and out is asked for; other sites can make a browser send any `GET`."""
_MAX_FORM = 4_096
_LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read, so that the client sees the answer."""
_EVENTS_PATH = "/events"
"""The end of the addresses that answer with a stream, whatever the client accepts."""


def get_user(request: web.Request) -> User:
    """Return who sends a request to a route that needs a token."""
    return request[_USER]


def record_session(request: web.Request, session_id: str) -> None:
    """Name the session of a request whose address does not, for the audit log."""
    request[_SESSION] = session_id


class AccessControl:
    """Decides about every request before a route sees it, and records what came of it.

    Call `install` on the application, give `guard` to `loop.create_server`, and call `close` at
    the end.
    """

    def __init__(self, options: AccessOptions, *, clock: Callable[[], float] = time.time) -> None:
        """Prepare the checks.

        Raises:
            ConfigError: The audit log cannot be written.
        """
        limits = options.limits
        self._options = options
        self._clock = clock
        self._authenticator = Authenticator(options, clock)
        self._codes = LoginCodes(clock)
        usual = Rate(limits.requests_per_second, limits.request_burst)
        failed = Rate(limits.failures_per_second, limits.failure_burst)
        self._requests = RateLimiter(usual, time.monotonic)
        self._failures = RateLimiter(failed, time.monotonic)
        self._streams = StreamCounter(per_user=limits.streams_per_user, total=limits.max_streams)
        path = options.audit_file
        self._audit = AuditLog(path, clock=clock, secrets=(options.token,)) if path else None

    @property
    def middlewares(self) -> list[Middleware]:
        """The middlewares, outermost first."""
        return [self._record, self._check]

    def install(self, app: web.Application) -> None:
        """Put the middlewares before those of an application, and the headers on every answer."""
        app.middlewares[:0] = self.middlewares
        app.on_response_prepare.append(add_headers)
        app.on_response_prepare.append(self._record_stream)

    def guard(self, server: web.Server) -> ConnectionGuard:
        """Return what makes the connections of a server: give it to `loop.create_server`."""
        return ConnectionGuard(server, self._options.limits)

    @property
    def runner_options(self) -> dict[str, Any]:
        """Keyword arguments of `AppRunner`: the limits that aiohttp keeps itself."""
        limits = self._options.limits
        return {
            "keepalive_timeout": limits.keep_alive_seconds,
            "max_field_size": limits.max_header,
            "max_line_size": limits.max_header,
            "lingering_time": _LINGER_SECONDS,
            # A small body can unpack to gigabytes, and aiohttp unpacks it unasked.
            "auto_decompress": False,
            "logger": _make_logger(),
        }

    def make_login_path(self) -> str:
        """Return a path that signs the owner's browser in, once."""
        return f"{LOGIN_PATH}?code={self._codes.make()}"

    def close(self) -> None:
        """Close the audit log."""
        if self._audit is not None:
            self._audit.close()

    @web.middleware
    async def _record(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer refusals, and write the audit log."""
        begun = time.monotonic()
        try:
            response = await handler(request)
        except AccessError as error:
            self._write(request, make_refusal(error).status, type(error).__name__, begun)
            return make_refusal(error)
        except web.HTTPException as error:
            self._write(request, error.status, "failed", begun)
            raise
        except BaseException:
            self._write(request, 500, "failed", begun)
            raise
        self._write(request, response.status, "ok" if response.status < 400 else "failed", begun)
        return response

    @web.middleware
    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Decide whether a request reaches its route."""
        connection = find_connection(request)
        if connection is not None:
            connection.begin_request()
        headers = _join_headers(request)
        client = find_client(request.remote or "", request.scheme, headers, self._options.proxies)
        request[_CLIENT] = client
        check_path(request.raw_path.partition("?")[0], request.path)
        check_host(client, self._options.hosts)
        if request.path in _METHODS:
            return await self._sign(request, client, headers)
        if self._is_public(request.path):
            self._requests.take(f"address {group_address(client.address)}")
            return await handler(request)
        websocket = headers.get("Upgrade", "").lower() == "websocket"
        user = self._find_user(request, client, headers, websocket=websocket)
        request[_USER] = user
        if connection is not None:
            connection.accept()
        self._requests.take(f"user {user.name}")
        limits = self._options.limits
        wants_events = EVENT_STREAM in headers.get("Accept", "")
        streams = websocket or wants_events or request.path.endswith(_EVENTS_PATH)
        with self._streams.open(user.name) if streams else nullcontext():
            await read_body(request, limits.max_body, seconds=limits.body_seconds)
            return await handler(request)

    def _find_user(
        self, request: web.Request, client: Client, headers: Mapping[str, str], *, websocket: bool
    ) -> User:
        credentials = Credentials(
            method=request.method, headers=headers, cookies=request.cookies, websocket=websocket
        )
        try:
            user = self._authenticator.find_user(client, credentials)
        except NotAuthenticated:
            self._failures.take(group_address(client.address))
            raise
        return user

    async def _sign(
        self, request: web.Request, client: Client, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Sign a browser in or out."""
        self._requests.take(f"address {group_address(client.address)}")
        allowed = _METHODS[request.path]
        if request.method not in allowed:
            raise web.HTTPMethodNotAllowed(request.method, allowed)
        if request.method == "POST":
            if "Origin" in headers or "Sec-Fetch-Site" in headers:
                check_origin(client, request.method, headers)
            if request.can_read_body and request.content_length is None:
                raise RequestTooLarge("a form needs a Content-Length header")
            await read_body(request, _MAX_FORM, seconds=self._options.limits.body_seconds)
        if request.path == STYLE_PATH:
            return answer_style()
        if request.path == LOGOUT_PATH:
            return answer_logout(client)
        response = await answer_login(
            request, client, authenticator=self._authenticator, codes=self._codes
        )
        if response.status == 401:
            self._failures.take(group_address(client.address))
        return response

    def _is_public(self, path: str) -> bool:
        options = self._options
        return path in options.public_paths or path.startswith(options.public_folders)

    async def _record_stream(self, request: web.Request, response: web.StreamResponse) -> None:
        streams = response.content_type == EVENT_STREAM
        if streams or isinstance(response, web.WebSocketResponse):
            self._write(request, response.status, "opened", time.monotonic())

    def _write(self, request: web.Request, status: int, outcome: str, begun: float) -> None:
        user = request.get(_USER)
        refused = outcome not in ("ok", "opened", "failed")
        if self._audit is None or not (user or refused or request.path == LOGIN_PATH):
            return
        resource = request.match_info.route.resource
        client = request.get(_CLIENT)
        line = AuditLine(
            time=self._audit.format_time(),
            user=user.name if user else "",
            address=client.address if client else request.remote or "",
            method=request.method,
            route=resource.canonical if resource else request.path,
            session=request.get(_SESSION) or request.match_info.get("session_id", ""),
            status=status,
            outcome=outcome,
            milliseconds=round((time.monotonic() - begun) * 1000),
        )
        if refused:
            self._audit.write_refusal(line)
        else:
            self._audit.write(line)


def _make_logger() -> logging.Logger:
    """Return aiohttp's logger without broken requests: their text may hold a token."""
    logger = logging.getLogger(f"{__name__}.http")
    logger.addFilter(_is_worth_a_line)
    return logger


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError)


def _join_headers(request: web.Request) -> Mapping[str, str]:
    """Return the headers by name; repeated ones are joined by commas."""
    joined = request.headers.copy()
    for name in set(joined):
        values = joined.getall(name)
        if len(values) > 1:
            joined[name] = ", ".join(values)
    return joined
