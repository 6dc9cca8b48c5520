"""A request as the body of OpenAI Chat Completions.

The messages stand last in the body, so a request that appends to another begins with the
same bytes; the provider's prompt cache lives off that.
"""

from base64 import b64encode
from typing import Any

import msgspec

from clew.context.reasoning import Reader
from clew.core.messages import Image, Message, Role, Text, ToolResult
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.fragments import LIMIT, Fragments

_json = msgspec.json.Encoder()


def fragments(reader: Reader, *, limit: int = LIMIT) -> Fragments[bytes]:
    """Return a place to keep the encoded messages for `reader`."""
    return Fragments(reader, _fragment, limit=limit)


def encode(
    request: Request,
    kept: Fragments[bytes],
    *,
    limit_field: str = "max_tokens",
    streaming: bool = True,
) -> bytes:
    """Return the body that asks for `request`.

    Args:
        request: What to ask.
        kept: Messages that were encoded before.
        limit_field: How the server spells the limit on the answer's length.
        streaming: Ask for a stream of events.
    """
    head: dict[str, Any] = {"model": request.model}
    if streaming:
        head |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.max_output_tokens is not None:
        head[limit_field] = request.max_output_tokens
    if request.temperature is not None:
        head["temperature"] = request.temperature
    if request.tools or request.native_tools:
        head["tools"] = [*map(_tool, request.tools), *request.native_tools]
    head |= request.options
    messages = [found for found in kept.encode(request.messages, request.reasoning) if found]
    if request.system:
        messages.insert(0, _json.encode({"role": "system", "content": request.system}))
    return b"".join(
        (_json.encode(head)[:-1], b',"messages":[', b",".join(messages), b"]}"),
    )


def _fragment(message: Message) -> tuple[bytes, int]:
    found = encode_message(message)
    return found, len(found)


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
