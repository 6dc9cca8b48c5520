"""Why the prompt of a session ended, and which session is opened next."""

from dataclasses import dataclass
from typing import TypeAlias

from clew.sdk.client import NewSession, OpenSession, PickSession


@dataclass(frozen=True, slots=True)
class Quit:
    """The user leaves."""


@dataclass(frozen=True, slots=True)
class Open:
    """Another session is opened; a new one for an empty id."""

    session_id: str


@dataclass(frozen=True, slots=True)
class Pick:
    """The user chooses a session: one of these, or any if there are none."""

    candidates: tuple[str, ...]


Leave: TypeAlias = Quit | Open | Pick


def leave_for(effect: object) -> Leave | None:
    """Return where the effect of a command leads; None if it does not leave the session."""
    match effect:
        case NewSession():
            return Open("")
        case OpenSession(session_id):
            return Open(session_id)
        case PickSession(candidates):
            return Pick(candidates)
        case _:
            return None
