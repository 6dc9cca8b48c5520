"""The status line below the prompt: model, permission mode, name, and use of the context."""

import unicodedata
from dataclasses import dataclass, replace

from clew.cli.paint import Paint
from clew.core.context_state import Basis, ContextState, Status
from clew.core.events import ContextUpdated, Envelope, SessionUpdated
from clew.core.sanitize import sanitize_line, split_rows
from clew.sdk.client import SessionSnapshot

_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.CRITICAL: "red"}
_SEPARATOR = " · "
_MAX_LENGTH = 200
_SHORT_NAME = 12
_SHORT_MODEL = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """What the status line shows of a session."""

    model: str
    mode: str
    """The permission mode."""
    name: str = ""
    """The name of the session, if it has one."""
    context: ContextState | None = None
    """The last known state of the context window."""


class StatusTracker:
    """Updates `status` from the events of a session."""

    def __init__(self) -> None:
        self.status = SessionStatus(model="", mode="")

    @property
    def context(self) -> ContextState | None:
        """The last known state of the context window."""
        return self.status.context

    def start(self, now: SessionSnapshot) -> None:
        """Take the state of a session that was just opened."""
        self.status = SessionStatus(
            model=now.model, mode=str(now.mode), name=now.name, context=now.context
        )

    def update(self, envelope: Envelope) -> None:
        """Apply one event."""
        if envelope.task_id:
            return
        match envelope.event:
            case ContextUpdated(state=state):
                self.status = replace(self.status, context=state)
            case SessionUpdated() as new:
                self.status = replace(self.status, model=new.model, mode=new.mode, name=new.name)
            case _:
                pass


@dataclass(frozen=True, slots=True)
class StatusPart:
    """A part of the line, and its colour."""

    text: str
    style: str


def status_line(status: SessionStatus, width: int) -> tuple[StatusPart, ...]:
    """Return the line in at most `width` columns.

    A line that is too long loses parts in this order: the tokens, most of the name, most of the
    model, the name, the mode, the model. The percentage stays. The text is sanitized.
    """
    short = replace(status, name=sanitize_line(status.name, _SHORT_NAME))
    shorter = replace(short, model=sanitize_line(status.model, _SHORT_MODEL))
    nameless = replace(shorter, name="")
    modeless = replace(nameless, mode="")
    least = modeless if status.context is None else replace(modeless, model="")
    full = _make_parts(status, tokens=True)
    if _count_all(full) <= width:
        return full
    for less in (status, short, shorter, nameless, modeless, least):
        parts = _make_parts(less, tokens=False)
        if _count_all(parts) <= width:
            return parts
    return tuple(replace(part, text=next(split_rows(part.text, width))) for part in parts)


def paint_parts(parts: tuple[StatusPart, ...], paint: Paint) -> str:
    """Return the line with its colours."""
    return "".join(paint(part.text, part.style) for part in parts)


def _make_parts(status: SessionStatus, *, tokens: bool) -> tuple[StatusPart, ...]:
    state = status.context
    texts = [sanitize_line(text, _MAX_LENGTH) for text in (status.model, status.mode, status.name)]
    found = [StatusPart(text, "dim") for text in texts if text]
    if state is not None:
        found.append(StatusPart(f"context {state.used_percentage:.0f}%", _COLOURS[state.status]))
        if tokens:
            found.append(StatusPart(_format_tokens(state), "dim"))
    separator = StatusPart(_SEPARATOR, "dim")
    return tuple(part for one in found for part in (separator, one))[1:]


def _format_tokens(state: ContextState) -> str:
    approximately = "" if state.basis is Basis.EXACT else "~"
    return f"{approximately}{state.used_tokens:,}/{state.max_tokens:,} tokens"


def _count_all(parts: tuple[StatusPart, ...]) -> int:
    return sum(count_columns(part.text) for part in parts)


def count_columns(text: str) -> int:
    """Return how many terminal columns a sanitized line takes; wide characters take two."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)
