"""The contract of response decoders, and their common part."""

from typing import ClassVar, Protocol

import msgspec

from clew.core.errors import ProviderError, StreamBroken
from clew.core.json_text import NestedTooDeeply
from clew.providers.protocol import Chunk, Finished
from clew.providers.sse import ServerEvent
from clew.providers.wire.deep_json import cut_deep_parts
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


class StreamFraming(Protocol):
    """Splits the bytes of one response into events, at any chunk boundaries."""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Add the next bytes and return the events that they complete."""
        ...

    def close(self) -> list[ServerEvent]:
        """Return the events that the end of the response completes."""
        ...


_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError)


class ResponseFormat(Protocol):
    """Interprets the events of one response in one API; used through `EventDecoder`."""

    name: ClassVar[str]
    """What errors call a response, such as `a chat completion`."""
    advice: ClassVar[str]
    """What to check when something else arrives."""
    done: bool
    """True when the server has ended the response."""

    @property
    def complete(self) -> bool:
        """True when the response is complete, although usage or its end may be missing."""
        ...

    def take(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event; raises `ValueError` for an unreadable one."""
        ...

    def take_whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of a non-streamed response; raises as `take` does."""
        ...

    def finish(self) -> Finished:
        """Return the end of a response that is complete."""
        ...


class EventDecoder:
    """Reads events and whole responses safely; a `ResponseFormat` interprets them.

    It joins split surrogate pairs and turns unreadable data into `StreamBroken`. Nothing that
    arrives after a complete response affects it.
    """

    def __init__(self, provider: str, response: ResponseFormat) -> None:
        self._provider = provider
        self._response = response
        self._surrogates = SurrogateJoiner()

    @property
    def done(self) -> bool:
        """True when the server has ended the response, so reading can stop."""
        return self._response.done

    @property
    def complete(self) -> bool:
        """True when the response is complete, although usage or its end may be missing."""
        return self._response.complete

    def feed(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event of a stream; never a `Finished`.

        Raises:
            ProviderError: The event reports an error.
            StreamBroken: The event is not readable.
        """
        response, surrogates = self._response, self._surrogates
        if response.done:
            return []
        was_complete = response.complete
        try:
            if "\\u" in event.data:
                event = surrogates.escape_event(event)
            try:
                found = response.take(event)
            except NestedTooDeeply:
                shallow = cut_deep_parts(event.data)
                found = shallow.restore(response.take(ServerEvent(shallow.text, event.name)))
            return surrogates.join(found) if surrogates.any_found else found
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
        surrogates = self._surrogates
        try:
            return surrogates.join(self._take_whole(surrogates.escape_body(body)))
        except _UNREADABLE as error:
            raise self._unreadable(error) from error

    def _take_whole(self, body: bytes) -> list[Chunk]:
        try:
            return self._response.take_whole(body)
        except NestedTooDeeply:
            shallow = cut_deep_parts(body.decode())
            return shallow.restore(self._response.take_whole(shallow.text.encode()))

    def close(self) -> Finished:
        """Return the end of the response.

        Raises:
            StreamBroken: The server stopped before the response was complete.
        """
        if not self._response.complete:
            raise StreamBroken(
                f"{self._provider} ended the stream before the response was complete."
                " The partial response is kept; send the message again to continue.",
                provider=self._provider,
            )
        return self._response.finish()

    def _unreadable(self, error: object) -> StreamBroken:
        name, advice = self._response.name, self._response.advice
        return StreamBroken(
            f"{self._provider} returned data that is not {name} ({error}). {advice}",
            provider=self._provider,
        )
