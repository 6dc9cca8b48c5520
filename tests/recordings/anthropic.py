"""What the recordings of the Messages API need: see `tests.recordings`."""

import json
from base64 import b64decode
from typing import Any

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.messages import Message, Native, Role
from clew.providers.eventstream import EventStream
from clew.providers.protocol import Request
from clew.providers.sse import EventParser, ServerEvent
from clew.providers.wire.anthropic.decode import messages_decoder
from clew.providers.wire.anthropic.encode import encode, message_cache
from clew.providers.wire.anthropic.turns import OPENING
from clew.providers.wire.base_decoder import Decoder as AnyDecoder
from clew.providers.wire.base_decoder import StreamFraming
from clew.testing.request_parsers.anthropic import parse_request

APIS = frozenset({"anthropic.messages", "anthropic.vertex", "anthropic.count_tokens"})
PROVENANCE = "anthropic"
READER = ReasoningReader(PROVENANCE, Echoes.OWN_ISSUED)


class _Framing:
    """Server-sent events; or the frames of AWS, in which Bedrock wraps the same events."""

    def __init__(self) -> None:
        self._inner: StreamFraming | None = None

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        if self._inner is None and chunk:
            # A frame begins with its length in four bytes, and none is as long as that.
            self._inner = EventStream(PROVENANCE) if chunk[0] == 0 else EventParser()
        return [*map(_unwrapped, self._inner.feed(chunk))] if self._inner else []

    def close(self) -> list[ServerEvent]:
        return [*map(_unwrapped, self._inner.close())] if self._inner else []


def _unwrapped(event: ServerEvent) -> ServerEvent:
    if event.name != "chunk":
        return event
    return ServerEvent(b64decode(json.loads(event.data)["bytes"]).decode())


def decoder() -> AnyDecoder:
    """Return a decoder for one recorded answer."""
    return messages_decoder(PROVENANCE)


def framing() -> StreamFraming:
    """Return what finds the events of a recorded stream."""
    return _Framing()


def claims(record: dict[str, Any]) -> bool:
    """Say whether a record of another API, or of none, is one of this: Bedrock's InvokeModel."""
    text = record["response_text"] or ""
    if record["api"] == "bedrock.invoke":
        return "anthropic_version" in (record["request"] or {})
    if text.startswith(('{"type":"message_start"', "event: message_start")):
        return True
    return text.startswith("{") and '"type": "message"' in text and '"stop_reason"' in text


def encode_again(body: dict[str, Any], *, streaming: bool) -> dict[str, Any]:
    """Read a request and write it again."""
    request = parse_request(json.dumps(body).encode(), provenance=PROVENANCE)
    found: dict[str, Any] = json.loads(encode(request, message_cache(READER), streaming=streaming))
    return found


def send_back(message: Message) -> dict[str, Any]:
    """Return the request that sends an answer back, after the calls that it answers."""
    request = Request(model="m", messages=(_calls_before(message), message))
    found: dict[str, Any] = json.loads(encode(request, message_cache(READER)))
    return found


def _calls_before(message: Message) -> Message:
    """Make the message in which the provider called its own tools, where that was another one."""
    blocks = [json.loads(part.data) for part in message.parts if isinstance(part, Native)]
    here = {block.get("id") for block in blocks}
    asked = {block["tool_use_id"] for block in blocks if "tool_use_id" in block} - here
    calls = [{"type": "server_tool_use", "id": each, "name": "x", "input": {}} for each in asked]
    made = (Native(provenance=PROVENANCE, data=json.dumps(call)) for call in calls)
    return Message(role=Role.ASSISTANT, parts=tuple(made), provenance=PROVENANCE)


def normal(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with everything that may be written in two ways written in one."""
    found = dict(body)
    # An answer comes in one piece unless a stream is asked for.
    if not found.get("stream"):
        found.pop("stream", None)
    # The API reads a text as a list with one text block.
    if isinstance(found.get("system"), str):
        found["system"] = _blocks(found["system"])
    # The order of the tools says nothing.
    if "tools" in found:
        found["tools"] = sorted(found["tools"], key=lambda tool: "input_schema" not in tool)
    found["messages"] = _messages(found.get("messages", []))
    return found


def _messages(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in messages:
        role, content = message["role"], [_block(block) for block in _blocks(message["content"])]
        # The API joins messages of one role; those of the system stay apart.
        if found and found[-1]["role"] == role != "system":
            found[-1]["content"] += content
        else:
            found.append({"role": role, "content": content})
    # A conversation that begins with an answer gets an opening, for servers that insist on it.
    if found and found[0]["role"] == "assistant":
        found.insert(0, {"role": "user", "content": _blocks(OPENING)})
    return found


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    # Blank words say nothing, and a message that holds no others is rejected.
    return [block for block in content if block["type"] != "text" or block["text"].strip()]


def _block(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] != "tool_result":
        return block
    found = {**block, "content": _blocks(block.get("content", []))}
    # A result is no error unless it says so.
    if found.get("is_error") is False:
        del found["is_error"]
    return found
