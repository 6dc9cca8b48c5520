"""Sessions on a server for a program with a screen, such as the terminal UI."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from clew.core.errors import SessionNotFound
from clew.core.events import Envelope
from clew.sdk.client import SessionSnapshot
from clew.sdk.opened_session import OpenedSession
from clew.sdk.remote.server import RemoteServer
from clew.sdk.remote.session import RemoteSession
from clew.sdk.server_values import SessionRequest, SessionSummary


class RemoteChoice(Struct, frozen=True, kw_only=True):
    """Which session of a server to open."""

    resume: str = ""
    """Its id, the start of its id, or its name."""
    fork: str = ""
    """Open a copy of this session."""
    latest: bool = False
    """Open the one that was used last."""
    request: SessionRequest = SessionRequest()
    """Otherwise create this one."""


class RemoteOpened:
    """A session on a server; implements `OpenedSession`."""

    early: Sequence[Envelope] = ()

    def __init__(self, server: RemoteServer) -> None:
        self._server = server
        self._notify: Callable[[str], None] = lambda _: None
        self.client: RemoteSession
        self.resumed = True

    @property
    def resume_flags(self) -> str:
        """The flags that open the session again."""
        return f"--connect {self._server.url} --resume"

    async def open(self, choice: RemoteChoice) -> None:
        """Open the chosen session.

        Raises:
            SessionNotFound: There is no such session.
        """
        wanted = choice.resume or choice.fork
        if choice.latest:
            found = await self._server.list(limit=1)
            if not found:
                raise SessionNotFound("the server has no session yet; leave out --continue")
            wanted = found[0].id
        if not wanted:
            self.resumed = False
            self.client = await self._server.create(choice.request, on_connection=self.report)
            return
        if choice.fork:
            wanted = (await self._server.fork(wanted)).session_id
        self.client = await self._server.open(wanted, on_connection=self.report)

    def greet(self, now: SessionSnapshot) -> list[str]:
        """Return the server, the model, the folder and the permission mode."""
        place = f"session of {self._server.url}, in the folder {now.cwd}"
        return [place, f"model: {now.model}", f"permission mode: {now.mode}"]

    def list_secrets(self) -> tuple[str, ...]:
        """Return nothing: the secrets of the session stay on the server."""
        return ()

    def listen(self, notify: Callable[[str], None]) -> None:
        """Call a function when the connection is lost, and when it is back."""
        self._notify = notify

    def report(self, connected: bool, why: str) -> None:  # noqa: FBT001 - called by the session
        """Tell about the connection."""
        if connected:
            self._notify("connected to the server again")
        else:
            self._notify(f"lost the connection to the server ({why}); trying to connect again")

    async def other_sessions(self) -> list[SessionSummary]:
        """Return the other sessions of the server, the newest first."""
        found = await self._server.list(limit=200)
        return [one for one in found if one.id != self.client.session_id]


@asynccontextmanager
async def open_remote(
    server: RemoteServer, choice: RemoteChoice
) -> AsyncGenerator[OpenedSession, None]:
    """Open a session of a server; it goes on there afterwards.

    Raises:
        ServerUnreachable: The server does not answer.
        SessionNotFound: There is no such session.
    """
    async with server:
        opened = RemoteOpened(server)
        await opened.open(choice)
        yield opened
