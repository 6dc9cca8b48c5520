"""Routes that call one method of `SessionClient`: fields of the path, the query and the body.

`clew.sdk.client_json.METHODS` says what a method takes and returns, and
`clew.sdk.remote.addresses.ADDRESSES` where it is. A field that the path names comes from there; the
others come from the body of a POST or PUT, and else from the query.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

from clew.sdk.client_json import METHODS
from clew.sdk.remote.addresses import ADDRESSES
from clew.server.route import AnyRoute, Call, Example, Route

SESSION_ERRORS = (404, 409, 503)
"""What can happen to every route of a session: it does not exist, is busy, cannot be opened."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class SessionPath(Struct, frozen=True, kw_only=True):
    """The session that a route is about."""

    session_id: str


def make_method_route(name: str, *, summary: str, example: Example | None = None) -> AnyRoute:
    """Return the route that calls a method of the session in the path.

    Args:
        name: The key in `METHODS` and `ADDRESSES`.
        summary: What the route does.
        example: A request that works.
    """
    called, address = METHODS[name], ADDRESSES[name]
    method, path = address.method, address.path
    fields = {field.name: field for field in msgspec.structs.fields(called.params)}
    in_path = {key: fields[key] for key in _PLACEHOLDER.findall(path) if key in fields}
    rest = {key: field for key, field in fields.items() if key not in in_path}
    has_body = method in ("POST", "PUT") and bool(rest)
    in_address = in_path if has_body else fields
    params = _define(f"{name} address", in_address, base=SessionPath)
    body: type[Struct] | None = None
    if has_body:
        body = _define(f"{name} body", rest) if in_path else called.params

    async def handle(call: Call[Any, Any]) -> object:
        values = {key: getattr(call.params, key) for key in in_address}
        if has_body:
            values |= {key: getattr(call.body, key) for key in rest}
        async with call.service.sessions.use(call.params.session_id) as live:
            return await called.call(live.client, called.params(**values))

    return Route(
        method=method,
        path=path,
        summary=summary,
        handle=handle,
        params=params,
        body=body,
        result=called.result,
        errors=SESSION_ERRORS,
        example=example or Example(),
    )


def _define(
    words: str, fields: dict[str, msgspec.structs.FieldInfo], *, base: type[Struct] | None = None
) -> type[Struct]:
    """Return a Struct of some fields of another one."""
    name = "".join(word.capitalize() for word in re.split(r"\W|_", words))
    return msgspec.defstruct(
        name,
        [_describe(field) for field in fields.values()],
        bases=(base,) if base is not None else None,
        frozen=True,
        kw_only=True,
        module=__name__,
    )


def _describe(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    if field.default is not msgspec.NODEFAULT:
        return field.name, field.type, field.default
    return field.name, field.type
