"""A fake of Chat Completions."""

from dataclasses import dataclass
from typing import Any

import msgspec

from clew.core.usage import Usage
from clew.providers.protocol import StopReason
from clew.testing.fake_apis.protocol import ModelReply

_json = msgspec.json.Encoder()
_REASONS = {
    StopReason.DONE: "stop",
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.LENGTH: "length",
    StopReason.REFUSED: "content_filter",
    StopReason.PAUSED: "stop",
}
_DETAIL = {"type": "reasoning.text", "text": "", "format": "anthropic-claude-v1", "index": 0}
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class FakeChatApi:
    """Encodes replies as OpenAI does, with reasoning as one of the compatible hosts sends it."""

    thinking: str = "reasoning_content"
    """The field for reasoning: this or `reasoning`; `reasoning_details`, the only one with a
    signature, as OpenRouter sends it; or `thinking`, for content parts as Mistral sends them."""
    content_type: str = "text/event-stream"

    def stream(self, reply: ModelReply) -> list[bytes]:
        """Return the reply as server-sent events."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += self._thoughts(reply)
        deltas += ({"content": words} for words in reply.words)
        for index, call in enumerate(reply.calls):
            first = {"index": index, "id": call.call_id, "type": "function"}
            deltas.append(_calls({**first, "function": {"name": call.name, "arguments": ""}}))
            half = len(call.arguments) // 2
            for piece in (call.arguments[:half], call.arguments[half:]):
                deltas.append(_calls({"index": index, "function": {"arguments": piece}}))
        return [
            *(_event([_choice(delta=delta)]) for delta in deltas),
            _event([_choice(delta={}, finish_reason=_reason(reply))]),
            _event([], usage=_counts(reply.usage)),
            DONE,
        ]

    def whole(self, reply: ModelReply) -> bytes:
        """Return the reply as one document."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(reply.words) or None}
        thought = "".join(reply.thoughts)
        if self.thinking == "thinking" and thought:
            said = [{"type": "text", "text": text} for text in reply.words]
            message["content"] = [_piece(thought), *said]
        elif self.thinking == "reasoning_details" and (thought or reply.signature):
            sealed = {"signature": reply.signature} if reply.signature else {}
            message |= {
                "reasoning": thought or None,
                "reasoning_details": [{**_DETAIL, "text": thought, **sealed}],
            }
        elif thought:
            message[self.thinking] = thought
        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in reply.calls
            ]
        choice = _choice(message=message, finish_reason=_reason(reply))
        return _json.encode(_answer([choice], usage=_counts(reply.usage), kind="chat.completion"))

    def error(self, status: int, message: str) -> bytes:
        """Return the body of an error response."""
        kind = "invalid_request_error" if status < 500 else "server_error"
        error = {"message": message, "type": kind, "param": None, "code": None}
        return _json.encode({"error": error})

    def _thoughts(self, reply: ModelReply) -> list[dict[str, Any]]:
        if self.thinking == "thinking":
            return [{"content": [_piece(text)]} for text in reply.thoughts]
        if self.thinking != "reasoning_details":
            return [{self.thinking: text} for text in reply.thoughts]
        found: list[dict[str, Any]] = [
            {"reasoning": text, "reasoning_details": [{**_DETAIL, "text": text}]}
            for text in reply.thoughts
        ]
        if reply.signature:
            found.append({"reasoning_details": [{**_DETAIL, "signature": reply.signature}]})
        return found


def _piece(thought: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}


def _calls(call: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [call]}


def _choice(*, finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"index": 0, **fields, "logprobs": None, "finish_reason": finish_reason}


def _event(choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
    return b"data: " + _json.encode(_answer(choices, usage, kind="chat.completion.chunk")) + b"\n\n"


def _answer(
    choices: list[dict[str, Any]], usage: dict[str, Any] | None, *, kind: str
) -> dict[str, Any]:
    return {
        "id": "chatcmpl-scripted",
        "object": kind,
        "created": 1_760_000_000,
        "model": "scripted",
        "choices": choices,
        "usage": usage,
    }


def _reason(reply: ModelReply) -> str:
    usual = StopReason.TOOL_CALLS if reply.calls else StopReason.DONE
    return _REASONS[reply.reason or usual]


def _counts(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
    }
