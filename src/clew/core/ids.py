"""Identifiers of sessions, entries and tool calls."""

import os
from typing import NewType

EntryId = NewType("EntryId", int)
NO_ENTRY = EntryId(0)
"""Stands for an entry that does not exist."""
"""Position of an entry in its journal, starting at 1: short enough for a model to quote."""

CallId = NewType("CallId", str)
"""The provider's id of a tool call; unique within a journal."""

SessionId = NewType("SessionId", str)

RunId = NewType("RunId", str)
"""Names one prompt from the moment it is accepted to its result."""


def new_session_id() -> SessionId:
    """Return a new session id that is safe as a file name."""
    return SessionId(os.urandom(6).hex())


def new_call_id() -> CallId:
    """Return an id for a tool call that the provider sent without one."""
    return CallId(f"call_{os.urandom(8).hex()}")


def new_run_id() -> RunId:
    """Return a fresh id for a run."""
    return RunId(f"run_{os.urandom(6).hex()}")
