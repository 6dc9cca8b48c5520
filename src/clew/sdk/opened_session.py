"""`OpenedSession`: a session that a program with a screen has open, local or on a server."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from clew.core.events import Envelope
from clew.sdk.client import SessionClient, SessionSnapshot
from clew.sdk.launch import LaunchedSession, launch
from clew.sdk.session_spec import SessionSpec


class ListedSession(Protocol):
    """A session in a list."""

    @property
    def id(self) -> str:
        """Opens it."""
        ...

    @property
    def heading(self) -> str:
        """Its name, or else its first words."""
        ...

    @property
    def messages(self) -> int:
        """How many messages it has."""
        ...

    @property
    def updated_at(self) -> float:
        """When it was last used, in seconds since the epoch."""
        ...


class OpenedSession(Protocol):
    """An open session, and what a program needs beside its client."""

    @property
    def client(self) -> SessionClient:
        """The session."""
        ...

    @property
    def resumed(self) -> bool:
        """True for a session that had entries before."""
        ...

    @property
    def early(self) -> Sequence[Envelope]:
        """The events of its opening."""
        ...

    @property
    def resume_flags(self) -> str:
        """The flags of `clew`, before the id, that open the session again."""
        ...

    def greet(self, now: SessionSnapshot) -> list[str]:
        """Return what the user should know at the start, a line each."""
        ...

    def list_secrets(self) -> tuple[str, ...]:
        """Return the secrets that the session knows, so that they are not stored."""
        ...

    def listen(self, notify: Callable[[str], None]) -> None:
        """Call a function with news of the connection to the session."""
        ...

    async def other_sessions(self) -> Sequence[ListedSession]:
        """Return the other sessions that can be opened instead, the newest first."""
        ...


class SessionOpener(Protocol):
    """Opens the sessions of a program one after the other."""

    def __call__(
        self, session_id: str, *, again: bool
    ) -> AbstractAsyncContextManager[OpenedSession]:
        """Open the session with that id; for an empty one, the one the user asked for.

        Args:
            session_id: The session.
            again: True when another session was open before: an empty id is a new session then.
        """
        ...


class LocalSession:
    """A session of this process; implements `OpenedSession`."""

    resume_flags = "--resume"

    def __init__(self, launched: LaunchedSession, early: Sequence[Envelope]) -> None:
        self._launched = launched
        self.client: SessionClient = launched.session
        self.resumed = launched.resumed
        self.early = early
        self.list_secrets = launched.list_secrets
        self.other_sessions = launched.other_sessions

    def greet(self, now: SessionSnapshot) -> list[str]:
        """Return the model, why it was chosen, the permission mode, and news of the sandbox."""
        choice = self._launched.choice
        lines = [f"{choice.model}: {choice.why}", f"permission mode: {now.mode}"]
        if notice := self._launched.take_sandbox_notice():
            lines.append(notice)
        return lines

    def listen(self, notify: Callable[[str], None]) -> None:
        """Do nothing: a session of this process is never out of reach."""


@asynccontextmanager
async def open_local(
    spec: SessionSpec, environ: Mapping[str, str] | None = None
) -> AsyncGenerator[OpenedSession, None]:
    """Open a session in this process."""
    early: list[Envelope] = []
    async with launch(spec, on_envelope=early.append, environ=environ) as launched:
        yield LocalSession(launched, early)
