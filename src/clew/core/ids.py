"""Names for the things a session refers to."""

from typing import NewType
from uuid import uuid4

EntryId = NewType("EntryId", int)
"""Place of an entry in its journal, counted from 1: short enough for a model to quote."""

CallId = NewType("CallId", str)
"""What a provider named one tool call; unique within a journal."""

SessionId = NewType("SessionId", str)


def new_session_id() -> SessionId:
    """Return a fresh session id that is safe as a file name."""
    return SessionId(uuid4().hex[:12])


def new_call_id() -> CallId:
    """Return an id for a call that no provider named."""
    return CallId(f"call_{uuid4().hex[:16]}")
