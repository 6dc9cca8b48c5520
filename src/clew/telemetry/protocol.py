"""What a session needs to be traced.

Most sessions are not traced, so this module imports nothing that only a tracer needs.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from clew.core.events import Event
from clew.core.ids import SessionId
from clew.core.usage import Usage
from clew.providers.protocol import Chunk, Request


class TracedSession(Protocol):
    """The session that events come from: its event bus."""

    session_id: SessionId


class ModelCall(Struct, frozen=True, kw_only=True):
    """A request to a model, and what is needed to describe it."""

    request: Request
    provider: str
    session_id: str
    purpose: str
    """`turn`, `summary`, or `aside` for a question outside the conversation."""
    price: Callable[[Usage], float | None]
    """Returns what a call with that usage costs in US dollars; None if unknown."""
    secrets: Sequence[str] = ()
    """Texts to redact besides those that look like secrets."""


class Telemetry(Protocol):
    """Makes spans and metrics from the events and the model calls of sessions.

    One object serves a session and its subagents. It never breaks a run.
    """

    def listen(
        self, session: TracedSession, secrets: Callable[[], Sequence[str]]
    ) -> Callable[[Event], None]:
        """Return the listener for the events of one session.

        Args:
            session: The session; its id is known when the first event comes.
            secrets: Returns texts to redact besides those that look like secrets.
        """
        ...

    def trace_call(
        self, chunks: AsyncGenerator[Chunk, None], call: ModelCall
    ) -> AsyncGenerator[Chunk, None]:
        """Pass the chunks of a model call on, and record the call."""
        ...
