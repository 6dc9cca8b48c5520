"""The answers of OpenAI Chat Completions, streamed or whole, as chunks."""

from typing import Any

import msgspec
from msgspec import Struct

from clew.core.errors import ProviderError, StreamBroken
from clew.core.ids import CallId
from clew.core.usage import Usage
from clew.providers.failures import error_for
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    ReasoningChunk,
    StopReason,
    TextChunk,
)
from clew.providers.sse import ServerEvent

DONE = "[DONE]"

_json = msgspec.json.Encoder()


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
    message: _Delta | None = None
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
            raise self._unreadable(error) from error
        return self._chunks(payload, event.data)

    def whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of an answer that came in one piece; raises as `feed` does."""
        self.done = True
        try:
            return self._chunks(_payload.decode(body), body.decode(errors="replace"))
        except msgspec.DecodeError as error:
            raise self._unreadable(error) from error

    def _chunks(self, payload: _Payload, text: str) -> list[Chunk]:
        if payload.error is not None:
            raise self._failure(text, payload.error)
        if payload.usage is not None:
            self._usage = _usage(payload.usage)
        chunks: list[Chunk] = []
        for choice in payload.choices or ():
            if not choice.index:
                chunks += self._choice(choice)
        return chunks

    def _unreadable(self, error: Exception) -> StreamBroken:
        return StreamBroken(
            f"{self._provider} sent something that is not a chat answer ({error})."
            " Check that the base URL leads to an OpenAI-compatible server.",
            provider=self._provider,
        )

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
        delta = choice.delta or choice.message
        return self._delta(delta) if delta else []

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
        return error_for(status, text, {}, self._provider)


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
