"""What every wire format's decoder promises."""

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import msgspec

from clew.core.errors import ProviderError, StreamBroken
from clew.providers.protocol import Chunk, Finished
from clew.providers.sse import ServerEvent
from clew.providers.wire.surrogates import SurrogateJoiner


class Decoder(Protocol):
    """Folds one answer into chunks: feed every event, or the whole answer, then close once."""

    @property
    def done(self) -> bool:
        """True when the server has ended the answer, so nothing more needs to be read."""
        ...

    @property
    def complete(self) -> bool:
        """True when the whole answer has come, though more may follow, such as its usage.

        From here on neither an error of the server nor a lost connection spoils the answer:
        `feed` ignores the one, and whoever reads may take the other for the end.
        """
        return False

    def feed(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event of a stream; never a `Finished`.

        Raises:
            ProviderError: The event reports an error.
            StreamBroken: The event cannot be read.
        """
        ...

    def whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of an answer that came in one piece; raises as `feed` does."""
        ...

    def close(self) -> Finished:
        """Return the end of the answer.

        Raises:
            StreamBroken: The server stopped without ending the answer.
        """
        ...


class Framing(Protocol):
    """Finds the events in the bytes of one response, however they were cut."""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Take the next bytes and return the events that they complete."""
        ...

    def close(self) -> list[ServerEvent]:
        """Return what the end of the response completes."""
        ...


_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError)


class EventDecoder(ABC):
    """Reads events and whole answers with care; a subclass knows what they say.

    Characters that were cut in two are joined, and what nobody can read is a `StreamBroken`.
    Once the answer is complete, nothing that still comes can spoil it.
    """

    format: ClassVar[str]
    """What errors call an answer, such as `a chat answer`."""
    advice: ClassVar[str]
    """Where to look when something else came."""

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._halves = SurrogateJoiner()

    @property
    @abstractmethod
    def complete(self) -> bool:
        """True when the whole answer has come, though its usage or its end may be missing."""

    @abstractmethod
    def _take(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event."""

    @abstractmethod
    def _take_whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of an answer that came in one piece."""

    def feed(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event of a stream; never a `Finished`.

        Raises:
            ProviderError: The event reports an error.
            StreamBroken: The event cannot be read.
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
        """Return the chunks of an answer that came in one piece; raises as `feed` does."""
        try:
            return self._halves.join(self._take_whole(self._halves.body(body)))
        except _UNREADABLE as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: object) -> StreamBroken:
        return StreamBroken(
            f"{self._provider} sent something that is not {self.format} ({error}). {self.advice}",
            provider=self._provider,
        )

    def _stopped(self) -> StreamBroken:
        return StreamBroken(
            f"{self._provider} stopped in the middle of the answer."
            " What had arrived is kept; send the message again to go on.",
            provider=self._provider,
        )
