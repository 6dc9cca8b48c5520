"""Decode the responses of generateContent, streamed or whole."""

from typing import Any, ClassVar

from msgspec import Raw, Struct

from clew.core.errors import ProviderBusy, ProviderError, SignatureRejected
from clew.core.json_text import JsonDecoder
from clew.core.usage import Usage
from clew.providers.http_errors import error_for
from clew.providers.protocol import Chunk, Finished, StopReason, UsageChunk
from clew.providers.sse import ServerEvent
from clew.providers.wire.base_decoder import EventDecoder
from clew.providers.wire.gemini.part_decoder import PartDecoder
from clew.providers.wire.gemini.server_tools import GroundingMetadata, UrlContextMetadata


class _Content(Struct):
    parts: list[Raw] | None = None


class _Candidate(Struct, rename="camel"):
    index: int | None = None
    content: _Content | None = None
    finish_reason: str | int | None = None
    finish_message: str | None = None
    grounding_metadata: GroundingMetadata | None = None
    url_context_metadata: UrlContextMetadata | None = None


class _Usage(Struct, rename="camel"):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class _Feedback(Struct, rename="camel"):
    block_reason: str | int | None = None
    block_reason_message: str | None = None


class _Payload(Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    error: Any = None


_payload = JsonDecoder(_Payload)
_payloads = JsonDecoder(list[Raw])

# Gateways for several APIs end every stream with it.
_FOREIGN_END = "[DONE]"
_REASONS = {"STOP": StopReason.DONE, "MAX_TOKENS": StopReason.LENGTH}
_BOTCHED = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
    }
)
# Vertex AI may send numbers instead of names; these are the names by number.
_NUMBERED = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MODEL_ARMOR",
)


def gemini_decoder(provider: str) -> EventDecoder:
    """Return the decoder of one response of `provider`."""
    return EventDecoder(provider, GeminiResponse(provider))


class GeminiResponse:
    """Interprets one response, streamed or whole.

    A stream of this API has no end marker: it ends with the connection.
    """

    name: ClassVar = "a Gemini response"
    advice: ClassVar = "Check that the base URL leads to the Gemini API."

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._parts = PartDecoder(provider)
        self._usage: Usage | None = None
        self._reason = ""
        self._message = ""
        self._blocked = False

    @property
    def complete(self) -> bool:
        """True when the finish reason has arrived."""
        return bool(self._reason)

    def finish(self) -> Finished:
        """Return the end of the response.

        Raises:
            ProviderBusy: The model wrote a tool call that the server could not parse.
            SignatureRejected: The server requires a missing signature.
        """
        detail = f"{self._reason}: {self._message}" if self._message else self._reason
        if self._reason in _BOTCHED:
            raise ProviderBusy(
                f"The model wrote a tool call that {self._provider} could not parse ({detail})."
                " Send the message again; a simpler tool schema may help.",
                provider=self._provider,
            )
        if self._reason == "MISSING_THOUGHT_SIGNATURE":
            raise SignatureRejected(
                f"{self._provider} requires the missing signature of a tool call ({detail})."
                " Clew leaves reasoning out from now on; send the message again.",
                provider=self._provider,
            )
        reason = StopReason.REFUSED if self._blocked else _REASONS.get(self._reason)
        if reason is StopReason.DONE and self._parts.calls:
            reason = StopReason.TOOL_CALLS
        if reason is None or reason is StopReason.REFUSED:
            return Finished(reason=StopReason.REFUSED, usage=self._usage, detail=detail)
        return Finished(reason=reason, usage=self._usage)

    def take(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event."""
        return [] if event.data == _FOREIGN_END else self._read(event.data.encode())

    def take_whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of a non-streamed response."""
        self.done = True
        return self._read(body)

    def _read(self, body: bytes) -> list[Chunk]:
        chunks: list[Chunk] = []
        for raw in _documents(body):
            chunks += self._chunks(_payload.decode(raw), raw)
        return chunks

    def _chunks(self, payload: _Payload, raw: Raw) -> list[Chunk]:
        if payload.error is not None:
            raise self._failure(payload.error, bytes(raw).decode(errors="replace"))
        feedback = payload.prompt_feedback
        if feedback is not None and feedback.block_reason:
            self._blocked = True
            self._reason = str(feedback.block_reason)
            self._message = feedback.block_reason_message or ""
        chunks: list[Chunk] = []
        for candidate in payload.candidates or ():
            if not candidate.index:
                chunks += self._candidate(candidate)
        usage = _usage(payload.usage_metadata)
        if usage is not None and usage != self._usage:
            self._usage = usage
            chunks += [] if self._reason else [UsageChunk(usage)]
        return chunks

    def _candidate(self, candidate: _Candidate) -> list[Chunk]:
        chunks: list[Chunk] = []
        for raw in (candidate.content and candidate.content.parts) or ():
            chunks += self._parts.take(raw)
        if candidate.url_context_metadata is not None:
            chunks += self._parts.tools.read_url_context(candidate.url_context_metadata)
        if candidate.grounding_metadata is not None:
            chunks += self._parts.tools.read_grounding(candidate.grounding_metadata)
        reason = _reason(candidate.finish_reason)
        if reason:
            self._reason = reason
            self._message = candidate.finish_message or ""
            chunks += self._parts.close()
        return chunks

    def _failure(self, error: Any, text: str) -> ProviderError:
        code = error.get("code") if isinstance(error, dict) else None
        return error_for(code if isinstance(code, int) else None, text, {}, self._provider)


def _documents(body: bytes) -> list[Raw]:
    """Return the responses in `body`: without `alt=sse`, a stream is one list of them."""
    if body.lstrip().startswith(b"["):
        return _payloads.decode(body)
    return [Raw(body)]


def _reason(found: str | int | None) -> str:
    if isinstance(found, int):
        found = _NUMBERED[found] if 0 <= found < len(_NUMBERED) else "OTHER"
    return "" if found in {None, "FINISH_REASON_UNSPECIFIED"} else str(found)


def _usage(found: _Usage | None) -> Usage | None:
    if found is None or found == _Usage():
        return None
    return Usage(
        # The input of Google's own tools is billed as prompt, but counted separately.
        input_tokens=(found.prompt_token_count or 0) + (found.tool_use_prompt_token_count or 0),
        output_tokens=(found.candidates_token_count or 0) + (found.thoughts_token_count or 0),
        cache_read_tokens=found.cached_content_token_count or 0,
    )
