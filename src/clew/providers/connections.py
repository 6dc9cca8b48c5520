"""The connections to one model server, through aiohttp.

Imported by the first request, because loading aiohttp takes time. All of its exceptions are
translated here.
"""

from asyncio import AbstractEventLoop, IncompleteReadError, get_running_loop
from functools import lru_cache

import aiohttp
from aiohttp.abc import AbstractStreamWriter

from clew.core.errors import ProviderBusy, ProviderError, ProviderTimeout, StreamBroken
from clew.core.text import end_sentence
from clew.providers.endpoint import Endpoint
from clew.providers.http_errors import error_for
from clew.providers.response_limits import (
    MAX_RATIO,
    MAX_RESPONSE,
    MIB,
    RATIO_APPLIES,
    too_large,
)

CONNECT_TIMEOUT = 15.0
MAX_ERROR_BYTES = 65_536
PIECE = 1 << 16


class JsonBody(aiohttp.Payload):
    """A request body that is sent in blocks: aiohttp would warn about large bytes, or copy them."""

    _autoclose = True

    def __init__(self, data: bytes) -> None:
        super().__init__(data, content_type="application/json")
        self._size = self._length = len(data)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return str(self._value, encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body block by block, with back pressure."""
        if self._length <= PIECE:
            await writer.write(self._value)
            return
        data = memoryview(self._value)
        for start in range(0, len(data), PIECE):
            await writer.write(data[start : start + PIECE])


class HttpResponse:
    """A response that is being read; see `clew.providers.transport.ResponseStream`."""

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
        declared = response.headers.get("Content-Type", "")
        self.content_type = declared.partition(";")[0].strip().lower()
        """The declared media type; empty if there is none."""

    @property
    def is_json(self) -> bool:
        """True when the server sends one JSON document instead of an event stream."""
        return self.content_type == "application/json"

    async def read(self) -> bytes:
        """Return the next bytes as they arrive; empty at the end."""
        content = self._response.content
        try:
            data = await content.readany()
        except TimeoutError as error:
            raise _silent(self._endpoint, self._provider) from error
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            # aiohttp raises a plain RuntimeError for a connection that this side has closed.
            raise StreamBroken(
                f"Lost the connection to {self._endpoint.host} during the response."
                " The partial response is kept; send the message again to continue.",
                provider=self._provider,
            ) from error
        self._check_size(content)
        return data

    def _check_size(self, content: aiohttp.StreamReader) -> None:
        size = content.total_bytes
        if size > MAX_RESPONSE:
            what = f"a response of more than {MAX_RESPONSE // MIB} MiB"
            raise too_large(self._endpoint, self._provider, what)
        # Older versions of aiohttp do not count the compressed bytes.
        received: int = getattr(content, "total_raw_bytes", size)
        if size > RATIO_APPLIES and size > MAX_RATIO * received:
            what = f"a response that grows more than {MAX_RATIO} times when it is decompressed"
            raise too_large(self._endpoint, self._provider, what)

    @property
    def is_read(self) -> bool:
        """True when everything has arrived and was read."""
        return self._response.content.at_eof()

    def mask_secrets(self, text: str) -> str:
        """Return `text` without the key or token of the request."""
        token = self._response.request_info.headers.get("Authorization", "").rpartition(" ")[2]
        return self._endpoint.mask_secrets(text, token)

    def close(self) -> None:
        """Release the connection; it is reused if the response was read to its end."""
        self._open_ones.discard(self)
        if not self._response.closed:
            self._response.close()


class Connections:
    """Sends requests through its own client, or one that the caller owns.

    Its own client is created by the first request, inside the running event loop, and closed by
    `aclose`; a client of the caller stays open.
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
        """Send one request; see `Transport.send`."""
        url = endpoint.address(path)
        try:
            response = await self._client(endpoint).request(
                method,
                url,
                data=None if body is None else JsonBody(body),
                headers=endpoint.headers_for(url, body or b""),
                timeout=_timeout(endpoint.idle_timeout),
                proxy=endpoint.proxy or None,
                ssl=endpoint.tls,
                allow_redirects=False,
                raise_for_status=False,
            )
        except aiohttp.ClientResponseError as error:
            # The exception holds the headers, which contain the key.
            raise _translate_error(error, endpoint, self._provider) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _translate_error(error, endpoint, self._provider) from error
        answer = HttpResponse(response, endpoint, provider=self._provider, open_ones=self._open)
        if response.status < 300:
            return answer
        try:
            text = await _error_text(response)
        finally:
            answer.close()
        raise error_for(
            response.status, text, response.headers, self._provider, mask=answer.mask_secrets
        )

    async def aclose(self) -> None:
        """Cancel open requests and close the own client; calling it twice is safe."""
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
            # A client belongs to the event loop that created it, which may have ended.
            self._loop = loop
            self._owned = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), trust_env=not endpoint.is_local
            )
        return self._owned


@lru_cache
def _timeout(idle: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=idle)


def _translate_error(error: Exception, endpoint: Endpoint, provider: str) -> ProviderError:
    """Translate an error that occurred before any response."""
    where = endpoint.host
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ProviderTimeout(
            f"Could not connect to {where} within {CONNECT_TIMEOUT:g} seconds."
            " Check the address and the network.",
            provider=provider,
        )
    if isinstance(error, TimeoutError):
        return _silent(endpoint, provider)
    if isinstance(error, aiohttp.ClientConnectorError):
        return ProviderError(
            f"Cannot connect to {where} ({error.os_error.strerror or error.os_error})."
            " Check that the server is running.",
            provider=provider,
        )
    if isinstance(error, aiohttp.ClientConnectionError | ConnectionError):
        # Usually a kept-alive connection that the server has closed meanwhile.
        return ProviderBusy(
            f"{where} closed the connection without a response. Try again.",
            provider=provider,
        )
    return ProviderError(
        end_sentence(f"The request to {where} failed: {endpoint.mask_secrets(str(error))}")
        + " Check the address and the network.",
        provider=provider,
    )


def _silent(endpoint: Endpoint, provider: str) -> ProviderTimeout:
    """Return the error for a server that stopped sending data."""
    return ProviderTimeout(
        f"{endpoint.host} sent no data for {endpoint.idle_timeout:g} seconds."
        " Send the message again, or increase the idle timeout.",
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
