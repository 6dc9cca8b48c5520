"""What every decoder does around the events of its own format."""

from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec

from clew.core.errors import ProviderError, StreamBroken
from clew.providers.protocol import Chunk
from clew.providers.sse import ServerEvent
from clew.providers.wire.halves import Halves

_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError)


class Folding(ABC):
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
        self._halves = Halves()

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
