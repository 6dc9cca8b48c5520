"""One Chat Completions call from request to chunks, over a transport."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

import anyio

from clew.core.errors import ProviderError
from clew.providers.chat_wire import Decoder
from clew.providers.failures import error_for
from clew.providers.http import MAX_ERROR_BYTES, Transport
from clew.providers.protocol import Chunk
from clew.providers.sse import EventParser

PATH = "chat/completions"
DRAIN_LIMIT = 0.25
"""Seconds to wait, after the answer, for the end that lets its connection be used again."""


class Reader:
    """Turns the bytes of one answer into chunks."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._parser = EventParser()
        self._decoder = Decoder(provider)
        self._plain: bytearray | None = bytearray()

    @property
    def done(self) -> bool:
        """True when the server has ended the answer."""
        return self._decoder.done

    def feed(self, data: bytes) -> list[Chunk]:
        """Return the chunks that `data` completes; raises as `Decoder.feed` does."""
        events = self._parser.feed(data)
        if events:
            self._plain = None
        elif self._plain is not None and len(self._plain) < MAX_ERROR_BYTES:
            self._plain += data
        return [chunk for event in events for chunk in self._decoder.feed(event)]

    def close(self) -> list[Chunk]:
        """Return what was left, and the `Finished`.

        Raises:
            StreamBroken: The server stopped without ending the answer.
            ProviderError: It sent an error as a plain body, under a good status.
        """
        chunks = [chunk for event in self._parser.close() for chunk in self._decoder.feed(event)]
        plain = bytes(self._plain or b"").strip()
        if not chunks and plain.startswith(b"{") and b'"error"' in plain:
            raise error_for(None, plain.decode(errors="replace"), {}, self._provider)
        return [*chunks, self._decoder.close()]


async def stream_chat(
    transport: Transport, body: bytes, *, provider: str
) -> AsyncGenerator[Chunk, None]:
    """Post `body` and yield the answer; ends, raises and closes as `Provider.stream` does."""
    reader = Reader(provider)
    async with aclosing(transport.post_stream(PATH, body)) as arriving:
        async for data in arriving:
            for chunk in reader.feed(data):
                yield chunk
            if reader.done:
                break
        for chunk in reader.close():
            yield chunk
        with suppress(ProviderError), anyio.move_on_after(DRAIN_LIMIT):
            async for _ in arriving:
                pass
