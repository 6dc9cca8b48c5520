"""OpenAI Chat Completions, in the dialects of all the hosts that were recorded."""

import json
from typing import Any

from clew.context.reasoning import Echoes, ReasoningPolicy, ReasoningReader
from clew.core.messages import Message
from clew.providers.protocol import Chunk, Request
from clew.providers.sse import EventParser, ServerEvent
from clew.providers.wire.base_decoder import Decoder, EventDecoder
from clew.providers.wire.chat.decode import DONE, ChatResponse
from clew.providers.wire.chat.dialect import Dialect, DocumentField, ReasoningField
from clew.providers.wire.chat.encode import encode, message_cache
from clew.testing.request_parsers.chat import parse_request

APIS = frozenset({"openai.chat"})
PROVENANCE = "openai_chat"

_READER = ReasoningReader(PROVENANCE, Echoes.TOOL_USE_ONLY)


class AnyDecoder(EventDecoder):
    """Reads a stream that was written down as one event a line, too."""

    def whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of a document, or of a stream in lines."""
        lines = body.decode().splitlines()
        if len(lines) < 2 or not all(line.startswith("{") for line in lines):
            return super().whole(body)
        events = [ServerEvent(line) for line in [*lines, DONE]]
        return [chunk for event in events for chunk in self.feed(event)]


def decoder() -> Decoder:
    """Return what reads one answer."""
    return AnyDecoder(PROVENANCE, ChatResponse(PROVENANCE))


def framing() -> EventParser:
    """Return what finds the events of one answer."""
    return EventParser()


def claims(record: dict[str, Any]) -> bool:
    """Say whether an answer whose API was not recorded has this format."""
    text = record["response_text"] or ""
    return '"choices"' in text and '"text_completion"' not in text


def encode_again(body: dict[str, Any], *, streaming: bool) -> dict[str, Any]:
    """Read a request and write it again, in the dialect that its host was spoken to."""
    request = parse_request(json.dumps(body).encode(), provenance=PROVENANCE)
    return _written(request, _dialect(body), streaming=streaming)


def send_back(message: Message) -> dict[str, Any]:
    """Return the request that sends an answer back."""
    policy = ReasoningPolicy(tools_used=True)
    request = Request(model="m", messages=(message,), reasoning=policy)
    return _written(request, Dialect(reasoning=ReasoningField.PARTS), streaming=True)


def normal(body: dict[str, Any]) -> dict[str, Any]:
    """Return `body` in the one spelling that Clew uses where the API has several."""
    found = {key: value for key, value in body.items() if value is not None}
    # A stream is what is asked for only where the field says so.
    if not found.get("stream"):
        found.pop("stream", None)
    # There is one kind of tool that needs no name: a function.
    if "tools" in found:
        found["tools"] = [{"type": "function", **tool} for tool in found["tools"]]
    found["messages"] = [_normal_message(message) for message in body["messages"]]
    return found


def _normal_message(message: dict[str, Any]) -> dict[str, Any]:
    # To leave a field out and to set it to null is the same.
    found = {key: value for key, value in message.items() if value is not None}
    content = found.get("content")
    if isinstance(content, list):
        content = [{k: v for k, v in piece.items() if v is not None} for piece in content]
        # A list of one plain text is that text.
        if len(content) == 1 and content[0].keys() == {"type", "text"}:
            content = content[0]["text"]
        found["content"] = content
    # An answer that only calls tools has no words, be they missing, null, "" or an empty list.
    if found["role"] == "assistant" and not content:
        found.pop("content", None)
    # And one that calls none may say so with an empty list.
    if not found.get("tool_calls"):
        found.pop("tool_calls", None)
    return found


def _written(request: Request, dialect: Dialect, *, streaming: bool) -> dict[str, Any]:
    kept = message_cache(_READER, dialect)
    body = encode(request, kept, dialect=dialect, streaming=streaming)
    found: dict[str, Any] = json.loads(body)
    return found


def _dialect(body: dict[str, Any]) -> Dialect:
    """Return how this host is spoken to, as the body shows."""
    first = body["messages"][0]["role"] if body["messages"] else ""
    pieces = [
        piece["type"]
        for message in body["messages"]
        if isinstance(message.get("content"), list)
        for piece in message["content"]
    ]
    return Dialect(
        limit_field="max_tokens" if "max_tokens" in body else "max_completion_tokens",
        system_role="developer" if first == "developer" else "system",
        stream_usage="stream_options" in body,
        reasoning=ReasoningField.PARTS if "thinking" in pieces else ReasoningField.NOWHERE,
        result_images=True,
        documents=DocumentField.ADDRESS if "document_url" in pieces else DocumentField.FILE,
    )
