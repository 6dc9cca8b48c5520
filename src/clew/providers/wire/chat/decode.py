"""Decode the responses of OpenAI Chat Completions, streamed or whole."""

from base64 import b64decode
from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from clew.core.errors import ProviderBusy, ProviderError
from clew.core.json_text import JsonDecoder
from clew.core.messages import Image
from clew.core.usage import Usage
from clew.providers.http_errors import error_for
from clew.providers.protocol import (
    Chunk,
    Finished,
    PartChunk,
    ReasoningChunk,
    StopReason,
    TextChunk,
    UsageChunk,
)
from clew.providers.sse import ServerEvent
from clew.providers.wire.base_decoder import EventDecoder
from clew.providers.wire.chat.reasoning_details import ReasoningDetails
from clew.providers.wire.chat.response import (
    ChatChoice,
    ChatDelta,
    ChatPayload,
    ChatUsage,
    ContentPart,
    GeneratedImage,
    ToolCallDelta,
    find_usage,
    read_cost,
    read_usage,
)
from clew.providers.wire.chat.text_markup import MarkupItem, MarkupSplitter, TextRun, TextTags
from clew.providers.wire.chat.tool_calls import HostToolTracker, ToolCallTracker
from clew.providers.wire.surrogates import repair_surrogates

DONE = "[DONE]"

_json = msgspec.json.Encoder()
_payload = JsonDecoder(ChatPayload)

_REASONS = {
    "stop": StopReason.DONE,
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "model_length": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.REFUSED,
    "refusal": StopReason.REFUSED,
    "sensitive": StopReason.REFUSED,
}
_NONE = ChatChoice()
_BREAKDOWNS = frozenset({"error", "insufficient_system_resource", "network_error"})
"""Finish reasons of hosts that failed."""


def chat_decoder(
    provider: str, *, tags: Iterable[TextTags] = (), tools: Iterable[str] = ()
) -> EventDecoder:
    """Return the decoder of one response.

    Args:
        provider: The provider, for errors.
        tags: Tags that the server may have left in the text.
        tools: The names that a tool call in such tags may have.
    """
    return EventDecoder(provider, ChatResponse(provider, tags=tags, tools=tools))


class ChatResponse:
    """Interprets one response; see `clew.providers.wire.base_decoder.ResponseFormat`."""

    name: ClassVar = "a chat completion"
    advice: ClassVar = "Check that the base URL is that of an OpenAI-compatible server."

    def __init__(
        self, provider: str, *, tags: Iterable[TextTags] = (), tools: Iterable[str] = ()
    ) -> None:
        self.done = False
        self._provider = provider
        self._reason: StopReason | None = None
        self._usage: Usage | None = None
        self._cost: float | None = None
        self._refusal: list[str] = []
        self._ended = False
        self._calls = ToolCallTracker()
        self._details = ReasoningDetails()
        self._tools = HostToolTracker()
        tags = tuple(tags)
        self._splitter = MarkupSplitter(tags, tools) if tags else None

    @property
    def complete(self) -> bool:
        """True when the finish reason has arrived; usage may follow."""
        return self.done or self._reason is not None

    def finish(self) -> Finished:
        """Return the end of the response."""
        return Finished(
            reason=self._stop_reason(),
            usage=self._usage,
            cost=self._cost,
            detail=repair_surrogates("".join(self._refusal)),
        )

    def take(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event."""
        if event.data == DONE:
            self.done = True
            return self._end()
        return self._chunks(_payload.decode(event.data), event.data, whole=False)

    def take_whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of a non-streamed response."""
        payload = _payload.decode(body)
        found = self._chunks(payload, body.decode(errors="replace"), whole=True)
        if payload.choices is None:
            raise ValueError("it has no `choices`")
        self.done = True
        return [*found, *self._end()]

    def _chunks(self, payload: ChatPayload, text: str, *, whole: bool) -> list[Chunk]:
        choices = payload.choices
        choice = choices[0] if choices and not choices[0].index else _first(choices)
        # After a complete response an error does not matter, but its event may contain the usage.
        if (problem := _problem(payload, choice)) is not None and not self.complete:
            raise self._failure(text, problem)
        first, second = choice.delta, choice.message
        # Perplexity sends both: the delta, and the message so far.
        delta = second or first if whole else first or second
        found: list[Chunk] = []
        if payload.citations or payload.search_results:
            found += self._tools.read_citations(payload)
        if delta is not None:
            self._add_delta(delta, found)
        if (counted := find_usage(payload, choice)) is not None:
            found += self._count(counted, ending=whole or bool(choice.finish_reason))
        if choice.finish_reason:
            found += self._finish(choice.finish_reason)
        return found

    def _add_delta(self, delta: ChatDelta, found: list[Chunk]) -> None:
        """Add the chunks of a delta to those of its event."""
        if delta.annotations or delta.executed_tools:
            found += self._tools.read_delta(delta)
        details, content = delta.reasoning_details, delta.content
        detail_text = self._details.add(details) if details else ""
        if thought := delta.reasoning_content or delta.reasoning or detail_text:
            found.append(ReasoningChunk(index=0, text=thought))
        if content:
            if isinstance(content, dict):
                content = _read_object(content)
            if isinstance(content, list):
                found += _pieces(content)
            elif self._splitter is None:
                found.append(TextChunk(content))
            else:
                found += self._make_chunks(self._splitter.feed(content))
        if delta.tool_calls or delta.function_call:
            found += self._decode_calls(delta)
        if delta.audio or delta.refusal or delta.images or delta.extra_content:
            found += self._rest(delta)

    def _rest(self, delta: ChatDelta) -> list[Chunk]:
        """Return the chunks of fields that few responses contain."""
        found: list[Chunk] = []
        if delta.audio is not None and delta.audio.transcript:
            found.append(TextChunk(delta.audio.transcript))
        if delta.refusal:
            self._refusal.append(delta.refusal)
            found.append(TextChunk(delta.refusal))
        found += map(_picture, delta.images or ())
        if delta.extra_content:
            private = {"message": {"extra_content": delta.extra_content}}
            found.append(TextChunk("", extra=_json.encode(private).decode()))
        return found

    def _decode_calls(self, delta: ChatDelta) -> list[Chunk]:
        calls = delta.tool_calls or []
        if delta.function_call is not None and delta.function_call.name:
            calls = [*calls, ToolCallDelta(index=0, function=delta.function_call)]
        found = self._flush_markup() if calls else []
        found += map(self._calls.chunk, calls)
        return found

    def _flush_markup(self) -> list[Chunk]:
        """Return the text that was held back as possible markup."""
        return [] if self._splitter is None else self._make_chunks(self._splitter.close())

    def _make_chunks(self, parts: list[MarkupItem]) -> list[Chunk]:
        found: list[Chunk] = []
        for part in parts:
            if not isinstance(part, TextRun):
                found.append(self._calls.text_call(part.name, part.arguments))
            elif part.thought:
                found.append(ReasoningChunk(index=0, text=part.text))
            else:
                found.append(TextChunk(part.text))
        return found

    def _count(self, found: ChatUsage, *, ending: bool) -> list[Chunk]:
        before, self._usage, self._cost = self._usage, read_usage(found), read_cost(found)
        # At the end, `Finished` reports it.
        known = ending or self._reason is not None or self._usage == before
        return [] if known else [UsageChunk(self._usage)]

    def _finish(self, reason: str) -> list[Chunk]:
        if reason.lower() in _BREAKDOWNS:
            raise ProviderBusy(
                f"{self._provider} could not finish the response ({reason}). Try again later.",
                provider=self._provider,
            )
        self._reason = _REASONS.get(reason.lower(), StopReason.DONE)
        return self._end()

    def _end(self) -> list[Chunk]:
        """Return the chunks that are known only at the end of the response, once."""
        if self._ended:
            return []
        self._ended = True
        found = self._flush_markup()
        if seal := self._details.whole():
            found.append(ReasoningChunk(index=0, signature=seal))
        return [*found, *self._calls.end(), *self._tools.end()]

    def _stop_reason(self) -> StopReason:
        if self._refusal:
            return StopReason.REFUSED
        # Some servers report "stop" although they called tools, or the reverse.
        if self._reason in {None, StopReason.DONE, StopReason.TOOL_CALLS}:
            return StopReason.TOOL_CALLS if self._calls.count else StopReason.DONE
        return self._reason or StopReason.DONE

    def _failure(self, text: str, problem: Any) -> ProviderError:
        fields = problem if isinstance(problem, dict) else {}
        codes = (fields.get(key) for key in ("status_code", "code", "status"))
        status = next((code for code in codes if isinstance(code, int)), None)
        return error_for(status, text, {}, self._provider)


def _first(choices: list[ChatChoice] | None) -> ChatChoice:
    """Return the first choice."""
    for each in choices or ():
        if not each.index:
            return each
    return _NONE


def _problem(payload: ChatPayload, choice: ChatChoice) -> Any:
    """Return the error in `payload`, wherever the host puts it."""
    if payload.error is not None or choice.error is not None:
        return payload.error or choice.error
    if payload.x_groq is not None and payload.x_groq.error is not None:
        return payload.x_groq.error
    return payload.object if payload.object == "error" else None


def _read_object(content: dict[str, Any]) -> str | list[ContentPart]:
    """Return a content part, or the JSON of a structured answer that was not encoded as text."""
    if "type" in content or content.keys() == {"text"}:
        return [msgspec.convert(content, ContentPart)]
    return _json.encode(content).decode()


def _pieces(content: list[ContentPart]) -> list[Chunk]:
    found: list[Chunk] = []
    for piece in content:
        thought = piece.thinking
        if isinstance(thought, list):
            thought = "".join(inner.text or "" for inner in thought)
        if thought:
            found.append(ReasoningChunk(index=0, text=thought))
        if piece.text:
            found.append(TextChunk(piece.text))
    return found


def _picture(picture: GeneratedImage) -> PartChunk:
    address = str((picture.image_url or {}).get("url") or "")
    head, base64, data = address.partition(";base64,")
    try:
        found = Image(media_type=head.removeprefix("data:"), data=b64decode(data))
    except ValueError:
        found = Image(url=address)
    return PartChunk(found if base64 else Image(url=address))
