"""A fake of AWS Bedrock Converse: binary frames, with usage at the end."""

from binascii import crc32
from collections.abc import Iterator, Mapping
from struct import pack
from typing import Any

import msgspec
from msgspec import Raw

from clew.core.messages import ToolCall
from clew.core.usage import Usage
from clew.providers.protocol import StopReason
from clew.testing.fake_apis.protocol import ModelReply

_REASONS = {
    StopReason.LENGTH: "max_tokens",
    StopReason.REFUSED: "guardrail_intervened",
    StopReason.TOOL_CALLS: "tool_use",
}
_STRING = 7

_json = msgspec.json.Encoder()


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one frame of an AWS event stream."""
    head = b"".join(
        pack("!B", len(name)) + name.encode() + pack("!BH", _STRING, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = pack("!II", 16 + len(head) + len(payload), len(head))
    checked = prelude + pack("!I", crc32(prelude)) + head + payload
    return checked + pack("!I", crc32(checked))


def event(name: str, **fields: object) -> bytes:
    """Return the frame of one event, padded like those of Bedrock, which hides lengths."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, _json.encode({**fields, "p": "abcdefgh"}))


def exception(name: str, message: str, **fields: object) -> bytes:
    """Return the frame that ends a stream with an error, such as `throttlingException`."""
    headers = {
        ":exception-type": name,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return frame(headers, _json.encode({"message": message, **fields}))


class FakeConverseApi:
    """Encodes replies as Converse does."""

    content_type = "application/vnd.amazon.eventstream"

    def stream(self, reply: ModelReply) -> list[bytes]:
        """Return the reply as a stream, one element per frame, including its end."""
        return [
            event("messageStart", role="assistant"),
            *self._blocks(reply),
            event("messageStop", stopReason=_reason(reply)),
            event("metadata", usage=_usage(reply.usage), metrics={"latencyMs": 120}),
        ]

    def whole(self, reply: ModelReply) -> bytes:
        """Return the reply as the body of a non-streamed response."""
        content: list[dict[str, Any]] = []
        if reply.thoughts or reply.signature:
            thought = {"text": "".join(reply.thoughts), "signature": reply.signature}
            said = {name: value for name, value in thought.items() if value or name == "text"}
            content.append({"reasoningContent": {"reasoningText": said}})
        if reply.words:
            content.append({"text": "".join(reply.words)})
        content += ({"toolUse": _encode_call(call)} for call in reply.calls)
        body = {
            "metrics": {"latencyMs": 120},
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": _reason(reply),
            "usage": _usage(reply.usage),
        }
        return _json.encode(body)

    def error(self, status: int, message: str) -> bytes:  # noqa: ARG002
        """Return the body of an error response; Bedrock puts the type into a header."""
        return _json.encode({"message": message})

    def _blocks(self, reply: ModelReply) -> Iterator[bytes]:
        index = 0
        for pieces in filter(None, (_encode_thoughts(reply), _encode_words(reply))):
            for piece in pieces:
                yield event("contentBlockDelta", contentBlockIndex=index, delta=piece)
            yield event("contentBlockStop", contentBlockIndex=index)
            index += 1
        for place, call in enumerate(reply.calls, index):
            start = {"toolUse": {"toolUseId": call.call_id, "name": call.name}}
            yield event("contentBlockStart", contentBlockIndex=place, start=start)
            half = len(call.arguments) // 2
            for text in (call.arguments[:half], call.arguments[half:]):
                given = {"toolUse": {"input": text}}
                yield event("contentBlockDelta", contentBlockIndex=place, delta=given)
            yield event("contentBlockStop", contentBlockIndex=place)


def _encode_thoughts(reply: ModelReply) -> list[dict[str, Any]]:
    pieces = [{"text": piece} for piece in reply.thoughts]
    if reply.signature:
        pieces.append({"signature": reply.signature})
    return [{"reasoningContent": piece} for piece in pieces]


def _encode_words(reply: ModelReply) -> list[dict[str, Any]]:
    return [{"text": word} for word in reply.words]


def _encode_call(call: ToolCall) -> dict[str, object]:
    given = Raw((call.arguments or "{}").encode())
    return {"input": given, "name": call.name, "toolUseId": call.call_id}


def _reason(reply: ModelReply) -> str:
    usual = StopReason.TOOL_CALLS if reply.calls else StopReason.DONE
    return _REASONS.get(reply.reason or usual, "end_turn")


def _usage(usage: Usage) -> dict[str, Any]:
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "inputTokens": usage.input_tokens - cached,
        "outputTokens": usage.output_tokens,
        "cacheReadInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
        "cacheDetails": [{"inputTokens": usage.hourly_write_tokens, "ttl": "1h"}],
        "totalTokens": usage.input_tokens + usage.output_tokens,
    }
