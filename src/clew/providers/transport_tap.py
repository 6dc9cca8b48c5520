"""Observe the traffic of an adapter, for logging only."""

from typing import Protocol

from clew.core.errors import ProviderError
from clew.providers.transport import ResponseStream, Transport


class TransportTap(Protocol):
    """Receives request and response bodies, without headers, which may contain keys."""

    def on_request(self, path: str, body: bytes | None) -> None:
        """Take note of a request, or of another attempt at it."""
        ...

    def on_response(self, *, is_whole: bool) -> None:
        """Take note that an answer begins: one document, or a stream."""
        ...

    def on_data(self, data: bytes) -> None:
        """Take note of bytes of the answer."""
        ...

    def on_error(self, error: ProviderError) -> None:
        """Take note that there was no answer, or that it broke off."""
        ...


class TappedTransport(Transport):
    """Forwards to another transport and reports the traffic to a `TransportTap`."""

    def __init__(self, transport: Transport, tap: TransportTap) -> None:
        super().__init__(transport.endpoint, provider=transport.provider)
        self._transport = transport
        self._tap = tap

    async def send(self, path: str, body: bytes | None, *, method: str = "POST") -> ResponseStream:
        """Send one request; see `Transport.send`."""
        self._tap.on_request(path, body)
        try:
            response = await self._transport.send(path, body, method=method)
        except ProviderError as error:
            self._tap.on_error(error)
            raise
        self._tap.on_response(is_whole=response.is_json)
        return _TappedResponse(response, self._tap)

    async def aclose(self) -> None:
        """Do nothing: the other transport belongs to its owner."""


class _TappedResponse(ResponseStream):
    def __init__(self, response: ResponseStream, tap: TransportTap) -> None:
        self._response = response
        self._tap = tap

    @property
    def is_json(self) -> bool:
        return self._response.is_json

    @property
    def content_type(self) -> str:
        return self._response.content_type

    async def read(self) -> bytes:
        try:
            data = await self._response.read()
        except ProviderError as error:
            self._tap.on_error(error)
            raise
        self._tap.on_data(data)
        return data

    @property
    def is_read(self) -> bool:
        return self._response.is_read

    def mask_secrets(self, text: str) -> str:
        return self._response.mask_secrets(text)

    def close(self) -> None:
        self._response.close()
