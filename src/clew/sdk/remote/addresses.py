"""Where a server has the methods of `SessionClient`: HTTP method and path of each."""

import re
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_CONTEXT = "/sessions/{session_id}/context"
_TASK = "/sessions/{session_id}/tasks/{task_id}"
_GROUP = "/sessions/{session_id}/groups/{group_id}"


class Address(Struct, frozen=True):
    """The route of one method, below `/api/v1`."""

    method: str
    path: str
    unwrap: str = ""
    """The field of the answer that is the result; empty if the answer is."""


ADDRESSES = {
    "snapshot": Address("GET", "/sessions/{session_id}"),
    "submit": Address("POST", "/sessions/{session_id}/prompts", unwrap="run_id"),
    "execute": Address("POST", "/sessions/{session_id}/lines"),
    "answer": Address("POST", "/sessions/{session_id}/answers"),
    "set_model": Address("PUT", "/sessions/{session_id}/model"),
    "set_mode": Address("PUT", "/sessions/{session_id}/mode"),
    "set_name": Address("PUT", "/sessions/{session_id}/name"),
    "set_language": Address("PUT", "/sessions/{session_id}/language"),
    "history": Address("GET", "/sessions/{session_id}/history"),
    "commands": Address("GET", "/commands?session_id={session_id}"),
    "complete_path": Address("GET", "/sessions/{session_id}/paths"),
    "abort": Address("POST", "/sessions/{session_id}/abort"),
    "cancel_queue": Address("DELETE", "/sessions/{session_id}/queue", unwrap="cancelled"),
    "tasks.list": Address("GET", "/sessions/{session_id}/tasks"),
    "tasks.get": Address("GET", _TASK),
    "tasks.cancel": Address("POST", f"{_TASK}/cancel"),
    "tasks.close": Address("POST", f"{_TASK}/close"),
    "tasks.send": Address("POST", f"{_TASK}/send"),
    "tasks.read_log": Address("GET", f"{_TASK}/log"),
    "tasks.create_group": Address("POST", "/sessions/{session_id}/groups"),
    "tasks.list_groups": Address("GET", "/sessions/{session_id}/groups"),
    "tasks.get_group": Address("GET", _GROUP),
    "tasks.wait_group": Address("POST", f"{_GROUP}/wait"),
    "tasks.summarize_group": Address("GET", f"{_GROUP}/summary"),
    "context.state": Address("GET", _CONTEXT),
    "context.timeline": Address("GET", f"{_CONTEXT}/timeline"),
    "context.entries": Address("GET", f"{_CONTEXT}/entries"),
    "context.compaction": Address("GET", f"{_CONTEXT}/compactions/{{entry_id}}"),
    "context.preview": Address("POST", f"{_CONTEXT}/preview"),
    "context.compact": Address("POST", f"{_CONTEXT}/compact"),
    "context.undo": Address("POST", f"{_CONTEXT}/undo"),
    "context.pin": Address("PUT", f"{_CONTEXT}/pins/{{entry_id}}"),
    "context.unpin": Address("DELETE", f"{_CONTEXT}/pins/{{entry_id}}"),
    "context.recall": Address("GET", f"{_CONTEXT}/recall"),
    "context.simulate": Address("POST", f"{_CONTEXT}/simulation"),
}


class HttpCall(Struct, frozen=True):
    """A call as an HTTP request."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes | None


def encode_call(address: Address, session_id: str, params: Struct) -> HttpCall:
    """Return the request for a call: fields of the path, the query or the body."""
    fields: dict[str, Any] = msgspec.to_builtins(params)
    values = {"session_id": session_id}
    for name in _PLACEHOLDER.findall(address.path):
        if name not in values:
            values[name] = str(fields.pop(name))
    path = _PLACEHOLDER.sub(lambda found: quote(values[found[1]], safe=""), address.path)
    if address.method in ("POST", "PUT"):
        return HttpCall(address.method, path, {}, msgspec.json.encode(fields))
    return HttpCall(address.method, path, encode_query(fields), None)


def encode_query(fields: dict[str, Any]) -> dict[str, str]:
    """Return fields as a query; those without a value are left out."""
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in fields.items()
        if value is not None
    }
