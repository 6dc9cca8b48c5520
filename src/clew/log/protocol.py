"""The interface between a session and its log.

Most sessions run without a log, so this module imports nothing that only a log writer needs.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from clew.context.view import View
from clew.core.entries import Entry, SessionRecord
from clew.core.events import Event
from clew.core.messages import Message
from clew.providers.protocol import Chunk, Provider, Request


class LoggedJournal(Protocol):
    """The part of a session's journal that a log reads."""

    @property
    def record(self) -> SessionRecord:
        """The session's id, folder and dates."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """Every entry, oldest first."""
        ...

    @property
    def view(self) -> View:
        """What the model sees."""
        ...


class LoggedSession(Struct, frozen=True, kw_only=True):
    """The session that a log describes."""

    journal: LoggedJournal
    provider: str
    max_concurrency: int
    resumed: bool
    warn: Callable[[str], None]
    """Called once for each reason why the log cannot be written."""
    secrets: tuple[str, ...] = ()
    """Texts to redact besides those that look like secrets."""


class SessionLogger(Protocol):
    """Receives the events of one session and wraps its model calls.

    A failure inside a logger never breaks a run.
    """

    @property
    def path(self) -> Path | None:
        """The file that is written; None for a log that is not one file, or not begun."""
        ...

    def begin(self, session: LoggedSession) -> None:
        """Open the log of `session`; the log of a new session starts with its first message.

        Raises:
            ConfigError: The logger still belongs to another open session.
        """
        ...

    def hide(self, values: Iterable[str]) -> None:
        """Redact more texts from now on: the session has learned the key of another provider."""
        ...

    def __call__(self, event: Event) -> None:
        """Log an event."""
        ...

    def pre_run(self, provider: Provider, prompt: Message) -> None:
        """Log the start of a run."""
        ...

    def call(
        self, provider: Provider, request: Request, *, purpose: str = "turn"
    ) -> AsyncGenerator[Chunk, None]:
        """Send `request` to `provider` and log both directions; raises as `Provider.stream`."""
        ...

    def end(self, reason: str) -> None:
        """Log the end of the session and close the file."""
        ...
