"""The contract of response decoders, and their common part."""

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import msgspec

from clew.core.errors import ProviderError, StreamBroken
from clew.providers.protocol import Chunk, Finished
from clew.providers.sse import ServerEvent
from clew.providers.wire.surrogates import SurrogateJoiner


class Decoder(Protocol):
    """Decodes one response into chunks: feed every event, or the whole response, then close."""

    @property
    def done(self) -> bool:
        """True when the server has ended the response, so reading can stop."""
        ...

    @property
    def complete(self) -> bool:
        """True when the response is complete, although more may follow, such as usage.

        From here on neither a server error nor a lost connection affects the response: `feed`
        ignores the former, and a reader may take the latter for the end.
        """
        return False

    def feed(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event of a stream; never a `Finished`.

        Raises:
            ProviderError: The event reports an error.
            StreamBroken: The event is not readable.
        """
        ...

    def whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of a non-streamed response; raises as `feed` does."""
        ...

    def close(self) -> Finished:
        """Return the end of the response.

        Raises:
            StreamBroken: The server stopped before the response was complete.
        """
        ...


class Framing(Protocol):
    """Splits the bytes of one response into events, at any chunk boundaries."""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Add the next bytes and return the events that they complete."""
        ...

    def close(self) -> list[ServerEvent]:
        """Return the events that the end of the response completes."""
        ...


_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError)


class EventDecoder(ABC):
    """Reads events and whole responses safely; a subclass interprets them.

    It joins split surrogate pairs and turns unreadable data into `StreamBroken`. Nothing that
    arrives after a complete response affects it.
    """

    format: ClassVar[str]
    """What errors call a response, such as `a chat completion`."""
    advice: ClassVar[str]
    """What to check when something else arrives."""

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._halves = SurrogateJoiner()

    @property
    @abstractmethod
    def complete(self) -> bool:
        """True when the response is complete, although usage or its end may be missing."""

    @abstractmethod
    def _take(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event."""

    @abstractmethod
    def _take_whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of a non-streamed response."""

    def feed(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event of a stream; never a `Finished`.

        Raises:
            ProviderError: The event reports an error.
            StreamBroken: The event is not readable.
        """
        if self.done:
            return []
        was_complete = self.complete
        try:
            return self._halves.join(self._take(self._halves.read(event)))
        except _UNREADABLE as error:
            if was_complete:
                return []
            raise self._unreadable(error) from error
        except ProviderError:
            if was_complete:
                return []
            raise

    def whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of a non-streamed response; raises as `feed` does."""
        try:
            return self._halves.join(self._take_whole(self._halves.body(body)))
        except _UNREADABLE as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: object) -> StreamBroken:
        return StreamBroken(
            f"{self._provider} returned data that is not {self.format} ({error}). {self.advice}",
            provider=self._provider,
        )

    def _stopped(self) -> StreamBroken:
        return StreamBroken(
            f"{self._provider} ended the stream before the response was complete."
            " The partial response is kept; send the message again to continue.",
            provider=self._provider,
        )
