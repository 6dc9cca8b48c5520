"""A fake of the Messages API."""

from typing import Any

import msgspec
from msgspec import Raw

from clew.core.usage import Usage
from clew.providers.protocol import StopReason
from clew.testing.fake_apis.protocol import ModelReply

_json = msgspec.json.Encoder()
_REASONS = {
    StopReason.DONE: "end_turn",
    StopReason.TOOL_CALLS: "tool_use",
    StopReason.LENGTH: "max_tokens",
    StopReason.REFUSED: "refusal",
    StopReason.PAUSED: "pause_turn",
}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class FakeMessagesApi:
    """Encodes replies as Claude's API does: a block starts, grows by deltas, and ends."""

    content_type = "text/event-stream"

    def stream(self, reply: ModelReply) -> list[bytes]:
        """Return the reply as server-sent events."""
        begun = {**_message(reply), "content": [], "stop_reason": None}
        begun["usage"] = {**_counts(reply.usage), "output_tokens": 1}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
        events.append({"type": "ping"})
        for index, (first, deltas) in enumerate(_split_blocks(reply)):
            events.append({"type": "content_block_start", "index": index, "content_block": first})
            events += (
                {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
            )
            events.append({"type": "content_block_stop", "index": index})
        ending = {"stop_reason": _reason(reply), "stop_sequence": None}
        events.append({"type": "message_delta", "delta": ending, "usage": _counts(reply.usage)})
        return [*map(_event, events), _event({"type": "message_stop"})]

    def whole(self, reply: ModelReply) -> bytes:
        """Return the reply as one document."""
        content: list[dict[str, Any]] = []
        if reply.thoughts or reply.signature:
            thought = {"thinking": "".join(reply.thoughts), "signature": reply.signature}
            content.append({"type": "thinking", **thought})
        if reply.words:
            content.append({"type": "text", "text": "".join(reply.words)})
        for call in reply.calls:
            made = {"id": call.call_id, "name": call.name, "input": Raw(call.arguments.encode())}
            content.append({"type": "tool_use", **made})
        return _json.encode({**_message(reply), "content": content})

    def error(self, status: int, message: str) -> bytes:
        """Return the body of an error response."""
        error = {"type": _ERRORS.get(status, "api_error"), "message": message}
        return _json.encode({"type": "error", "error": error, "request_id": "req_scripted"})


def _message(reply: ModelReply) -> dict[str, Any]:
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": "claude-scripted",
        "stop_reason": _reason(reply),
        "stop_sequence": None,
        "usage": _counts(reply.usage),
    }


def _split_blocks(reply: ModelReply) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return each block as it starts, and its deltas."""
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if reply.thoughts or reply.signature:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in reply.thoughts]
        deltas.append({"type": "signature_delta", "signature": reply.signature})
        found.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if reply.words:
        deltas = [{"type": "text_delta", "text": piece} for piece in reply.words]
        found.append(({"type": "text", "text": ""}, deltas))
    for call in reply.calls:
        first = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}}
        half = len(call.arguments) // 2
        pieces = ("", call.arguments[:half], call.arguments[half:])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        found.append((first, deltas))
    return found


def _reason(reply: ModelReply) -> str:
    usual = StopReason.TOOL_CALLS if reply.calls else StopReason.DONE
    return _REASONS[reply.reason or usual]


def _counts(usage: Usage) -> dict[str, Any]:
    """Return the counts as the API reports them: the input excludes cached tokens."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens - cached,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write_tokens - usage.hourly_write_tokens,
            "ephemeral_1h_input_tokens": usage.hourly_write_tokens,
        },
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }


def _event(payload: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (payload["type"].encode(), _json.encode(payload))
