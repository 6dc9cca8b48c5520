"""Log model calls: requests as differences from the previous one, responses, HTTP bodies."""

import codecs
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Raw

from clew.core.errors import ProviderError
from clew.core.json_text import JsonDecoder, decode_json
from clew.core.messages import Message
from clew.log.buffer import ChunkBuffer, LogTextBuffer
from clew.log.content_store import ContentIndex
from clew.log.events import (
    ABORTED,
    TURN,
    LogLevel,
    NativePayload,
    PrefixDelta,
    ProviderFailed,
    ProviderRequest,
    ResponseNormalized,
    ResponseRaw,
    StreamDelta,
)
from clew.log.log_file import LogFile
from clew.log.translate import LogTranslator
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Chunk, Finished, Provider, Request, RetryChunk
from clew.providers.recorded_calls import extra_fields

_SMALL_FIELD = 256
"""Smaller fields of an HTTP body stay in the line."""
_ERROR_FIELDS = ("status", "retry_after", "limit")
"""Arguments that restore the error of a call, where its class has them."""

_Decoder = codecs.getincrementaldecoder("utf-8")
_body_fields = JsonDecoder(dict[str, Raw])
_elements = JsonDecoder(list[Raw])


class CallLogger:
    """Starts the log of each model call."""

    def __init__(self, file: LogFile, level: LogLevel, translator: LogTranslator) -> None:
        self._file = file
        self._level = level
        self._translator = translator
        self.contents = ContentIndex(file.redaction.value)

    def start(
        self, provider: Provider, request: Request, *, purpose: str, history: Sequence[Message]
    ) -> tuple["CallLog", Provider]:
        """Write a request; returns the log of its response, and the provider to call."""
        execution_id = f"x{self._file.next_seq}"
        if purpose == TURN:
            self._translator.round += 1
            self._translator.execution_id = execution_id
            messages = self.contents.add_list(TURN, request.messages, execution_id, history=history)
        else:
            messages = PrefixDelta(new=tuple(map(self.contents.add, request.messages)))
        name, wire = provider.name, None
        is_raw = self._level is LogLevel.RAW
        if is_raw and isinstance(provider, _ShowsWire):
            wire = WireLog(self._file, self.contents, execution_id)
            provider = provider.with_tap(wire)
        event = ProviderRequest(
            execution_id=execution_id,
            run=self._translator.run,
            round=self._translator.round,
            purpose=purpose,
            provider=name,
            model=request.model,
            messages=messages,
            system=self.contents.add(request.system, "system") if request.system else "",
            tools=self.contents.add(request.tools, "tools") if request.tools else "",
            head=self._file.redaction.value(extra_fields(request)),
            content=self.contents.take(),
            native=wire is not None,
        )
        self._file.write(event, redacted=True)
        return CallLog(self._file, event, is_raw=is_raw, wire=wire), provider


class CallLog:
    """The log of one call, which ends with exactly one `Finished` chunk or one `fail`."""

    def __init__(
        self, file: LogFile, request: ProviderRequest, *, is_raw: bool, wire: "WireLog | None"
    ) -> None:
        self._file = file
        self._id = request.execution_id
        self._wire = wire
        self._builder = MessageBuilder(provenance=request.provider)
        self._chunks = ChunkBuffer(file.redaction) if is_raw else None
        self._is_over = False

    def add(self, chunk: Chunk) -> None:
        """Log a chunk; `Finished` ends the call. A retry is in the log of the wire."""
        if isinstance(chunk, RetryChunk):
            return
        with self._file.guard():
            self._builder.add(chunk)
            if self._chunks is not None:
                self._write_chunks(self._chunks, self._chunks.add(chunk))
            if isinstance(chunk, Finished):
                self._end(chunk)

    def fail(self, error: BaseException) -> None:
        """Log that the call ended without its last chunk."""
        if self._is_over:
            return
        with self._file.guard():
            self._end(None)
            self._file.write(_to_event(self._id, error))

    def _write_chunks(self, buffer: ChunkBuffer, chunks: list[dict[str, Any]]) -> None:
        if chunks:
            first = buffer.count - len(chunks) + 1
            event = StreamDelta(execution_id=self._id, sequence=first, chunks=tuple(chunks))
            self._file.write(event, redacted=True)

    def _end(self, finished: Finished | None) -> None:
        self._is_over = True
        if self._wire is not None:
            self._wire.close()
        if self._chunks is not None:
            self._write_chunks(self._chunks, self._chunks.close())
            self._file.write(
                ResponseRaw(
                    execution_id=self._id,
                    response_kind="stream" if finished else "broken",
                    chunks=self._chunks.count,
                    finished=None if finished is None else msgspec.to_builtins(finished),
                )
            )
        message = self._builder.message()
        if finished is not None or message.parts:
            self._file.write(
                ResponseNormalized(
                    execution_id=self._id,
                    message=message,
                    tool_calls=len(message.calls),
                    stop_reason=finished.reason if finished else "",
                    usage=finished.usage if finished else self._builder.usage,
                    cost=finished.cost if finished else None,
                )
            )


class WireLog:
    """Logs the HTTP bodies of one call; implements `clew.providers.transport_tap.TransportTap`."""

    def __init__(self, file: LogFile, contents: ContentIndex, execution_id: str) -> None:
        self._file = file
        self._contents = contents
        self._id = execution_id
        self._surface = ""
        self._kind = ""
        self._attempt = 0
        self._sequence = 0
        self._buffer: LogTextBuffer | None = None
        self._decoder = _Decoder(errors="backslashreplace")

    def on_request(self, path: str, body: bytes | None) -> None:
        """Log a request body."""
        with self._file.guard():
            self._flush()
            self._surface = self._file.redaction.value(path)
            self._attempt += 1
            self._write_request(body or b"")

    def on_response(self, *, is_whole: bool) -> None:
        """Prepare for a response: one document, or a stream."""
        self._kind = "response" if is_whole else "stream_event"
        self._decoder.reset()
        self._buffer = LogTextBuffer(self._file.redaction.stream)

    def on_data(self, data: bytes) -> None:
        """Log bytes of the response once there are enough of them."""
        if self._buffer is not None and data:
            with self._file.guard():
                self._write_text(self._buffer.add(self._decoder.decode(data)))

    def on_error(self, error: ProviderError) -> None:
        """Log that there was no response, or that it broke off."""
        with self._file.guard():
            self._flush()
            fields = {"error": type(error).__name__, "status": error.status, "text": str(error)}
            self._write(payload_kind="response", payload=self._file.redaction.value(fields))

    def close(self) -> None:
        """Log the rest of the response."""
        with self._file.guard():
            self._flush()

    def _flush(self) -> None:
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            rest = buffer.add(self._decoder.decode(b"", final=True))
            self._write_text(rest + buffer.close())

    def _write_request(self, body: bytes) -> None:
        """Split a body into contents, so that only the new ones are written."""
        try:
            fields = _body_fields.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            text = self._file.redaction.value(body.decode(errors="backslashreplace"))
            self._write(payload_kind="request", payload=text)
            return
        lists: dict[str, PrefixDelta] = {}
        payload: dict[str, Any] = {}
        named: dict[str, str] = {}
        owner = f"{self._id}/{self._attempt}"
        for name, raw in fields.items():
            data = bytes(raw)
            if data.lstrip().startswith(b"["):
                elements = [bytes(element) for element in _elements.decode(data)]
                lists[name] = self._contents.add_list(f"wire {name}", elements, owner)
            elif len(data) > _SMALL_FIELD:
                named[name] = self._contents.add(decode_json(data))
            else:
                payload[name] = decode_json(data)
        self._write(
            payload_kind="request",
            payload=self._file.redaction.value(payload),
            lists=lists,
            named=named,
            content=self._contents.take(),
        )

    def _write_text(self, text: str) -> None:
        if text:
            self._write(payload_kind=self._kind, payload=text)

    def _write(self, **fields: Any) -> None:
        self._sequence += 1
        event = NativePayload(
            execution_id=self._id,
            surface=self._surface,
            sequence=self._sequence,
            attempt=self._attempt,
            **fields,
        )
        self._file.write(event, redacted=True)


@runtime_checkable
class _ShowsWire(Protocol):
    """A provider whose HTTP bodies can be observed; see `clew.providers.transport_tap`."""

    def with_tap(self, watch: WireLog) -> Provider:
        """Return a copy that reports everything it sends and receives."""
        ...


def _to_event(execution_id: str, error: BaseException) -> ProviderFailed:
    kind = type(error).__name__ if isinstance(error, Exception) else ABORTED
    fields: dict[str, Any] = {}
    if isinstance(error, ProviderError):
        found = ((name, getattr(error, name, None)) for name in _ERROR_FIELDS)
        fields = {name: value for name, value in found if value is not None}
    return ProviderFailed(execution_id=execution_id, kind=kind, text=str(error), fields=fields)
