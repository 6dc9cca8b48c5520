"""`RemoteSession`: a session on a server. Implements `SessionClient` over HTTP."""

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote

import aiohttp
import anyio
import msgspec
from msgspec import Struct

from clew.core.errors import ClewError, SessionClosed
from clew.core.events import Envelope
from clew.core.json_text import JsonDecoder, decode_json
from clew.providers.sse import EventParser, ServerEvent
from clew.sdk.client import SessionSnapshot
from clew.sdk.client_json import ErrorBody, NoParams, decode_error
from clew.sdk.host import Host
from clew.sdk.remote.addresses import ADDRESSES, HttpCall, encode_call, encode_query
from clew.sdk.remote.connection import FIRST_WAIT, LONGEST_WAIT, NotReady, ServerConnection
from clew.sdk.session_calls import SessionCalls

_T = TypeVar("_T")
_decode_envelope = JsonDecoder(Envelope).decode
ConnectionListener: TypeAlias = Callable[[bool, str], None]
"""Called when the events of a session stop and when they continue: `(connected, why)`."""


class HttpTransport:
    """Brings calls to one session on a server; implements `Transport`."""

    def __init__(
        self,
        connection: ServerConnection,
        session_id: str,
        host: Host,
        on_connection: ConnectionListener | None,
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._host = host
        self._on_connection = on_connection
        self._positions: list[_Position] = []
        """Streams that start at the present, which must be known before the next call."""

    async def call(self, method: str, params: Struct, result: type[_T]) -> _T:
        """Call a method and return its result."""
        while self._positions:
            await self._find(self._positions[0])
        return await self._request(method, params, result)

    def send(self, method: str, params: Struct) -> None:
        """Call a method without waiting for it."""
        self._host.start_soon(self._call_quietly, method, params)

    def events(self, *, after: int | None, answering: bool) -> AsyncGenerator[Envelope, None]:
        """Yield the events; a lost connection continues where it ended."""
        position = _Position(after)
        if after is None:
            self._positions.append(position)
        return self._follow(position, answering=answering)

    async def _follow(
        self, position: "_Position", *, answering: bool
    ) -> AsyncGenerator[Envelope, None]:
        seq = await self._find(position)
        path = f"/sessions/{quote(self._session_id, safe='')}/events"
        wait, lost_at = FIRST_WAIT, 0.0
        while True:
            query = encode_query({"after": seq, "answering": answering})
            call = HttpCall("GET", path, query, None)
            try:
                async with self._connection.stream(call) as content:
                    if lost_at:
                        self._report(connected=True)
                    wait, lost_at = FIRST_WAIT, 0.0
                    async for event in _read_events(content):
                        if event.name == "stream_end":
                            return
                        envelope = _decode_event(event)
                        if envelope.seq > seq:
                            seq = envelope.seq
                            yield envelope
                why: Exception = ConnectionResetError("the server ended the stream")
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                why = error
            now = anyio.current_time()
            if not lost_at:
                lost_at = now
                self._report(connected=False, why=str(why) or type(why).__name__)
            elif now - lost_at > self._connection.patience:
                raise self._connection.explain(why)
            await anyio.sleep(max(wait, why.wait) if isinstance(why, NotReady) else wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _find(self, position: "_Position") -> int:
        """Return the sequence number that a stream starts after."""
        async with position.lock:
            if position.seq is None:
                snapshot = await self._request("snapshot", NoParams(), SessionSnapshot)
                position.seq = snapshot.seq
            with suppress(ValueError):
                self._positions.remove(position)
            return position.seq

    async def _request(self, method: str, params: Struct, result: type[_T]) -> _T:
        address = ADDRESSES[method]
        call = encode_call(address, self._session_id, params)
        if not address.unwrap:
            return await self._connection.request(call, result)
        answer = await self._connection.request(call, dict[str, Any])
        return msgspec.convert(answer[address.unwrap], result)

    async def _call_quietly(self, method: str, params: Struct) -> None:
        with suppress(ClewError):
            await self.call(method, params, type(None))

    def _report(self, *, connected: bool, why: str = "") -> None:
        if self._on_connection is not None:
            self._on_connection(connected, why)


class _Position:
    """Where a stream starts; None until the server was asked for its newest event."""

    def __init__(self, seq: int | None) -> None:
        self.seq = seq
        self.lock = anyio.Lock()


class RemoteSession(SessionCalls):
    """A session on a server, opened by `RemoteServer`.

    Its events continue after a lost connection where they ended: none is missed or repeated. When
    the server cannot be reached for long, methods raise `ServerUnreachable`.
    """

    def __init__(
        self,
        connection: ServerConnection,
        session_id: str,
        host: Host,
        *,
        on_connection: ConnectionListener | None = None,
    ) -> None:
        super().__init__(HttpTransport(connection, session_id, host, on_connection))
        self.session_id = session_id


async def _read_events(content: aiohttp.StreamReader) -> AsyncGenerator[ServerEvent, None]:
    parser = EventParser()
    async for chunk in content.iter_any():
        for event in parser.feed(chunk):
            yield event


def _decode_event(event: ServerEvent) -> Envelope:
    if event.name == "stream_error":
        raise decode_error(decode_json(event.data, type=ErrorBody))
    try:
        return _decode_envelope(event.data)
    except msgspec.DecodeError as error:
        raise SessionClosed(
            f"the server sends events that this version of Clew does not know ({error});"
            " use the same version on both sides"
        ) from error
