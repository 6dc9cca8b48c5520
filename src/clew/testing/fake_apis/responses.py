"""A fake of the Responses API."""

from typing import Any

import msgspec

from clew.core.usage import Usage
from clew.providers.protocol import StopReason
from clew.testing.fake_apis.protocol import ModelReply

_INCOMPLETE = {
    StopReason.LENGTH: "max_output_tokens",
    StopReason.REFUSED: "content_filter",
}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}

_json = msgspec.json.Encoder()


class FakeResponsesApi:
    """Encodes replies as OpenAI does: an item is announced, streamed, and repeated whole."""

    content_type = "text/event-stream"

    def stream(self, reply: ModelReply) -> list[bytes]:
        """Return the reply as server-sent events."""
        begun = {**_response(reply), "status": "in_progress", "output": [], "usage": None}
        events = [_event("response.created", response=begun)]
        events.append(_event("response.in_progress", response=begun))
        for index, item in enumerate(_items(reply)):
            place = {"output_index": index, "item_id": item["id"]}
            events.append(
                _event("response.output_item.added", output_index=index, item=_clear_item(item))
            )
            events += _encode_deltas(item, reply, place)
            events.append(_event("response.output_item.done", output_index=index, item=item))
        ended = _response(reply)
        return [*events, _event(f"response.{ended['status']}", response=ended)]

    def whole(self, reply: ModelReply) -> bytes:
        """Return the reply as one document."""
        return _json.encode(_response(reply))

    def error(self, status: int, message: str) -> bytes:
        """Return the body of an error response."""
        kind = "invalid_request_error" if status < 500 else "server_error"
        return _json.encode(
            {"error": {"message": message, "type": kind, "param": None, "code": _CODES.get(status)}}
        )


def _response(reply: ModelReply) -> dict[str, Any]:
    why = _INCOMPLETE.get(reply.reason) if reply.reason else None
    return {
        "id": "resp_scripted",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "incomplete" if why else "completed",
        "error": None,
        "incomplete_details": {"reason": why} if why else None,
        "model": "gpt-scripted",
        "output": _items(reply),
        "store": False,
        "usage": _usage(reply.usage),
    }


def _items(reply: ModelReply) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if reply.thoughts or reply.signature:
        text = "".join(reply.thoughts)
        thought = {"summary": [{"type": "summary_text", "text": text}] if text else []}
        sealed = {"encrypted_content": reply.signature} if reply.signature else {}
        found.append({"id": "rs_scripted", "type": "reasoning", **sealed, **thought})
    if reply.words:
        found.append(
            {
                "id": "msg_scripted",
                "type": "message",
                "status": "completed",
                "content": [_text("".join(reply.words))],
                "role": "assistant",
            }
        )
    found += (
        {
            "id": f"fc_scripted_{place}",
            "type": "function_call",
            "status": "completed",
            "arguments": call.arguments,
            "call_id": call.call_id,
            "name": call.name,
        }
        for place, call in enumerate(reply.calls)
    )
    return found


def _clear_item(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item as the API announces it, without content."""
    empty = {"summary": [], "content": [], "arguments": "", "status": "in_progress"}
    return {name: empty.get(name, value) for name, value in item.items()}


def _encode_deltas(item: dict[str, Any], reply: ModelReply, place: dict[str, Any]) -> list[bytes]:
    """Return the events with the deltas of an item."""
    match item:
        case {"type": "reasoning", "summary": [part]}:
            here = {**place, "summary_index": 0}
            name = "response.reasoning_summary"
            return [
                _event(f"{name}_part.added", **here, part={**part, "text": ""}),
                *(_event(f"{name}_text.delta", **here, delta=piece) for piece in reply.thoughts),
                _event(f"{name}_text.done", **here, text=part["text"]),
                _event(f"{name}_part.done", **here, part=part),
            ]
        case {"type": "message", "content": [part]}:
            here = {**place, "content_index": 0}
            return [
                _event("response.content_part.added", **here, part=_text("")),
                *(
                    _event("response.output_text.delta", **here, delta=piece, logprobs=[])
                    for piece in reply.words
                ),
                _event("response.output_text.done", **here, text=part["text"], logprobs=[]),
                _event("response.content_part.done", **here, part=part),
            ]
        case {"type": "function_call", "arguments": str(arguments)}:
            half = len(arguments) // 2
            name = "response.function_call_arguments"
            return [
                _event(f"{name}.delta", **place, delta=arguments[:half]),
                _event(f"{name}.delta", **place, delta=arguments[half:]),
                _event(f"{name}.done", **place, arguments=arguments),
            ]
    return []


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cache_write_tokens": usage.cache_write_tokens,
            "cached_tokens": usage.cache_read_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.context_tokens,
    }


def _event(name: str, **fields: object) -> bytes:
    payload = _json.encode({"type": name, **fields})
    return b"event: %b\ndata: %b\n\n" % (name.encode(), payload)
