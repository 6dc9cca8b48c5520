"""Observe the traffic of an adapter, for logging only."""

from typing import Protocol

from clew.core.errors import ProviderError
from clew.providers.http import ResponseStream, Transport


class TransportTap(Protocol):
    """Receives request and response bodies, without headers, which may contain keys."""

    def sent(self, path: str, body: bytes | None) -> None:
        """Take note of a request, or of another attempt at it."""
        ...

    def answered(self, *, is_whole: bool) -> None:
        """Take note that an answer begins: one document, or a stream."""
        ...

    def heard(self, data: bytes) -> None:
        """Take note of bytes of the answer."""
        ...

    def refused(self, error: ProviderError) -> None:
        """Take note that there was no answer, or that it broke off."""
        ...


class TappedTransport(Transport):
    """Forwards to another transport and reports the traffic to a `TransportTap`."""

    def __init__(self, transport: Transport, watch: TransportTap) -> None:
        super().__init__(transport.endpoint, provider=transport.provider)
        self._transport = transport
        self._watch = watch

    async def send(self, path: str, body: bytes | None, *, method: str = "POST") -> ResponseStream:
        """Send one request; see `Transport.send`."""
        self._watch.sent(path, body)
        try:
            arriving = await self._transport.send(path, body, method=method)
        except ProviderError as error:
            self._watch.refused(error)
            raise
        self._watch.answered(is_whole=arriving.is_json)
        return _WatchedArriving(arriving, self._watch)

    async def aclose(self) -> None:
        """Do nothing: the other transport belongs to its owner."""


class _WatchedArriving(ResponseStream):
    def __init__(self, arriving: ResponseStream, watch: TransportTap) -> None:
        self._arriving = arriving
        self._watch = watch

    @property
    def is_json(self) -> bool:
        return self._arriving.is_json

    @property
    def content_type(self) -> str:
        return self._arriving.content_type

    async def read(self) -> bytes:
        try:
            data = await self._arriving.read()
        except ProviderError as error:
            self._watch.refused(error)
            raise
        self._watch.heard(data)
        return data

    def without_secrets(self, text: str) -> str:
        return self._arriving.without_secrets(text)

    def close(self) -> None:
        self._arriving.close()
