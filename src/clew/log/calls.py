"""Log the response to a model call, and its HTTP bodies."""

import codecs
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Raw

from clew.core.errors import ProviderError
from clew.core.json_text import decode_json
from clew.log import events as log
from clew.log.buffer import ChunkBuffer, LogTextBuffer
from clew.log.log_file import LogFile
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Chunk, Finished, Provider, RetryChunk

_SMALL_FIELD = 256
"""Smaller fields of an HTTP body stay in the line."""
_ERROR_FIELDS = ("status", "retry_after", "limit")
"""Arguments that restore the error of a call, where its class has them."""

_Decoder = codecs.getincrementaldecoder("utf-8")


@runtime_checkable
class ShowsWire(Protocol):
    """A provider whose HTTP bodies can be observed; see `clew.providers.transport_tap`."""

    def with_tap(self, tap: "CallLog") -> Provider:
        """Return a copy that reports everything it sends and receives."""
        ...


class CallLog:
    """The log of one call, which ends with exactly one `Finished` chunk or one `fail`.

    It logs the HTTP bodies as a `clew.providers.transport_tap.TransportTap`.
    """

    def __init__(self, file: LogFile, provider: str, *, is_raw: bool) -> None:
        self.execution_id = f"x{file.next_seq}"
        self.provider = provider
        self._file = file
        self._builder = MessageBuilder(provenance=provider)
        self._chunks = ChunkBuffer(file.redaction, self._write_chunk) if is_raw else None
        self._chunk_count = 0
        self._is_over = False
        self._body = LogTextBuffer(file.redaction, self._write_body)
        self._decoder = _Decoder(errors="backslashreplace")
        self._surface = ""
        self._kind = "stream_event"
        self._attempt = 0
        self._sequence = 0

    def add(self, chunk: Chunk) -> None:
        """Log a chunk; `Finished` ends the call. A retry is in the log of the HTTP bodies."""
        if isinstance(chunk, RetryChunk):
            return
        with self._file.guard():
            self._builder.add(chunk)
            if self._chunks is not None:
                self._chunks.add(chunk)
            if isinstance(chunk, Finished):
                self._end(chunk)

    def fail(self, error: BaseException) -> None:
        """Log that the call ended without its last chunk."""
        if self._is_over:
            return
        with self._file.guard():
            self._end(None)
            kind = type(error).__name__ if isinstance(error, Exception) else log.ABORTED
            fields: dict[str, Any] = {}
            if isinstance(error, ProviderError):
                found = {name: getattr(error, name, None) for name in _ERROR_FIELDS}
                fields = {name: value for name, value in found.items() if value is not None}
            self._file.write(
                log.ProviderFailed(
                    execution_id=self.execution_id, kind=kind, text=str(error), fields=fields
                )
            )

    def on_request(self, path: str, body: bytes | None) -> None:
        """Log a request body as contents, of which only the new ones are written."""
        with self._file.guard():
            self._end_body()
            self._surface = self._file.redaction.value(path)
            self._attempt += 1
            try:
                fields = decode_json(body or b"", type=dict[str, Raw])
            except (msgspec.DecodeError, UnicodeDecodeError):
                text = (body or b"").decode(errors="backslashreplace")
                self._write_native("request", self._file.redaction.value(text))
            else:
                self._write_fields(fields)

    def on_response(self, *, is_whole: bool) -> None:
        """Prepare for a response: one document, or a stream."""
        self._kind = "response" if is_whole else "stream_event"

    def on_data(self, data: bytes) -> None:
        """Log bytes of the response once there are enough of them."""
        if self._is_over:
            return
        with self._file.guard():
            self._body.add(self._decoder.decode(data))

    def on_error(self, error: ProviderError) -> None:
        """Log that there was no response, or that it broke off."""
        with self._file.guard():
            self._end_body()
            fields = {"error": type(error).__name__, "status": error.status, "text": str(error)}
            self._write_native("response", self._file.redaction.value(fields))

    def _end(self, finished: Finished | None) -> None:
        self._is_over = True
        self._end_body()
        if self._chunks is not None:
            self._chunks.flush()
            self._file.write(
                log.ResponseRaw(
                    execution_id=self.execution_id,
                    response_kind="stream" if finished else "broken",
                    chunks=self._chunk_count,
                    finished=None if finished is None else msgspec.to_builtins(finished),
                )
            )
        message = self._builder.message()
        if finished is not None or message.parts:
            self._file.write(
                log.ResponseNormalized(
                    execution_id=self.execution_id,
                    message=message,
                    tool_calls=len(message.calls),
                    stop_reason=finished.reason if finished else "",
                    usage=finished.usage if finished else self._builder.usage,
                    cost=finished.cost if finished else None,
                )
            )

    def _end_body(self) -> None:
        self._body.add(self._decoder.decode(b"", final=True))
        self._body.flush(is_over=True)

    def _write_fields(self, fields: dict[str, Raw]) -> None:
        contents = self._file.contents
        owner = f"{self.execution_id}/{self._attempt}"
        lists: dict[str, log.PrefixDelta] = {}
        named: dict[str, str] = {}
        small: dict[str, Any] = {}
        for name, raw in fields.items():
            data = bytes(raw)
            if data.lstrip().startswith(b"["):
                elements = [bytes(element) for element in decode_json(data, type=list[Raw])]
                lists[name] = contents.add_list(f"wire {name}", elements, owner)
            elif len(data) > _SMALL_FIELD:
                named[name] = contents.add(decode_json(data))
            else:
                small[name] = decode_json(data)
        payload = self._file.redaction.value(small)
        self._write_native("request", payload, lists=lists, named=named, content=contents.take())

    def _write_native(self, kind: str, payload: Any, **contents: Any) -> None:
        """Write a redacted body, or a part of one."""
        self._sequence += 1
        event = log.NativePayload(
            execution_id=self.execution_id,
            surface=self._surface,
            payload_kind=kind,
            sequence=self._sequence,
            attempt=self._attempt,
            payload=payload,
            **contents,
        )
        self._file.write(event, redacted=True)

    def _write_body(self, text: str) -> None:
        self._write_native(self._kind, text)

    def _write_chunk(self, chunk: dict[str, Any]) -> None:
        self._chunk_count += 1
        event = log.StreamDelta(
            execution_id=self.execution_id, sequence=self._chunk_count, chunks=(chunk,)
        )
        self._file.write(event, redacted=True)
