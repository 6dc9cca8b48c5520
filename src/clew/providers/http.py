"""The way to a model server over HTTP, shared by the adapters.

A key goes into the headers and nowhere else: not into a log, a repr or an error.
"""

from typing import TYPE_CHECKING, Protocol

from clew.providers.endpoint import Endpoint

if TYPE_CHECKING:
    import aiohttp

    from clew.providers.connections import Connections


class Arriving(Protocol):
    """An answer that is being read. Its owner closes it, which ends the request at once."""

    @property
    def is_json(self) -> bool:
        """True when the server sends one JSON document, not a stream of events."""
        ...

    @property
    def content_type(self) -> str:
        """What the server says it sends, such as `text/event-stream`; empty if it does not."""
        ...

    async def read(self) -> bytes:
        """Return the next bytes as they come; empty at the end.

        Raises:
            ProviderTimeout: No byte came for the idle timeout.
            StreamBroken: The connection was lost.
        """
        ...

    def without_secrets(self, text: str) -> str:
        """Return `text` without the key or the token that the request was made with."""
        ...

    def close(self) -> None:
        """Let go of the connection; one whose answer was read to its end is used again."""
        ...


class Transport:
    """Posts to one endpoint through a client of its own, or one that the caller owns.

    A client of its own is made on first use, inside the running loop, and closed by
    `aclose`; a borrowed one is left alone.
    """

    def __init__(
        self, endpoint: Endpoint, *, provider: str, client: "aiohttp.ClientSession | None" = None
    ) -> None:
        self.endpoint = endpoint
        self.provider = provider
        self._client = client
        self._connections: Connections | None = None

    def __repr__(self) -> str:
        return f"Transport({self.endpoint.shown!r})"

    async def send(self, path: str, body: bytes | None, *, method: str = "POST") -> Arriving:
        """Make one request and return its answer, which has a good status.

        Raises:
            ProviderBusy: The server asks to come back later.
            ProviderTimeout: No byte came for the idle timeout.
            ProviderError: The server cannot be reached, or refused.
        """
        if self._connections is None:
            # Imported here because nobody needs an HTTP client before the first request.
            from clew.providers.connections import Connections  # noqa: PLC0415

            self._connections = Connections(provider=self.provider, client=self._client)
        return await self._connections.send(self.endpoint, path, body, method)

    async def aclose(self) -> None:
        """End what is under way, and close the client if it is our own; harmless again."""
        if self._connections is not None:
            await self._connections.aclose()
