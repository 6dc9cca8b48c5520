"""Errors as HTTP answers: the status of each error, and its JSON body."""

import logging

import msgspec
from aiohttp import web

from clew.core.errors import (
    AccessDenied,
    AlreadyRunning,
    ClewError,
    ConfigError,
    ContextError,
    EventsExpired,
    ProviderError,
    QueueFull,
    SessionBusy,
    SessionClosed,
    SessionError,
    SessionNotFound,
    StoreError,
    TaskNotFound,
    UnknownCommand,
    UnknownModel,
)
from clew.sdk.client_json import ErrorBody, encode_error
from clew.server.access.refusals import STATUSES

logger = logging.getLogger(__name__)

_STATUSES: tuple[tuple[type[ClewError], int], ...] = (
    (SessionNotFound, 404),
    (TaskNotFound, 404),
    (UnknownCommand, 404),
    (UnknownModel, 404),
    (AccessDenied, STATUSES[AccessDenied]),
    (EventsExpired, 410),
    (QueueFull, 409),
    (AlreadyRunning, 409),
    (SessionBusy, 409),
    (SessionClosed, 409),
    (ContextError, 409),
    (StoreError, 503),
    (ProviderError, 502),
    (ConfigError, 409),
    (SessionError, 409),
)
"""The first class that an error is an instance of decides."""


class RequestError(Exception):
    """A request cannot be answered; carries the status and what the client should know."""

    def __init__(self, status: int, message: str, *, kind: str = "InvalidRequest") -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorBody(type=kind, message=message)


def find_status(error: ClewError) -> int:
    """Return the HTTP status of an error of a session."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def make_error_response(error: Exception) -> web.Response:
    """Return the answer for an error; what a client must not know is logged instead."""
    match error:
        case RequestError():
            return _respond(error.status, error.body)
        case ClewError():
            return _respond(find_status(error), encode_error(error))
        case web.HTTPException():
            return _respond_http(error)
        case _:
            logger.error("a request failed", exc_info=error)
            text = "the server failed on this request; its log says why"
            return _respond(500, ErrorBody(type="InternalError", message=text))


def _respond(status: int, body: ErrorBody) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(body), content_type="application/json"
    )


def _respond_http(error: web.HTTPException) -> web.Response:
    """Return an error that aiohttp found, such as an unknown path, as JSON."""
    kind, message = {
        404: ("NotFound", "there is nothing at this address; /api/v1/openapi.json lists all"),
        405: ("MethodNotAllowed", "this address does not support the method"),
        413: ("TooLarge", "the body is too large"),
    }.get(error.status, ("InvalidRequest", error.reason))
    response = _respond(error.status, ErrorBody(type=kind, message=message))
    if allow := error.headers.get("Allow"):
        response.headers["Allow"] = allow
    return response
