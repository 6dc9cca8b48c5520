"""A fake of generateContent."""

from typing import Any

import msgspec
from msgspec import Raw

from clew.core.messages import ToolCall
from clew.core.usage import Usage
from clew.providers.protocol import StopReason
from clew.testing.fake_apis.protocol import ModelReply

_json = msgspec.json.Encoder()
_REASONS = {StopReason.LENGTH: "MAX_TOKENS", StopReason.REFUSED: "SAFETY"}
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class FakeGeminiApi:
    """Encodes replies as Gemini 3 does: the first call or the end of the text is signed."""

    content_type = "text/event-stream"

    def stream(self, reply: ModelReply) -> list[bytes]:
        """Return the reply as server-sent events, one per delta."""
        parts = [_encode_thought(piece) for piece in reply.thoughts]
        parts += [{"text": piece} for piece in reply.words]
        parts += _calls(reply)
        if reply.signature and not reply.calls:
            parts.append({"text": "", "thoughtSignature": reply.signature})
        *before, last = parts or [{"text": ""}]
        counts = {"promptTokenCount": reply.usage.input_tokens}
        events = [_answer([part], usageMetadata=counts) for part in before]
        return [*map(_event, events), _event(_encode_end(reply, [last]))]

    def whole(self, reply: ModelReply) -> bytes:
        """Return the reply as one document."""
        parts = [_encode_thought("".join(reply.thoughts))] if reply.thoughts else []
        if reply.words:
            parts.append({"text": "".join(reply.words)})
        parts += _calls(reply)
        if reply.signature and not reply.calls:
            parts = parts if reply.words else [*parts, {"text": ""}]
            parts[-1] = {**parts[-1], "thoughtSignature": reply.signature}
        return _json.encode(_encode_end(reply, parts))

    def error(self, status: int, message: str) -> bytes:
        """Return the body of an error response."""
        name = _STATUSES.get(status, "UNKNOWN")
        return _json.encode({"error": {"code": status, "message": message, "status": name}})


def _encode_thought(text: str) -> dict[str, Any]:
    return {"text": text, "thought": True}


def _calls(reply: ModelReply) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"functionCall": _call(call)} for call in reply.calls]
    if found and reply.signature:
        found[0]["thoughtSignature"] = reply.signature
    return found


def _call(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "args": Raw(call.arguments), "id": call.call_id}


def _encode_end(reply: ModelReply, parts: list[dict[str, Any]]) -> dict[str, Any]:
    reason = _REASONS.get(reply.reason, "STOP") if reply.reason else "STOP"
    return _answer(parts, {"finishReason": reason}, usageMetadata=_counts(reply.usage))


def _answer(
    parts: list[dict[str, Any]], ending: dict[str, str] | None = None, **fields: object
) -> dict[str, Any]:
    candidate = {"content": {"parts": parts, "role": "model"}, **(ending or {}), "index": 0}
    return {"candidates": [candidate], **fields, "modelVersion": "gemini-3-scripted"}


def _counts(usage: Usage) -> dict[str, int]:
    cached = usage.cache_read_tokens
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "totalTokenCount": usage.context_tokens,
        **({"cachedContentTokenCount": cached} if cached else {}),
    }


def _event(payload: dict[str, Any]) -> bytes:
    return b"data: " + _json.encode(payload) + b"\r\n\r\n"
