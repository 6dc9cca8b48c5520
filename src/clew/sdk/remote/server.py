"""`RemoteServer`: the sessions of a `clew serve` on this or another machine."""

import os
from collections.abc import Mapping
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from clew.core.errors import ConfigError, SessionNotFound
from clew.core.ids import EntryId
from clew.sdk.client import SessionSnapshot
from clew.sdk.folders import Homes
from clew.sdk.host import Host
from clew.sdk.remote.addresses import Address, HttpCall, encode_call, encode_query
from clew.sdk.remote.connection import ServerConnection, is_loopback
from clew.sdk.remote.session import ConnectionListener, RemoteSession
from clew.sdk.server_values import (
    TOKEN_FILE,
    ForkSession,
    FoundSession,
    SessionPage,
    SessionRequest,
    SessionSummary,
)

TOKEN_VARIABLE = "CLEW_SERVER_TOKEN"  # noqa: S105 - the name of a variable
_T = TypeVar("_T")


class RemoteServer:
    """Lists, creates and opens the sessions of a server. Used as `async with`.

    Args:
        url: The address of the server, such as `http://127.0.0.1:8765`.
        token: Proves who you are; `find_token` finds it.
        insecure: Send the token to another machine without TLS.
        patience: Seconds to keep trying to reach the server when the connection is lost.

    Raises:
        ConfigError: The address cannot be used.
    """

    def __init__(
        self, url: str, *, token: str = "", insecure: bool = False, patience: float = 20.0
    ) -> None:
        self._connection = ServerConnection(url, token=token, insecure=insecure, patience=patience)
        self._host = Host()

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._connection.url

    async def __aenter__(self) -> Self:
        await self._connection.__aenter__()
        await self._host.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._host.aclose()
        await self._connection.__aexit__()

    async def list(
        self, *, limit: int = 50, folder: str | None = None
    ) -> tuple[SessionSummary, ...]:
        """Return the sessions, the last used first.

        Args:
            limit: The most sessions to return.
            folder: Only sessions of this folder on the server.
        """
        query = {"limit": min(limit, 1_000), "folder": folder}
        return (await self._get("/sessions", query, SessionPage)).sessions

    async def search(self, words: str, *, limit: int = 20) -> tuple[FoundSession, ...]:
        """Search the names and messages of all sessions."""
        query = {"q": words, "limit": limit}
        return await self._get("/sessions/search", query, tuple[FoundSession, ...])

    async def create(
        self,
        wanted: SessionRequest | None = None,
        *,
        on_connection: ConnectionListener | None = None,
    ) -> RemoteSession:
        """Create a session and open it."""
        address = Address("POST", "/sessions")
        call = encode_call(address, "", wanted or SessionRequest())
        snapshot = await self._connection.request(call, SessionSnapshot)
        return self._attach(snapshot.session_id, on_connection)

    async def open(
        self, session_id: str, *, on_connection: ConnectionListener | None = None
    ) -> RemoteSession:
        """Open a session by its id, the start of its id, or its name.

        Args:
            session_id: Which session.
            on_connection: Called when the connection is lost, and when it is back.

        Raises:
            SessionNotFound: There is no such session.
        """
        session = self._attach(await self._find(session_id), on_connection)
        await session.snapshot()
        return session

    async def fork(
        self, session_id: str, *, at: EntryId | None = None, name: str = ""
    ) -> RemoteSession:
        """Copy a session, all of it or up to an entry, and open the copy."""
        address = Address("POST", "/sessions/{session_id}/fork")
        found = await self._find(session_id)
        call = encode_call(address, found, ForkSession(at=at, name=name))
        snapshot = await self._connection.request(call, SessionSnapshot)
        return self._attach(snapshot.session_id, None)

    async def close(self, session_id: str) -> None:
        """Have the server close a session; it stays stored."""
        call = encode_call(Address("POST", "/sessions/{session_id}/close"), session_id, _Nothing())
        await self._connection.request(call, type(None))

    async def delete(self, session_id: str, *, force: bool = False) -> None:
        """Delete a session with all its data.

        Args:
            session_id: Which session.
            force: Also while clients use it.
        """
        address = Address("DELETE", "/sessions/{session_id}")
        call = encode_call(address, session_id, _Force(force=force))
        await self._connection.request(call, type(None))

    def _attach(self, session_id: str, listener: ConnectionListener | None) -> RemoteSession:
        return RemoteSession(self._connection, session_id, self._host, on_connection=listener)

    async def _find(self, wanted: str) -> str:
        """Return the id of the session that a user means."""
        found = await self.list(limit=1_000)
        for exact in (one.id for one in found if wanted in (one.id, one.name)):
            return exact
        starts = [one.id for one in found if one.id.startswith(wanted)]
        if len(starts) > 1:
            raise SessionNotFound(f"several sessions of the server start with {wanted!r}")
        return starts[0] if starts else wanted

    async def _get(self, path: str, query: dict[str, Any], result: type[_T]) -> _T:
        call = HttpCall("GET", path, encode_query(query), None)
        return await self._connection.request(call, result)


class _Nothing(Struct, frozen=True):
    pass


class _Force(Struct, frozen=True):
    force: bool


def find_token(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the token for a server: `CLEW_SERVER_TOKEN`, or that of this machine's own server.

    Args:
        url: The address of the server.
        environ: Where the variable and the user's folder are looked up.

    Raises:
        ConfigError: The file of the token cannot be read.
    """
    if token := environ.get(TOKEN_VARIABLE, "").strip():
        return token
    file = Homes.of(environ).clew / TOKEN_FILE
    host = urlsplit(url if "://" in url else f"http://{url}").hostname or ""
    if not is_loopback(host) or not file.exists():
        return ""
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the token of the server in {file}: {error}") from error
