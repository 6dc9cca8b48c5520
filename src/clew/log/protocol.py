"""What a session tells whoever writes its log.

Most sessions have no log, so nothing is imported here that only the writing needs.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from clew.context.view import View
from clew.core.entries import Entry, SessionRecord
from clew.core.events import Event
from clew.core.messages import Message
from clew.providers.protocol import Chunk, Provider, Request

Warn = Callable[[str], None]


class LoggedJournal(Protocol):
    """The part of a session's journal that a log reads."""

    @property
    def record(self) -> SessionRecord:
        """Which session it is."""
        ...

    @property
    def entries(self) -> Sequence[Entry]:
        """Every entry, oldest first."""
        ...

    @property
    def view(self) -> View:
        """What the model sees."""
        ...


class Opening(Struct, frozen=True, kw_only=True):
    """The session that a log is about."""

    journal: LoggedJournal
    provider: str
    max_concurrency: int
    resumed: bool
    warn: Warn
    """Told once when the log cannot be written."""


class SessionLogger(Protocol):
    """A listener to one session's events that is also shown its model calls.

    Whatever fails in it breaks no run.
    """

    @property
    def path(self) -> Path | None:
        """The file that is written; None for a log that is not one file, or not begun."""
        ...

    def begin(self, opening: Opening) -> None:
        """Take up the log of a session; that of a new one begins with its first word.

        Raises:
            ConfigError: It is the log of another session that is still open.
        """
        ...

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        ...

    def pre_run(self, provider: Provider, prompt: Message) -> None:
        """Take note that a run begins."""
        ...

    def call(
        self, provider: Provider, request: Request, *, purpose: str = "turn"
    ) -> AsyncGenerator[Chunk, None]:
        """Have `provider` answer `request`, and write both down; raises as `Provider.stream`."""
        ...

    def end(self, reason: str) -> None:
        """Take note that the session is over, and let go of what is open."""
        ...
