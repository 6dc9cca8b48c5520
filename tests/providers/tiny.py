"""An adapter as a user of Clew might write it, for an API of their own, and its harness."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, Unpack

import msgspec

from clew.core.errors import StreamBroken
from clew.core.messages import Message, Reasoning
from clew.core.usage import Usage
from clew.providers.adapter import Adapter, AdapterOptions
from clew.providers.http_errors import error_for
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    ReasoningChunk,
    Request,
    StopReason,
    TextChunk,
)
from clew.providers.sse import ServerEvent
from clew.providers.transport import stream_call
from clew.testing.providers import ApiCapabilities, HttpHarness, ModelReply

NAME = "tiny"
_json = msgspec.json.Encoder()


class Tiny(Adapter):
    """Speaks to a server that streams `think`, `seal`, `say`, `call` and `end`."""

    def __init__(self, url: str, *, api_key: str, **options: Unpack[AdapterOptions]) -> None:
        super().__init__(NAME, url, {"api_key": api_key}, **options)

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Post the request and yield what the server sends back."""
        decoder = partial(TinyDecoder, self.name)
        return stream_call(self.transport, "talk", encode(request), decoder=decoder)


def encode(request: Request) -> bytes:
    """Return the body that asks for `request`."""
    return _json.encode({"model": request.model, "talk": list(map(_told, request.messages))})


class TinyDecoder:
    """Folds the events of one answer into chunks."""

    def __init__(self, provider: str) -> None:
        self.done = self.complete = False
        self._provider = provider
        self._calls = 0
        self._end: Finished | None = None

    def feed(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event."""
        return self._chunks(self._read(event.data))

    def whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of an answer that came in one piece."""
        found = self._read(body)
        return [chunk for each in found.get("all", [found]) for chunk in self._chunks(each)]

    def close(self) -> Finished:
        """Return the end of the answer."""
        if self._end is None:
            raise StreamBroken("The answer has no end.", provider=self._provider)
        return self._end

    def _read(self, data: str | bytes) -> dict[str, Any]:
        try:
            return msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise StreamBroken("The answer cannot be read.", provider=self._provider) from error

    def _chunks(self, found: dict[str, Any]) -> list[Chunk]:
        match found:
            case {"say": str(text)}:
                return [TextChunk(text)]
            case {"think": str(text)}:
                return [ReasoningChunk(index=0, text=text)]
            case {"seal": str(signature)}:
                return [ReasoningChunk(index=0, signature=signature)]
            case {"call": [call_id, name, arguments]}:
                self._calls += 1
                return [
                    CallChunk(
                        index=self._calls,
                        call_id=call_id,
                        name=name,
                        arguments=arguments,
                        complete=True,
                    )
                ]
            case {"end": [reason, usage]}:
                self.done = self.complete = True
                self._end = Finished(reason=StopReason(reason), usage=msgspec.convert(usage, Usage))
            case {"error": _}:
                raise error_for(503, msgspec.json.encode(found).decode(), {}, self._provider)
        return []


def _told(message: Message) -> dict[str, object]:
    own = [part for part in message.parts if isinstance(part, Reasoning)]
    seals = [part.signature for part in own if part.provenance == NAME]
    calls = [[call.call_id, call.name, call.arguments] for call in message.calls]
    results = [[result.call_id, result.text] for result in message.results]
    said = {"by": message.role, "seals": seals, "says": message.text}
    return {**said, "calls": calls, "results": results}


class TinyVoice:
    """How that server speaks."""

    content_type = "text/event-stream"

    def stream(self, reply: ModelReply) -> list[bytes]:
        """Return the reply as a stream."""
        return [b"data: " + _json.encode(each) + b"\n\n" for each in _said(reply)]

    def whole(self, reply: ModelReply) -> bytes:
        """Return the reply in one piece."""
        return _json.encode({"all": _said(reply)})

    def error(self, status: int, message: str) -> bytes:
        """Return the body of an error answer."""
        return _json.encode({"error": {"message": message, "code": status}})


def _said(reply: ModelReply) -> list[dict[str, object]]:
    reason = reply.reason or (StopReason.TOOL_CALLS if reply.calls else StopReason.DONE)
    said: list[dict[str, object]] = [{"think": thought} for thought in reply.thoughts]
    said += [{"seal": reply.signature}] if reply.signature else []
    said += [{"say": word} for word in reply.words]
    said += [{"call": [call.call_id, call.name, call.arguments]} for call in reply.calls]
    return [*said, {"end": [reason, reply.usage]}]


TINY = HttpHarness(
    api=TinyVoice(),
    make=lambda at: Tiny(at.url, api_key=at.api_key, **at.options),
    capabilities=ApiCapabilities(thinking=True, signatures=True, cache_writes=True),
    stream_error=lambda text: b"data: " + TinyVoice().error(503, text) + b"\n\n",
)
