"""The OpenAPI document of the server, made from the table of routes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from clew._version import __version__
from clew.sdk.client_json import ErrorBody
from clew.sdk.server_values import BASE
from clew.server.access.headers import EVENT_STREAM
from clew.server.route import JSON, AnyRoute, fill_example

Schema: TypeAlias = dict[str, Any]

_REF = "#/components/schemas/{name}"
_ERRORS = {
    400: "The request is wrong; the message says what.",
    401: "The token is missing or wrong.",
    403: "The request is not allowed.",
    404: "There is no such session, task or command.",
    405: "The address does not support the method.",
    408: "The body did not arrive in time.",
    409: "The session cannot do this now: it is busy, or its state does not allow it.",
    410: "Events are missing: take a new snapshot, and continue from its `seq`.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    426: "The address speaks WebSocket only.",
    429: "Too many requests; the header `Retry-After` says when to try again.",
    502: "The provider of the model failed.",
    503: "The server or the store of sessions cannot take this now; try again later.",
}
_SAMPLES = {
    "group_id": "group-5d1c07aa",
    "model": "anthropic/claude-sonnet-5",
    "request_id": "0c9be1f7a2d3",
    "seq": "1794843046188",
    "session_id": "3f2a9c1b7d4e",
    "task_id": "agent-9f2108e1",
    "entry_id": "12",
}
"""What the examples of the document say where a client has values of its own."""
_ALWAYS = (401, 403, 408, 429, 503)
_WITH_PARAMS = (400,)
_WITH_BODY = (400, 413, 415)
_DESCRIPTION = (
    "Sessions with a language model, for any number of clients at once. Take a snapshot of a"
    " session, then follow its events after the snapshot's `seq`; every change arrives there."
)


def make_document(routes: Sequence[AnyRoute]) -> Schema:
    """Return the OpenAPI 3.1 document that describes the routes."""
    kinds = [ErrorBody, *(kind for route in routes for kind in _list_kinds(route))]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template=_REF, schema_hook=_describe_object
    )
    found = dict(zip(map(_key, kinds), schemas, strict=True))
    for route in routes:
        if route.body is not None:
            _loosen_tags(found[_key(route.body)], components)
    addresses = {_name(found[_key(route.params)]) for route in routes}
    paths: dict[str, Schema] = {}
    for route in routes:
        operation = _describe(route, found, components)
        paths.setdefault(BASE + route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Clew", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": {name: one for name, one in components.items() if name not in addresses},
            "responses": _list_errors(found[_key(ErrorBody)]),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "clew"},
            },
        },
        "security": [{"token": []}, {"cookie": []}],
    }


def _describe_object(kind: type) -> Schema:
    """Return the schema of `object`, which stands for any JSON value."""
    if kind is object:
        return {"description": "Any JSON value."}
    raise NotImplementedError(f"{kind} has no schema")


def _loosen_tags(schema: Schema, components: Mapping[str, Schema]) -> None:
    """Make the tags of values optional that can have one type only: decoders do not need them."""
    body = components[_name(schema)]
    for field in body["properties"].values():
        kind = components.get(_name(field.get("items", field)), {})
        for name, content in kind.get("properties", {}).items():
            if len(content.get("enum", ())) == 1 and name in kind["required"]:
                kind["required"] = [one for one in kind["required"] if one != name]


def _list_kinds(route: AnyRoute) -> Iterable[Any]:
    yield route.params
    if route.body is not None:
        yield route.body
    if route.result is not None:
        yield route.result


def _key(kind: Any) -> str:
    return repr(kind)


def _name(schema: Schema) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _describe(
    route: AnyRoute, found: Mapping[str, Schema], components: Mapping[str, Schema]
) -> Schema:
    address = components[_name(found[_key(route.params)])]
    operation: Schema = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "responses": _list_responses(route, found, has_params=bool(address["properties"])),
    }
    if parameters := _list_parameters(route, address):
        operation["parameters"] = parameters
    if route.body is not None:
        media: Schema = {"schema": found[_key(route.body)]}
        if route.example.body is not None:
            media["example"] = fill_example(route.example.body, _SAMPLES)
        required = bool(components[_name(found[_key(route.body)])].get("required"))
        operation["requestBody"] = {"content": {JSON: media}, "required": required}
    if route.open_to_all:
        operation["security"] = []
    return operation


def _list_parameters(route: AnyRoute, address: Schema) -> list[Schema]:
    parameters: list[Schema] = []
    for name, schema in address["properties"].items():
        in_path = f"{{{name}}}" in route.path
        parameter = {
            "name": name,
            "in": "path" if in_path else "query",
            "required": in_path or name in address.get("required", ()),
            "schema": _drop_null(schema),
        }
        if name in route.example.query:
            text = fill_example(route.example.query[name], _SAMPLES)
            parameter["example"] = int(text) if text.isdecimal() else text
        parameters.append(parameter)
    return parameters


def _drop_null(schema: Schema) -> Schema:
    """Return the schema of a parameter that may be missing: an address has no null."""
    choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(choices) != 1:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**choices[0], **rest}


def _list_responses(
    route: AnyRoute, found: Mapping[str, Schema], *, has_params: bool
) -> dict[str, Schema]:
    statuses = {*route.errors, *(() if route.open_to_all else _ALWAYS)}
    if has_params:
        statuses.update(_WITH_PARAMS)
    if route.body is not None:
        statuses.update(_WITH_BODY)
    responses = {str(route.success): _describe_success(route, found)}
    if EVENT_STREAM in route.media and JSON in route.media:
        responses["200"] = {"description": "The events of the run.", "content": _STREAM}
    for status in sorted(statuses):
        responses[str(status)] = {"$ref": f"#/components/responses/Error{status}"}
    return responses


def _list_errors(error: Schema) -> dict[str, Schema]:
    content = {JSON: {"schema": error}}
    return {
        f"Error{status}": {"description": text, "content": content}
        for status, text in _ERRORS.items()
    }


_STREAM: Schema = {
    EVENT_STREAM: {
        "schema": {
            "type": "string",
            "description": "Server-sent events: `id` is the sequence number, `event` the name of"
            " the event, `data` an Envelope as JSON.",
        }
    }
}


def _describe_success(route: AnyRoute, found: Mapping[str, Schema]) -> Schema:
    if route.result is None:
        return {"description": "WebSocket." if route.success == 101 else "Done."}
    text: Schema = {"type": "string"}
    content: Schema = {}
    for media in route.media:
        if media != EVENT_STREAM:
            content[media] = {"schema": found[_key(route.result)] if media == JSON else text}
        elif media == route.media[0]:
            content.update(_STREAM)
    return {"description": "The result.", "content": content}
