"""The line below the prompt: who answers, what may run, and how full the window is."""

import unicodedata
from dataclasses import dataclass, replace

from clew.cli.paint import Paint
from clew.cli.sanitize import one_line, rows
from clew.core.context_state import Basis, ContextState, Status
from clew.core.events import ContextUpdated, Envelope, SessionUpdated
from clew.sdk.client import SessionSnapshot

_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.CRITICAL: "red"}
_BETWEEN = " · "
_LONGEST = 200
_SHORT_NAME = 12
_SHORT_MODEL = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a session stands."""

    model: str
    mode: str
    """The permission mode."""
    name: str = ""
    """What the session is called, if it has a name."""
    context: ContextState | None = None
    """The last reading; None before there is one."""


class StatusTracker:
    """Follows the events of a session; `standing` is where it stands now."""

    def __init__(self) -> None:
        self.standing = Standing(model="", mode="")

    @property
    def context(self) -> ContextState | None:
        """The last reading of the context window."""
        return self.standing.context

    def start(self, now: SessionSnapshot) -> None:
        """Take over the state of a session that was just opened."""
        self.standing = Standing(
            model=now.model, mode=str(now.mode), name=now.name, context=now.context
        )

    def update(self, envelope: Envelope) -> None:
        """Follow one event."""
        if envelope.task_id:
            return
        match envelope.event:
            case ContextUpdated(state=state):
                self.standing = replace(self.standing, context=state)
            case SessionUpdated() as new:
                self.standing = replace(
                    self.standing, model=new.model, mode=new.mode, name=new.name
                )
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of the line, and their colour."""

    text: str
    style: str


def status_line(standing: Standing, width: int) -> tuple[Piece, ...]:
    """Return the line in at most `width` columns.

    What is too much goes in this order: the tokens, most of the name, most of the model, the
    name, the mode, the model. The share of the window stays to the last. All of it is harmless.
    """
    short = replace(standing, name=one_line(standing.name, _SHORT_NAME))
    shorter = replace(short, model=one_line(standing.model, _SHORT_MODEL))
    nameless = replace(shorter, name="")
    modeless = replace(nameless, mode="")
    least = modeless if standing.context is None else replace(modeless, model="")
    full = _pieces(standing, tokens=True)
    if _size(full) <= width:
        return full
    for less in (standing, short, shorter, nameless, modeless, least):
        pieces = _pieces(less, tokens=False)
        if _size(pieces) <= width:
            return pieces
    return tuple(replace(piece, text=next(rows(piece.text, width))) for piece in pieces)


def painted(pieces: tuple[Piece, ...], paint: Paint) -> str:
    """Return the line in its colours."""
    return "".join(paint(piece.text, piece.style) for piece in pieces)


def _pieces(standing: Standing, *, tokens: bool) -> tuple[Piece, ...]:
    state = standing.context
    known = [one_line(text, _LONGEST) for text in (standing.model, standing.mode, standing.name)]
    words = [Piece(text, "dim") for text in known if text]
    if state is not None:
        words.append(Piece(f"context {state.used_percentage:.0f}%", _COLOURS[state.status]))
        if tokens:
            words.append(Piece(_tokens(state), "dim"))
    between = Piece(_BETWEEN, "dim")
    return tuple(piece for word in words for piece in (between, word))[1:]


def _tokens(state: ContextState) -> str:
    about = "" if state.basis is Basis.EXACT else "~"
    return f"{about}{state.used_tokens:,}/{state.max_tokens:,} tokens"


def _size(pieces: tuple[Piece, ...]) -> int:
    return sum(columns(piece.text) for piece in pieces)


def columns(text: str) -> int:
    """Return how many columns of a terminal a harmless line takes; wide characters take two."""
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(unicodedata.combining(sign) > 0 for sign in text)
