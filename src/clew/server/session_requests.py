"""What a client asked for when it created a session: kept with it, since the server may reopen it.

A stored session knows its model, permission mode and effort. What else the request said, such as
tools that must not run, is a field of its record: a session that the server has closed comes back
with the same limits. A fork has those of its original.
"""

import msgspec
from msgspec.structs import asdict, replace

from clew.core.errors import StoreError
from clew.sdk.server_values import SessionRequest
from clew.sdk.session_admin import StoredSession
from clew.sdk.session_spec import SessionSpec

REQUEST_FIELD = "server_request"
"""In `StoredSession.extra`."""
_KEPT = (
    "language",
    "agent",
    "append_system_prompt",
    "allowed_tools",
    "disallowed_tools",
    "max_turns",
    "budget_usd",
)


def apply_request(defaults: SessionSpec, request: SessionRequest) -> SessionSpec:
    """Return the spec of a new session; what the request leaves out is as the server says."""
    wanted = {key: value for key, value in asdict(request).items() if value or key == "cwd"}
    return replace(defaults, **wanted)


def make_request_field(request: SessionRequest) -> dict[str, object]:
    """Return what to store with a new session; empty if the request says nothing of it."""
    kept = SessionRequest(**{key: getattr(request, key) for key in _KEPT})
    fields = msgspec.to_builtins(kept)
    return {REQUEST_FIELD: fields} if fields else {}


def restore_request(defaults: SessionSpec, record: StoredSession) -> SessionSpec:
    """Return the spec that reopens a session: what its request said, and else what the server says.

    Raises:
        StoreError: The stored request cannot be read; without its limits, nothing is opened.
    """
    try:
        request = msgspec.convert(record.extra.get(REQUEST_FIELD, {}), SessionRequest)
    except msgspec.ValidationError as error:
        raise StoreError(
            f"the request that created the session {record.id} is damaged: {error}; continue it"
            " with clew --resume"
        ) from error
    kept = {key: value for key in _KEPT if (value := getattr(request, key))}
    # The session knows its own model and mode.
    own = dict.fromkeys(("provider", "base_url", "model", "permission_mode", "effort"), "")
    return replace(defaults, cwd=record.cwd, resume=record.id, **own, **kept, window=None)
