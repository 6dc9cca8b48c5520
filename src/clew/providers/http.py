"""The way to a model server over HTTP, shared by the adapters.

Everything that aiohttp may raise is translated here, once. A key goes into the headers
and nowhere else: not into a log, a repr or an error.
"""

import io
import random
from asyncio import IncompleteReadError
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp
import anyio

from clew.core.errors import (
    ConfigError,
    ProviderBusy,
    ProviderError,
    ProviderTimeout,
    StreamBroken,
)
from clew.providers.failures import error_for

IDLE_TIMEOUT = 120.0
CONNECT_TIMEOUT = 15.0
MAX_ERROR_BYTES = 65_536
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a busy server is asked again, and how long to wait in between."""

    attempts: int = 3
    first_delay: float = 0.5
    longest_delay: float = 30.0
    """A server that asks for a longer pause is not waited for: the caller decides."""
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    random: Callable[[], float] = random.random

    def delay(self, attempt: int, busy: ProviderBusy) -> float | None:
        """Return the pause before the next attempt; None when it is not worth one."""
        if attempt >= self.attempts:
            return None
        if busy.retry_after is not None:
            asked = busy.retry_after + self.random() * self.first_delay
            return asked if busy.retry_after <= self.longest_delay else None
        full = min(self.longest_delay, self.first_delay * 2.0 ** (attempt - 1))
        return full * (0.5 + self.random() / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a server is and how to speak to it.

    Raises:
        ConfigError: The address or the key cannot be right.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    idle_timeout: float = IDLE_TIMEOUT
    """Seconds without a byte after which a call is given up."""
    retry: Retry = field(default_factory=Retry, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(
                f"The base URL {self.base_url!r} is not an address."
                " Write it with its scheme, such as http://127.0.0.1:8080/v1."
            )
        if not (self.api_key.isascii() and (not self.api_key or self.api_key.isprintable())):
            raise ConfigError(
                "The API key contains characters that no key has, such as a line break."
                " Set it again without them."
            )

    @property
    def is_local(self) -> bool:
        """True when the server is on this machine, where no proxy stands between."""
        return urlsplit(self.base_url).hostname in _LOOPBACK

    def address(self, path: str) -> str:
        """Return the whole address of `path`."""
        return f"{self.base_url.rstrip('/')}/{path.lstrip('/')}"

    def all_headers(self) -> dict[str, str]:
        """Return the headers of a request, with the key."""
        key = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return {"Content-Type": "application/json", **key, **self.headers}


class Transport:
    """Posts to one endpoint through a client of its own, or one that the caller owns.

    A client of its own is made on first use, inside the running loop, and closed by
    `aclose`; a borrowed one is left alone.
    """

    def __init__(
        self, endpoint: Endpoint, *, provider: str, client: aiohttp.ClientSession | None = None
    ) -> None:
        self.endpoint = endpoint
        self._provider = provider
        self._borrowed = client
        self._owned: aiohttp.ClientSession | None = None
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT, sock_read=endpoint.idle_timeout
        )

    def __repr__(self) -> str:
        return f"Transport({self.endpoint!r})"

    async def post_stream(self, path: str, body: bytes) -> AsyncGenerator[bytes, None]:
        """Post `body` and yield the answer's bytes as they arrive.

        A busy server is asked again, but never once it has begun to answer. Closing the
        iterator early closes the connection at once.

        Raises:
            ProviderBusy: Every attempt found the server busy.
            ProviderTimeout: No byte came for the idle timeout.
            StreamBroken: The connection was lost after the answer had begun.
            ProviderError: The server cannot be reached, or refused.
        """
        response = await self._open(path, body)
        try:
            while chunk := await self._read(response):
                yield chunk
        finally:
            response.close()

    async def post(self, path: str, body: bytes) -> bytes:
        """Post `body` and return the whole answer; raises as `post_stream` does."""
        return b"".join([chunk async for chunk in self.post_stream(path, body)])

    async def aclose(self) -> None:
        """Close the client if it is our own; harmless when called again."""
        client, self._owned = self._owned, None
        if client is not None:
            await client.close()

    def _client(self) -> aiohttp.ClientSession:
        if self._borrowed is not None:
            return self._borrowed
        if self._owned is None:
            self._owned = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), trust_env=not self.endpoint.is_local
            )
        return self._owned

    async def _open(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        attempt = 1
        while True:
            try:
                return await self._attempt(path, body)
            except ProviderBusy as busy:
                delay = self.endpoint.retry.delay(attempt, busy)
                if delay is None:
                    raise
            attempt += 1
            await self.endpoint.retry.sleep(delay)

    async def _attempt(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        try:
            response = await self._client().post(
                self.endpoint.address(path),
                data=io.BytesIO(body),
                headers=self.endpoint.all_headers(),
                timeout=self._timeout,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unanswered(error) from error
        if response.status < 300:
            return response
        try:
            text = await self._error_text(response)
        finally:
            response.close()
        raise error_for(response.status, text, response.headers, self._provider)

    async def _error_text(self, response: aiohttp.ClientResponse) -> str:
        try:
            data = await response.content.readexactly(MAX_ERROR_BYTES)
        except IncompleteReadError as error:
            data = error.partial
        except (aiohttp.ClientError, TimeoutError, OSError):
            data = b""
        return self._without_key(data.decode(errors="replace"))

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        try:
            return await response.content.readany()
        except TimeoutError as error:
            raise self._silent() from error
        except (aiohttp.ClientError, OSError) as error:
            raise StreamBroken(
                f"The connection to {self._where()} was lost in the middle of the answer."
                " What had arrived is kept; send the message again to go on.",
                provider=self._provider,
            ) from error

    def _unanswered(self, error: Exception) -> ProviderError:
        """Translate what happened before the server said anything."""
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return ProviderTimeout(
                f"{self._where()} could not be reached within {CONNECT_TIMEOUT:g} seconds."
                " Check the address and the network.",
                provider=self._provider,
            )
        if isinstance(error, TimeoutError):
            return self._silent()
        if isinstance(error, aiohttp.ClientConnectorError):
            return ProviderError(
                f"There is no connection to {self._where()}: is the server running?"
                f" ({error.os_error.strerror or error.os_error})",
                provider=self._provider,
            )
        if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
            return ProviderBusy(
                f"{self._where()} closed the connection before it answered. Try again in a moment.",
                provider=self._provider,
            )
        return ProviderError(
            f"The call to {self._where()} failed: {self._without_key(str(error))}."
            " Check the address and the network.",
            provider=self._provider,
        )

    def _silent(self) -> ProviderTimeout:
        return ProviderTimeout(
            f"{self._where()} gave no sign of life for {self.endpoint.idle_timeout:g} seconds."
            " Send the message again, or raise the idle timeout.",
            provider=self._provider,
        )

    def _where(self) -> str:
        parts = urlsplit(self.endpoint.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def _without_key(self, text: str) -> str:
        key = self.endpoint.api_key
        return text.replace(key, "***") if key else text
