"""Why a store does not do what it was asked, in the same words everywhere."""

from collections.abc import Sequence
from itertools import pairwise

from clew.core.entries import Entry
from clew.core.errors import SessionBusy, SessionNotFound
from clew.core.ids import SessionId


def not_found(session_id: SessionId) -> SessionNotFound:
    """Make the error for a session that is not there."""
    return SessionNotFound(f"there is no session {session_id}")


def taken(session_id: SessionId) -> SessionBusy:
    """Make the error for an id that is used already."""
    return SessionBusy(f"session {session_id} exists already")


def overtaken(session_id: SessionId) -> SessionBusy:
    """Make the error for entries whose numbers are used already."""
    return SessionBusy(f"session {session_id} was written to by another process; open it again")


def check_order(session_id: SessionId, entries: Sequence[Entry]) -> None:
    """Make sure that the entries of a batch are numbered upwards.

    Raises:
        SessionBusy: They are not, so two writers must have numbered them.
    """
    if any(one.id >= other.id for one, other in pairwise(entries)):
        raise overtaken(session_id)
