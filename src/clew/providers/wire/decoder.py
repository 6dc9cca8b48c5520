"""What every wire format's decoder promises."""

from typing import Protocol

from clew.providers.protocol import Chunk, Finished
from clew.providers.sse import ServerEvent


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
