"""The status line: model, mode, session, use of the context, cost, and what is waiting."""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace

from clew.core.context_state import Basis, ContextState, Status
from clew.core.entries import spending_of
from clew.core.events import ContextUpdated, EntryAdded, Envelope, QueueChanged, SessionUpdated
from clew.core.sanitize import sanitize_line, split_rows
from clew.core.task_events import BackgroundTaskEvent, TaskStage
from clew.core.text import pluralize
from clew.sdk.client import SessionSnapshot

_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.CRITICAL: "red"}
_SEPARATOR = " · "
_MAX_LENGTH = 200
_SHORT_NAME = 12
_SHORT_MODEL = 20
_SHORT_ID = 8
_CENT = 0.01
_SHOWN_FROM = 0.0001
_ENDED = (TaskStage.COMPLETED, TaskStage.FAILED, TaskStage.CANCELLED, TaskStage.CLOSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """What the status line shows of a session."""

    model: str
    mode: str
    """The permission mode."""
    session_id: str = ""
    name: str = ""
    """The name of the session, if it has one."""
    context: ContextState | None = None
    """The last known state of the context window."""
    cost_usd: float = 0.0
    """What the session has cost since it was opened."""
    queued: int = 0
    """How many prompts wait."""
    tasks: int = 0
    """How many subagents and background tasks have not ended."""
    asking_tasks: int = 0
    """How many of them wait for an answer."""
    is_running: bool = False
    """True while something runs that can be interrupted."""


class StatusTracker:
    """Updates `status` from the events of a session."""

    def __init__(self) -> None:
        self.status = SessionStatus(model="", mode="")
        self._tasks: dict[str, bool] = {}
        """Whether each task that has not ended waits for an answer."""

    @property
    def context(self) -> ContextState | None:
        """The last known state of the context window."""
        return self.status.context

    def start(self, now: SessionSnapshot) -> None:
        """Take the state of a session that was just opened."""
        self._tasks = {one.task_id: one.stage is TaskStage.WAITING for one in now.tasks}
        self.status = SessionStatus(
            model=now.model,
            mode=str(now.mode),
            session_id=now.session_id,
            name=now.name,
            context=now.context,
            queued=now.queue is not None,
            tasks=len(self._tasks),
            asking_tasks=sum(self._tasks.values()),
        )

    def update(self, envelope: Envelope) -> None:
        """Apply one event."""
        match envelope.event:
            case EntryAdded(entry=entry):
                if spent := spending_of(entry.body).usd:
                    self.status = replace(self.status, cost_usd=self.status.cost_usd + spent)
            case BackgroundTaskEvent() as event:
                self._update_task(event)
            case event if not envelope.task_id:
                self._update_session(event)
            case _:
                pass

    def _update_task(self, event: BackgroundTaskEvent) -> None:
        if event.stage in _ENDED:
            self._tasks.pop(event.task_id, None)
        else:
            is_asking = event.stage is TaskStage.WAITING
            if event.stage is TaskStage.UPDATED:
                is_asking = self._tasks.get(event.task_id, False)
            self._tasks[event.task_id] = is_asking
        asking = sum(self._tasks.values())
        self.status = replace(self.status, tasks=len(self._tasks), asking_tasks=asking)

    def _update_session(self, event: object) -> None:
        match event:
            case ContextUpdated(state=state):
                self.status = replace(self.status, context=state)
            case SessionUpdated() as new:
                self.status = replace(self.status, model=new.model, mode=new.mode, name=new.name)
            case QueueChanged(prompt=prompt):
                self.status = replace(self.status, queued=int(prompt is not None))
            case _:
                pass


@dataclass(frozen=True, slots=True)
class StatusPart:
    """A part of the line, and its colour."""

    text: str
    style: str


def status_line(status: SessionStatus, width: int) -> tuple[StatusPart, ...]:
    """Return the line in at most `width` columns.

    A line that is too long loses parts in this order: the id, how to interrupt, the tokens, most
    of the name, most of the model, the cost, the name, the mode, the model. The
    percentage, queued prompts and background tasks stay as long as they fit. The text is
    sanitized.
    """
    for parts in _make_variants(status):
        if _count_all(parts) <= width:
            return parts
    return tuple(replace(part, text=next(split_rows(part.text, width))) for part in parts[:1])


def _make_variants(status: SessionStatus) -> Iterator[tuple[StatusPart, ...]]:
    """Yield the line in ever shorter forms."""
    yield _make_parts(status, tokens=True)
    status = replace(status, session_id="")
    yield _make_parts(status, tokens=True)
    status = replace(status, is_running=False)
    yield _make_parts(status, tokens=True)
    yield _make_parts(status, tokens=False)
    status = replace(status, name=sanitize_line(status.name, _SHORT_NAME))
    yield _make_parts(status, tokens=False)
    for change in (
        {"model": sanitize_line(status.model, _SHORT_MODEL)},
        {"cost_usd": 0.0},
        {"name": ""},
        {"mode": ""},
    ):
        status = replace(status, **change)
        yield _make_parts(status, tokens=False)
    if status.context is not None:
        status = replace(status, model="")
        yield _make_parts(status, tokens=False)
    yield _make_parts(replace(status, queued=0, tasks=0), tokens=False)


def _make_parts(status: SessionStatus, *, tokens: bool) -> tuple[StatusPart, ...]:
    state = status.context
    texts = (status.model, status.mode, status.name, status.session_id[:_SHORT_ID])
    found = [StatusPart(sanitize_line(text, _MAX_LENGTH), "dim") for text in texts if text]
    if state is not None:
        found.append(StatusPart(f"context {state.used_percentage:.0f}%", _COLOURS[state.status]))
        if tokens:
            found.append(StatusPart(_format_tokens(state), "dim"))
    if status.cost_usd >= _SHOWN_FROM:
        found.append(StatusPart(format_cost(status.cost_usd), "dim"))
    if status.queued:
        found.append(StatusPart(f"{status.queued} queued", "yellow"))
    if status.tasks:
        asks = f", {status.asking_tasks} asking" if status.asking_tasks else ""
        found.append(StatusPart(f"{pluralize(status.tasks, 'task')}{asks}", "yellow"))
    if status.is_running:
        found.append(StatusPart("Esc interrupts", "dim"))
    separator = StatusPart(_SEPARATOR, "dim")
    return tuple(part for one in found for part in (separator, one))[1:]


def format_cost(usd: float) -> str:
    """Return a cost with as many digits as it needs."""
    return f"${usd:.2f}" if usd >= _CENT else f"${usd:.4f}"


def _format_tokens(state: ContextState) -> str:
    approximately = "" if state.basis is Basis.EXACT else "~"
    return f"{approximately}{state.used_tokens:,}/{state.max_tokens:,} tokens"


def _count_all(parts: tuple[StatusPart, ...]) -> int:
    return sum(count_columns(part.text) for part in parts)


def count_columns(text: str) -> int:
    """Return how many terminal columns a sanitized line takes; wide characters take two."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)
