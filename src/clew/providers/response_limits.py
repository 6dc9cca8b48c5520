"""Limits for one response: its size, and the time without progress of the answer.

A server may send data for ever: one endless line, keep-alive comments, text without an end. The
limits are far above any real response, and keep memory and time bounded.
"""

import time
from collections.abc import Awaitable
from typing import TypeVar

from clew.core.errors import ProviderTimeout, ResponseTooLarge
from clew.providers.endpoint import Endpoint
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    PartChunk,
    ReasoningChunk,
    ServerToolChunk,
    TextChunk,
)

MIB = 1 << 20
MAX_RESPONSE = 256 * MIB
"""Bytes of one response, decompressed. A stream has up to 300 bytes for each token."""
MAX_DOCUMENT = 64 * MIB
"""Bytes of a response that is one document, such as a list of models."""
MAX_PENDING = 32 * MIB
"""Bytes without a part of the answer: one event that does not end, or nothing but comments."""
MAX_ANSWER = 8 * MIB
"""Characters of an answer with its reasoning and tool calls; about two million tokens."""
MAX_RATIO = 200
"""How many times larger a response may become when it is decompressed."""
RATIO_APPLIES = 4 * MIB
"""Bytes up to which a response may be compressed at any ratio."""

_CHUNK_COST = 16
_CALL_COST = 1024
"""What each chunk and each new tool call counts in addition to its characters."""

T = TypeVar("T")


class ResponseGuard:
    """Watches one response; see the limits of this module and `Endpoint.progress_timeout`."""

    def __init__(self, endpoint: Endpoint, provider: str) -> None:
        self._endpoint = endpoint
        self._provider = provider
        self._waited = 0.0
        self._pending = 0
        self._answer = 0
        self._end: float | None = None

    async def wait(self, work: Awaitable[T]) -> T:
        """Wait for data, as long as the answer made progress recently.

        Raises:
            ProviderTimeout: Data arrives, but the answer makes no progress.
        """
        limit, begun = self._endpoint.longest_stall, time.monotonic()
        # Imported here because nothing needs asyncio before a request.
        from clew.providers.deadlines import Deadline  # noqa: PLC0415

        with Deadline(limit - self._waited):
            result = await work
            self._waited += time.monotonic() - begun
            return result
        raise ProviderTimeout(
            f"{self._endpoint.host} sent no part of the answer for {limit:g} seconds, although the"
            " connection is alive. Send the message again, or increase the progress timeout.",
            provider=self._provider,
        )

    def count_bytes(self, size: int) -> None:
        """Count bytes that were read.

        Raises:
            ResponseTooLarge: Too many bytes contained no part of the answer.
        """
        self._pending += size
        if self._pending > MAX_PENDING:
            raise self._make_error(f"{MAX_PENDING // MIB} MiB without a part of the answer")

    def count_chunk(self, chunk: Chunk) -> None:
        """Count a part of the answer.

        Raises:
            ResponseTooLarge: The answer is too long.
        """
        size = _content_size(chunk)
        if size:
            self._waited = 0.0
            self._pending = 0
        self._answer += size + _CHUNK_COST
        if self._answer > MAX_ANSWER:
            raise self._make_error(f"an answer of more than {MAX_ANSWER // MIB} million characters")

    def check_document(self, size: int) -> None:
        """Check the size of a response that is one document.

        Raises:
            ResponseTooLarge: It is too large.
        """
        if size > MAX_DOCUMENT:
            raise self._make_error(f"a document of more than {MAX_DOCUMENT // MIB} MiB")

    def final_seconds(self, limit: float) -> float:
        """Return how long to wait for the rest of a complete answer: `limit` in total."""
        now = time.monotonic()
        if self._end is None:
            self._end = now + limit
        return max(0.0, self._end - now)

    def _make_error(self, what: str) -> ResponseTooLarge:
        return too_large(self._endpoint, self._provider, what)


def too_large(endpoint: Endpoint, provider: str, what: str) -> ResponseTooLarge:
    """Return the error for a server that sent too much."""
    return ResponseTooLarge(
        f"{endpoint.host} sent {what}. Clew stopped reading. Send the message again; if it happens"
        " again, check the server.",
        provider=provider,
    )


def _content_size(chunk: Chunk) -> int:
    """Return how much of the answer a chunk holds; 0 if the answer makes no progress with it."""
    # Called for every chunk: most are one of the first two.
    if type(chunk) is TextChunk:
        return len(chunk.text)
    if type(chunk) is CallChunk:
        name = chunk.name
        return len(chunk.arguments) + (_CALL_COST + len(name) if name else 0)
    match chunk:
        case ReasoningChunk():
            return len(chunk.text) + len(chunk.signature) + len(chunk.redacted)
        case PartChunk() | ServerToolChunk():
            return _CALL_COST
        case _:
            return 0
