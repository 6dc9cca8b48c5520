"""OpenAI Chat Completions as bytes: a request out, chunks back.

Pure: no connection is known here. The messages stand last in the body, so a request that
appends to another begins with the same bytes; the provider's prompt cache lives off that.
"""

from base64 import b64encode
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.errors import ProviderBusy, ProviderError, StreamBroken
from clew.core.ids import CallId
from clew.core.messages import Image, Message, Role, Text, ToolResult
from clew.core.models import ToolSpec
from clew.core.usage import Usage
from clew.providers.failures import error_for
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

DONE = "[DONE]"

_json = msgspec.json.Encoder()


class Fragments:
    """Keeps the bytes of messages, so that a request costs only what is new in it.

    A message is known again by identity: views hand out the same objects turn after turn.
    """

    def __init__(self, limit: int = 64 << 20) -> None:
        self._limit = limit
        self._size = 0
        self._kept: dict[int, tuple[Message, bytes]] = {}

    def encode(self, message: Message) -> bytes:
        """Return what `encode_message` returns."""
        kept = self._kept.get(id(message))
        if kept is not None:
            return kept[1]
        found = encode_message(message)
        if self._size + len(found) > self._limit:
            self._kept, self._size = {}, 0
        # Keeping the message itself keeps its id from being given to another.
        self._kept[id(message)] = (message, found)
        self._size += len(found)
        return found


def encode(
    request: Request, *, limit_field: str = "max_tokens", fragments: Fragments | None = None
) -> bytes:
    """Return the body that asks for `request` as a stream.

    Args:
        request: What to ask.
        limit_field: How the server spells the limit on the answer's length.
        fragments: Messages that were encoded before.
    """
    head: dict[str, Any] = {
        "model": request.model,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.max_output_tokens is not None:
        head[limit_field] = request.max_output_tokens
    if request.temperature is not None:
        head["temperature"] = request.temperature
    if request.tools:
        head["tools"] = [_tool(spec) for spec in request.tools]
    encoded = map(fragments.encode if fragments else encode_message, request.messages)
    messages = [found for found in encoded if found]
    if request.system:
        messages.insert(0, _json.encode({"role": "system", "content": request.system}))
    return b"".join(
        (_json.encode(head)[:-1], b',"messages":[', b",".join(messages), b"]}"),
    )


def encode_message(message: Message) -> bytes:
    """Return `message` as it stands between the brackets; empty if nothing of it is sent."""
    return b",".join(_json.encode(piece) for piece in _wire_messages(message))


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    return {"type": "function", "function": function}


def _wire_messages(message: Message) -> list[dict[str, Any]]:
    found = [_result(result) for result in message.results]
    if message.role is Role.ASSISTANT:
        found += _answer(message)
    elif any(isinstance(part, Text | Image) for part in message.parts):
        found.append({"role": "user", "content": _content(message)})
    return found


def _answer(message: Message) -> list[dict[str, Any]]:
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments or "{}"},
        }
        for call in message.calls
    ]
    if calls:
        return [{"role": "assistant", "content": message.text or None, "tool_calls": calls}]
    return [{"role": "assistant", "content": message.text}] if message.text else []


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not any(isinstance(part, Image) for part in message.parts):
        return message.text
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text) and part.text:
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, Image):
            content.append({"type": "image_url", "image_url": {"url": _address(part)}})
    return content


def _address(image: Image) -> str:
    return image.url or f"data:{image.media_type};base64,{b64encode(image.data).decode()}"


def _result(result: ToolResult) -> dict[str, Any]:
    text = result.text
    if result.failed and not text.startswith("Error: "):
        text = f"Error: {text}"
    # The API takes no pictures in tool messages, so the model is at least told of them.
    for image in result.images:
        text += f"\n[A picture ({image.media_type}) that cannot be shown here.]"
    return {"role": "tool", "tool_call_id": result.call_id, "content": text}


class _Piece(Struct):
    """Mistral sends content as a list of these when the model thinks."""

    text: str | None = None
    thinking: "str | list[_Piece] | None" = None


class _Function(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Struct):
    content: str | list[_Piece] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    index: int | None = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Payload(Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_payload = msgspec.json.Decoder(_Payload)

_REASONS = {
    "stop": StopReason.DONE,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.REFUSED,
    "refusal": StopReason.REFUSED,
}


class Decoder:
    """Folds the events of one answer into chunks.

    Feed every event, then call `close` once; it returns the `Finished`. `done` says that
    the server has ended the answer, so nothing more needs to be read.
    """

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._reason: StopReason | None = None
        self._usage: Usage | None = None
        self._refused = False
        self._started = False
        self._calls = _CallIndex()

    def feed(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event.

        Raises:
            ProviderError: The event reports an error.
            StreamBroken: The event cannot be read, or reports one after the answer began.
        """
        if self.done or event.data == DONE:
            self.done = True
            return []
        try:
            payload = _payload.decode(event.data)
        except msgspec.DecodeError as error:
            raise StreamBroken(
                f"{self._provider} sent an event that is not a chat chunk ({error})."
                " Check that the base URL leads to an OpenAI-compatible server.",
                provider=self._provider,
            ) from error
        if payload.error is not None:
            raise self._failure(event.data, payload.error)
        if payload.usage is not None:
            self._usage = _usage(payload.usage)
        chunks: list[Chunk] = []
        for choice in payload.choices or ():
            if not choice.index:
                chunks += self._choice(choice)
        self._started = self._started or bool(chunks)
        return chunks

    def close(self) -> Finished:
        """Return the end of the answer.

        Raises:
            StreamBroken: The server stopped without ending the answer.
        """
        if self._reason is None and not self.done:
            raise StreamBroken(
                f"{self._provider} stopped in the middle of the answer."
                " What had arrived is kept; send the message again to go on.",
                provider=self._provider,
            )
        return Finished(reason=self._stop_reason(), usage=self._usage)

    def _stop_reason(self) -> StopReason:
        if self._refused:
            return StopReason.REFUSED
        # Some servers say "stop" though they called tools, or the reverse.
        if self._reason in {None, StopReason.DONE, StopReason.TOOL_CALLS}:
            return StopReason.TOOL_CALLS if self._calls.count else StopReason.DONE
        return self._reason or StopReason.DONE

    def _choice(self, choice: _Choice) -> list[Chunk]:
        if choice.finish_reason:
            self._reason = _REASONS.get(choice.finish_reason, StopReason.DONE)
        return self._delta(choice.delta) if choice.delta else []

    def _delta(self, delta: _Delta) -> list[Chunk]:
        chunks: list[Chunk] = []
        thought = delta.reasoning_content or delta.reasoning
        if thought:
            chunks.append(ReasoningChunk(index=0, text=thought))
        if isinstance(delta.content, list):
            chunks += _pieces(delta.content)
        elif delta.content:
            chunks.append(TextChunk(delta.content))
        if delta.refusal:
            self._refused = True
            chunks.append(TextChunk(delta.refusal))
        for call in delta.tool_calls or ():
            chunks.append(self._calls.chunk(call))
        return chunks

    def _failure(self, text: str, error: Any) -> ProviderError:
        codes = (error.get("status_code"), error.get("code")) if isinstance(error, dict) else ()
        status = next((code for code in codes if isinstance(code, int)), None)
        failure = error_for(status, text, {}, self._provider)
        if self._started and isinstance(failure, ProviderBusy):
            return StreamBroken(str(failure), provider=self._provider, status=status)
        return failure


class _CallIndex:
    """Gives every tool call of an answer its own index, whatever the server counts."""

    def __init__(self) -> None:
        self.count = 0
        self._by_wire: dict[int, tuple[int, str]] = {}
        self._named: set[int] = set()
        self._last = 0

    def chunk(self, call: _Call) -> CallChunk:
        """Return the chunk for one delta; id and name go out once per call."""
        index, fresh = self._place(call)
        function = call.function or _Function()
        name = "" if index in self._named else function.name or ""
        if name:
            self._named.add(index)
        arguments = function.arguments or ""
        if isinstance(arguments, dict):
            arguments = _json.encode(arguments).decode()
        call_id = CallId(call.id) if fresh and call.id else None
        return CallChunk(index=index, call_id=call_id, name=name, arguments=arguments)

    def _place(self, call: _Call) -> tuple[int, bool]:
        wire = call.index
        if wire is None:
            wire = self.count if call.id else self._last
        known = self._by_wire.get(wire)
        # Gemini's endpoint gives parallel calls one index and tells them apart by id.
        named = call.function is not None and bool(call.function.name)
        if known is not None and not (call.id and known[1] not in {"", call.id} and named):
            self._last = wire
            late = bool(call.id) and not known[1]
            if late:
                self._by_wire[wire] = (known[0], call.id or "")
            return known[0], late
        index, self.count, self._last = self.count, self.count + 1, wire
        self._by_wire[wire] = (index, call.id or "")
        return index, True


def _pieces(content: list[_Piece]) -> list[Chunk]:
    chunks: list[Chunk] = []
    for piece in content:
        thought = piece.thinking
        if isinstance(thought, list):
            thought = "".join(inner.text or "" for inner in thought)
        if thought:
            chunks.append(ReasoningChunk(index=0, text=thought))
        if piece.text:
            chunks.append(TextChunk(piece.text))
    return chunks


def _usage(found: _Usage) -> Usage:
    details = found.prompt_tokens_details or _PromptDetails()
    return Usage(
        input_tokens=found.prompt_tokens or 0,
        output_tokens=found.completion_tokens or 0,
        cache_read_tokens=details.cached_tokens or found.prompt_cache_hit_tokens or 0,
        cache_write_tokens=details.cache_write_tokens or found.cache_creation_input_tokens or 0,
    )
