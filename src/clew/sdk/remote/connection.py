"""One connection pool to a server: requests, streams, and errors as the server's exceptions."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
import anyio
import msgspec

from clew.core.errors import ClewError, ConfigError, ServerUnreachable, SessionError
from clew.core.json_text import decode_json
from clew.sdk.client_json import ErrorBody, decode_error
from clew.sdk.remote.addresses import HttpCall
from clew.sdk.server_values import BASE

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
"""Seconds between attempts to reach the server."""
_CONNECT_SECONDS = 10.0
_FIRST_PATIENCE = 1.0
_SILENT_SECONDS = 60.0
"""Seconds without data after which a stream counts as lost; a heartbeat comes every 15 seconds."""
_T = TypeVar("_T")


class ServerConnection:
    """Sends requests to one server. Used as `async with`.

    Args:
        url: The address of the server, such as `http://127.0.0.1:8765`.
        token: Proves who you are; empty for a server that wants none.
        insecure: Send the token to another machine without TLS.
        patience: Seconds to keep trying to reach the server.

    Raises:
        ConfigError: The address cannot be used.
    """

    def __init__(
        self, url: str, *, token: str = "", insecure: bool = False, patience: float = 20.0
    ) -> None:
        self.url = _check_url(url, insecure=insecure or not token)
        self.patience = patience
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http: aiohttp.ClientSession | None = None
        self._was_reached = False

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        connector = aiohttp.TCPConnector(limit=0)
        self._http = aiohttp.ClientSession(
            headers=self._headers, timeout=timeout, connector=connector
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.close()

    async def request(self, call: HttpCall, result: type[_T]) -> _T:
        """Send a request and return the decoded answer.

        A server that cannot be reached is tried again for a while; a request that may have been
        carried out is not sent twice, unless that changes nothing.

        Raises:
            ServerUnreachable: The server does not answer.
            ClewError: What the server answered.
        """
        # At the first request, a wrong address is likelier than a server that restarts.
        patience = self.patience if self._was_reached else min(self.patience, _FIRST_PATIENCE)
        give_up = anyio.current_time() + patience
        wait = FIRST_WAIT
        while True:
            try:
                async with self._send(call) as response:
                    text = await response.read()
                return decode_json(text or b"null", type=result)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                is_final = call.method == "POST" and not _was_not_carried_out(error)
                if isinstance(error, NotReady):
                    wait = max(wait, error.wait)
                if is_final or anyio.current_time() + wait > give_up:
                    raise self.explain(error) from error
            except msgspec.DecodeError as error:
                raise ServerUnreachable(
                    f"the answer of {self.url} is not one of clew serve: {error}"
                ) from error
            await anyio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    @asynccontextmanager
    async def stream(self, call: HttpCall) -> AsyncGenerator[aiohttp.StreamReader, None]:
        """Send a request and read the answer as it arrives.

        Raises:
            ClewError: What the server answered.
            aiohttp.ClientError: The connection was lost.
        """
        async with self._send(call, stream=True) as response:
            yield response.content

    def explain(self, error: BaseException) -> ClewError:
        """Return the error for a server that cannot be reached."""
        if isinstance(error, NotReady):
            return error.error
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        why = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        return ServerUnreachable(
            f"cannot reach the server at {self.url} ({why}); is `clew serve` running there?"
        )

    @asynccontextmanager
    async def _send(
        self, call: HttpCall, *, stream: bool = False
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        if self._http is None or self._http.closed:
            when = "closed" if self._http is not None else "not open: use `async with`"
            raise SessionError(f"the connection to {self.url} is {when}")
        headers = {"Accept": "text/event-stream" if stream else "application/json"}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        async with self._http.request(
            call.method,
            f"{self.url}{BASE}{call.path}",
            params=call.query or None,
            data=call.body,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=_CONNECT_SECONDS,
                sock_read=_SILENT_SECONDS if stream else None,
            ),
        ) as response:
            self._was_reached = True
            if response.status >= 300:
                raise _read_error(response, await response.read())
            yield response


class NotReady(OSError):
    """The server, or a proxy in front of it, asks to come again later."""

    def __init__(self, status: int, error: ClewError, wait: float) -> None:
        super().__init__(str(error))
        self.status = status
        self.error = error
        """What to raise when there is no time left."""
        self.wait = wait
        """Seconds that the server asks for."""


def _was_not_carried_out(error: Exception) -> bool:
    if isinstance(error, NotReady):
        return error.status in (429, 503)
    return isinstance(error, aiohttp.ClientConnectorError)


def _read_error(response: aiohttp.ClientResponse, text: bytes) -> ClewError | NotReady:
    """Return the error of an answer; one of a proxy or with `Retry-After` is worth a repetition."""
    status, later = response.status, response.headers.get("Retry-After", "")
    wait = min(float(later), LONGEST_WAIT) if later.isdecimal() else 0.0
    error: ClewError
    try:
        error, is_typed = decode_error(decode_json(text, type=ErrorBody)), True
    except msgspec.DecodeError:
        words = f"the server answered with status {status}, and not as clew serve"
        error, is_typed = ServerUnreachable(words), False
    if status in (429, 502, 503, 504) and (later or not is_typed):
        return NotReady(status, error, wait)
    return error


def _check_url(text: str, *, insecure: bool) -> str:
    """Return the address of a server, without a slash at its end."""
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
        host = url.hostname or ""
        is_address = url.scheme in ("http", "https") and bool(host) and url.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigError(f"{text!r} is not the address of a server, such as http://127.0.0.1:8765")
    if "@" in url.netloc or url.query or url.fragment:
        raise ConfigError(
            "the address of a server has no user, password or query;"
            " set CLEW_SERVER_TOKEN to the token"
        )
    if url.scheme == "http" and not is_loopback(host) and not insecure:
        raise ConfigError(
            f"{host} is another machine, and http would send the token readably; use https,"
            " or a tunnel: ssh -L 8765:127.0.0.1:8765 HOST"
        )
    return f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
