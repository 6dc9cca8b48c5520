"""The connections to one model server, through aiohttp.

This module is imported when the first request is made: aiohttp takes its time to load.
Everything that it may raise is translated here, once.
"""

from asyncio import AbstractEventLoop, IncompleteReadError, get_running_loop

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from clew.core.errors import ProviderBusy, ProviderError, ProviderTimeout, StreamBroken
from clew.providers.endpoint import Endpoint
from clew.providers.http_errors import error_for

CONNECT_TIMEOUT = 15.0
MAX_ERROR_BYTES = 65_536
PIECE = 1 << 16


class JsonBody(aiohttp.Payload):
    """A request's bytes, sent piece by piece: aiohttp would warn of them, or copy them first."""

    _autoclose = True

    def __init__(self, data: bytes) -> None:
        super().__init__(data, content_type="application/json")
        self._size = len(data)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the text of the body."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body, waiting whenever the network cannot keep up."""
        data = memoryview(self._value)
        for start in range(0, len(data), PIECE):
            await writer.write(data[start : start + PIECE])


class HttpResponse:
    """The answer to one request, as it is being read; see `clew.providers.http.Arriving`."""

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        endpoint: Endpoint,
        *,
        provider: str,
        open_ones: "set[HttpResponse]",
    ) -> None:
        self._open_ones = open_ones
        open_ones.add(self)
        self._response = response
        self._endpoint = endpoint
        self._provider = provider

    @property
    def is_json(self) -> bool:
        """True when the server sends one JSON document, not a stream of events."""
        return self._response.content_type == "application/json"

    @property
    def content_type(self) -> str:
        """What the server says it sends; empty if it does not."""
        return self._response.content_type if "Content-Type" in self._response.headers else ""

    async def read(self) -> bytes:
        """Return the next bytes as they come; empty at the end."""
        try:
            return await self._response.content.readany()
        except TimeoutError as error:
            raise _silent(self._endpoint, self._provider) from error
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            # aiohttp knows no better word for a connection that somebody here has closed.
            raise StreamBroken(
                f"The connection to {self._endpoint.where} was lost in the middle of the answer."
                " What had arrived is kept; send the message again to go on.",
                provider=self._provider,
            ) from error

    def without_secrets(self, text: str) -> str:
        """Return `text` without the key or the token that the request was made with."""
        text = self._endpoint.without_secrets(text)
        token = self._response.request_info.headers.get("Authorization", "").rpartition(" ")[2]
        return text.replace(token, "***") if token else text

    def close(self) -> None:
        """Let go of the connection; one whose answer was read to its end is used again."""
        self._open_ones.discard(self)
        self._response.close()


class Connections:
    """Sends requests through a client of its own, or one that the caller owns.

    A client of its own is made on first use, inside the running loop, and closed by
    `aclose`; a borrowed one is left alone.
    """

    def __init__(self, *, provider: str, client: aiohttp.ClientSession | None = None) -> None:
        self._provider = provider
        self._borrowed = client
        self._owned: aiohttp.ClientSession | None = None
        self._loop: AbstractEventLoop | None = None
        self._open: set[HttpResponse] = set()

    async def send(
        self, endpoint: Endpoint, path: str, body: bytes | None, method: str
    ) -> HttpResponse:
        """Make one request; see `Transport.send`."""
        url = endpoint.address(path)
        try:
            response = await self._client(endpoint).request(
                method,
                url,
                data=None if body is None else JsonBody(body),
                headers=endpoint.headers_for(url, body or b""),
                timeout=_timeout(endpoint),
                proxy=endpoint.proxy or None,
                ssl=endpoint.tls,
                allow_redirects=False,
                raise_for_status=False,
            )
        except aiohttp.ClientResponseError as error:
            # It knows the headers, and so the key: nobody needs it any more.
            raise _unanswered(error, endpoint, self._provider) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unanswered(error, endpoint, self._provider) from error
        answer = HttpResponse(response, endpoint, provider=self._provider, open_ones=self._open)
        if response.status < 300:
            return answer
        try:
            text = answer.without_secrets(await _error_text(response))
        finally:
            answer.close()
        raise error_for(response.status, text, response.headers, self._provider)

    async def aclose(self) -> None:
        """End what is under way, and close the client if it is our own; harmless again."""
        for answer in list(self._open):
            answer.close()
        client, self._owned = self._owned, None
        if client is not None:
            await client.close()

    def _client(self, endpoint: Endpoint) -> aiohttp.ClientSession:
        if self._borrowed is not None:
            return self._borrowed
        loop = get_running_loop()
        if self._owned is None or self._loop is not loop:
            # A client belongs to the loop it was made in, and that one may be over.
            self._loop = loop
            self._owned = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), trust_env=not endpoint.is_local
            )
        return self._owned


def _timeout(endpoint: Endpoint) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(
        total=None, sock_connect=CONNECT_TIMEOUT, sock_read=endpoint.idle_timeout
    )


def _unanswered(error: Exception, endpoint: Endpoint, provider: str) -> ProviderError:
    """Translate what happened before the server said anything."""
    where = endpoint.where
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ProviderTimeout(
            f"{where} could not be reached within {CONNECT_TIMEOUT:g} seconds."
            " Check the address and the network.",
            provider=provider,
        )
    if isinstance(error, TimeoutError):
        return _silent(endpoint, provider)
    if isinstance(error, aiohttp.ClientConnectorError):
        return ProviderError(
            f"There is no connection to {where}: is the server running?"
            f" ({error.os_error.strerror or error.os_error})",
            provider=provider,
        )
    if isinstance(error, aiohttp.ClientConnectionError | ConnectionError):
        # Most often a connection that was kept for the next request, and closed meanwhile.
        return ProviderBusy(
            f"{where} closed the connection before it answered. Try again in a moment.",
            provider=provider,
        )
    return ProviderError(
        f"The call to {where} failed: {endpoint.without_secrets(str(error))}."
        " Check the address and the network.",
        provider=provider,
    )


def _silent(endpoint: Endpoint, provider: str) -> ProviderTimeout:
    """Return the error for a server that says nothing any more."""
    return ProviderTimeout(
        f"{endpoint.where} gave no sign of life for {endpoint.idle_timeout:g} seconds."
        " Send the message again, or raise the idle timeout.",
        provider=provider,
    )


async def _error_text(response: aiohttp.ClientResponse) -> str:
    try:
        data = await response.content.readexactly(MAX_ERROR_BYTES)
    except IncompleteReadError as error:
        data = error.partial
    except (aiohttp.ClientError, TimeoutError, OSError):
        data = b""
    return data.decode(errors="replace")
