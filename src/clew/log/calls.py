"""Writing down one model call: what was asked, what came, and how it ended."""

from typing import Any

import msgspec
from msgspec import Struct

from clew.core.errors import ContextOverflow, ProviderBusy, ProviderError
from clew.core.messages import Message
from clew.log.events import (
    ProviderFailed,
    ProviderRequest,
    ResponseNormalized,
    ResponseRaw,
    StreamDelta,
)
from clew.log.lines import Lines
from clew.log.native import NativeCall
from clew.log.pieces import ChunkPieces
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Chunk, Finished, Request

ABORTED = "Aborted"


class Place(Struct, frozen=True, kw_only=True):
    """Where in a session a call is made."""

    execution_id: str
    run: int
    round: int
    purpose: str


class CallLog:
    """One call. Each ends with exactly one `finished` or `failed`."""

    def __init__(
        self, lines: Lines, place: Place, *, provider: str, is_raw: bool, native: NativeCall | None
    ) -> None:
        self._lines = lines
        self.place = place
        self._provider = provider
        self._native = native
        self._assembly = MessageBuilder(provenance=provider)
        redaction = lines.redaction
        self._pieces = ChunkPieces(redaction.stream, redaction.value) if is_raw else None
        self._is_over = False

    def add(self, chunk: Chunk) -> None:
        """Take in a chunk; the last one ends the call."""
        with self._lines.guarded():
            self._assembly.add(chunk)
            if self._pieces is not None:
                self._write_chunks(self._pieces.add(chunk))
            if isinstance(chunk, Finished):
                self._end(chunk)

    def failed(self, error: BaseException) -> None:
        """Take note that the call ended without its last chunk."""
        if self._is_over:
            return
        with self._lines.guarded():
            self._end(None)
            self._lines.write(_failure(self.place.execution_id, error))

    def _write_chunks(self, chunks: list[dict[str, Any]]) -> None:
        if chunks and self._pieces is not None:
            first = self._pieces.count - len(chunks) + 1
            event = StreamDelta(
                execution_id=self.place.execution_id, sequence=first, chunks=tuple(chunks)
            )
            self._lines.write(event, is_clean=True)

    def _end(self, finished: Finished | None) -> None:
        self._is_over = True
        if self._native is not None:
            self._native.close()
        if self._pieces is not None:
            self._write_chunks(self._pieces.close())
            self._lines.write(
                ResponseRaw(
                    execution_id=self.place.execution_id,
                    response_kind="stream" if finished else "broken",
                    chunks=self._pieces.count,
                    finished=None if finished is None else msgspec.to_builtins(finished),
                )
            )
        message = self._assembly.message()
        if finished is not None or message.parts:
            self._lines.write(self._normalized(message, finished))

    def _normalized(self, message: Message, finished: Finished | None) -> ResponseNormalized:
        return ResponseNormalized(
            execution_id=self.place.execution_id,
            message=message,
            tool_calls=len(message.calls),
            stop_reason=finished.reason if finished else "",
            usage=finished.usage if finished else self._assembly.usage,
            cost=finished.cost if finished else None,
        )


def request_event(
    request: Request, place: Place, *, provider: str, **fields: Any
) -> ProviderRequest:
    """Make the event of a call; what it names is in `fields`."""
    return ProviderRequest(
        execution_id=place.execution_id,
        run=place.run,
        round=place.round,
        purpose=place.purpose,
        provider=provider,
        model=request.model,
        **fields,
    )


def _failure(execution_id: str, error: BaseException) -> ProviderFailed:
    fields: dict[str, Any] = {}
    if not isinstance(error, ProviderError):
        kind = ABORTED if not isinstance(error, Exception) else type(error).__name__
        return ProviderFailed(execution_id=execution_id, kind=kind, text=str(error))
    if error.status is not None:
        fields["status"] = error.status
    if isinstance(error, ProviderBusy) and error.retry_after is not None:
        fields["retry_after"] = error.retry_after
    if isinstance(error, ContextOverflow) and error.limit is not None:
        fields["limit"] = error.limit
    return ProviderFailed(
        execution_id=execution_id, kind=type(error).__name__, text=str(error), fields=fields
    )
