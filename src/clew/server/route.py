"""`Route`: one address of the server as a value, and the one handler that serves all of them.

The same values make the aiohttp routes, the OpenAPI document and the tables of the documentation.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from clew.core.json_text import decode_json
from clew.server.access.headers import EVENT_STREAM
from clew.server.errors import RequestError

if TYPE_CHECKING:
    from clew.server.service import Service

JSON = "application/json"
_TOPICS = ("commands", "context", "groups", "sessions", "tasks")

P = TypeVar("P", bound=Struct)
B = TypeVar("B")


class NoFields(Struct, frozen=True):
    """For routes without parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[P, B]):
    """A request, decoded."""

    service: "Service"
    """What this user may use: the sessions, and the options of the server."""
    params: P
    """The fields of the path and the query."""
    body: B
    request: web.Request

    @property
    def wants_stream(self) -> bool:
        """True when the client asks for server-sent events."""
        return EVENT_STREAM in self.request.headers.get("Accept", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A request that works, for the documentation; the tests carry it out.

    Words in braces stand for values that a client knows by then, such as `{session_id}`.
    """

    query: Mapping[str, str] = field(default_factory=dict)
    body: object = None


def fill_example(value: Any, values: Mapping[str, str]) -> Any:
    """Return a part of an example with these values in place of the words in braces."""
    match value:
        case str():
            return value.format_map(values)
        case Mapping():
            return {key: fill_example(one, values) for key, one in value.items()}
        case list():
            return [fill_example(one, values) for one in value]
        case _:
            return value


Handler: TypeAlias = Callable[[Call[P, B]], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Generic[P, B]):
    """One method of one address."""

    method: str
    path: str
    """Below `BASE`; `{name}` is a field of `params`."""
    summary: str
    handle: Handler[P, B]
    """Returns the result, or a response that is sent as it is."""
    params: type[P]
    body: type[B] | None = None
    """The type of the JSON body; None when the request has none."""
    result: Any = None
    """The type of the JSON result; None when the answer is empty."""
    status: int = 200
    media: tuple[str, ...] = (JSON,)
    """The media types of the answer; the first is the usual one."""
    errors: tuple[int, ...] = ()
    """The statuses of errors that this route can end with, beside those of all routes."""
    example: Example = Example()
    open_to_all: bool = False
    """True for a route that needs no token."""

    @property
    def name(self) -> str:
        """A unique name: the `operationId` of OpenAPI."""
        words = self.path.replace("{", "").replace("}", "").replace(".", "/").split("/")
        return "_".join([self.method.lower(), *filter(None, words)])

    @property
    def tag(self) -> str:
        """The topic."""
        words = self.path.split("/")
        known = [word for word in words if word in _TOPICS]
        return known[-1] if known else "server"

    @property
    def success(self) -> int:
        """The status of an answer without errors."""
        return 204 if self.result is None and self.status == 200 else self.status

    async def serve(self, request: web.Request, service: "Service") -> web.StreamResponse:
        """Decode the request, call the handler, and encode its result.

        Raises:
            RequestError: The request does not fit the route.
            ClewError: As the handler does.
        """
        params = _decode_params(request, self.params)
        body: Any = await _read_body(request, self.body) if self.body is not None else None
        result = await self.handle(Call(service=service, params=params, body=body, request=request))
        if isinstance(result, web.StreamResponse):
            return result
        if self.result is None:
            return web.Response(status=204)
        return web.Response(status=self.status, body=msgspec.json.encode(result), content_type=JSON)


AnyRoute: TypeAlias = Route[Any, Any]


def _decode_params(request: web.Request, kind: type[P]) -> P:
    given = {**request.query, **request.match_info}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(400, f"the parameters of the address are wrong: {error}") from error


async def _read_body(request: web.Request, kind: type[B]) -> B:
    data = await request.read()
    if data and request.content_type != JSON:
        raise RequestError(415, f"the body must be JSON, with the header Content-Type: {JSON}")
    try:
        return decode_json(data or b"{}", type=kind)
    except msgspec.DecodeError as error:
        raise RequestError(400, f"the body is wrong: {error}") from error
