"""How a refused request is answered: a status, and an error that says what to do."""

import math

import msgspec
from aiohttp import web

from clew.core.errors import (
    AccessDenied,
    AccessError,
    BodyBroken,
    NotAuthenticated,
    RateLimited,
    RequestTooLarge,
    RequestTooSlow,
    ServerBusy,
)
from clew.sdk.client_json import encode_error
from clew.server.access.headers import HEADERS

STATUSES: dict[type[AccessError], int] = {
    BodyBroken: 400,
    NotAuthenticated: 401,
    AccessDenied: 403,
    RequestTooSlow: 408,
    RequestTooLarge: 413,
    RateLimited: 429,
    ServerBusy: 503,
}
"""The status of each refusal."""


def make_refusal(error: AccessError) -> web.Response:
    """Return the answer to a refused request; the connection is closed after it."""
    response = web.Response(
        status=STATUSES.get(type(error), 403),
        body=msgspec.json.encode(encode_error(error)),
        content_type="application/json",
        headers=_headers(error),
    )
    response.force_close()
    return response


def format_refusal(error: AccessError) -> bytes:
    """Return the answer on a connection that no request was read from."""
    body = msgspec.json.encode(encode_error(error))
    headers = {
        **HEADERS,
        **_headers(error),
        "Connection": "close",
        "Content-Length": str(len(body)),
        "Content-Type": "application/json",
    }
    status = STATUSES.get(type(error), 403)
    lines = [f"HTTP/1.1 {status} {type(error).__name__}", *map(": ".join, headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _headers(error: AccessError) -> dict[str, str]:
    match error:
        case NotAuthenticated():
            return {"WWW-Authenticate": 'Bearer realm="clew"'}
        case RateLimited() | ServerBusy():
            return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
        case _:
            return {}
