"""The Responses API, as the checks over recordings use it."""

from typing import Any

import msgspec

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.messages import Message
from clew.providers.protocol import Request
from clew.providers.sse import EventParser
from clew.providers.wire.base_decoder import Decoder
from clew.providers.wire.responses.decode import responses_decoder
from clew.providers.wire.responses.encode import encode, message_cache
from clew.testing.request_parsers.responses import parse_request

APIS = frozenset({"openai.responses", "openai.responses.compact"})
PROVENANCE = "openai"


def decoder() -> Decoder:
    """Return a decoder for one answer."""
    return responses_decoder(PROVENANCE)


def framing() -> EventParser:
    """Return what finds the events of one answer."""
    return EventParser()


def claims(record: dict[str, Any]) -> bool:
    """Say whether an answer without a request is one of this API."""
    text = record["response_text"][:4_000].replace(" ", "")
    return '"type":"response.' in text or '"object":"response' in text


def encode_again(body: dict[str, Any], *, streaming: bool) -> dict[str, Any]:
    """Read a recorded request and write it again."""
    request = parse_request(msgspec.json.encode(body), provenance=PROVENANCE)
    kept = message_cache(ReasoningReader(PROVENANCE, Echoes.OWN_ISSUED))
    again = encode(request, kept, streaming=streaming, defaults={}, tool_search=True)
    return msgspec.json.decode(again, type=dict[str, Any])


def send_back(message: Message) -> dict[str, Any]:
    """Return the request that sends an answer back."""
    kept = message_cache(ReasoningReader(PROVENANCE, Echoes.OWN_ISSUED))
    body = encode(Request(model="m", messages=(message,)), kept, tool_search=True)
    return msgspec.json.decode(body, type=dict[str, Any])


def normal(body: dict[str, Any]) -> dict[str, Any]:
    """Return `body` without the differences that mean nothing."""
    found = {
        name: value
        for name, value in body.items()
        # A stream that is not wanted need not be declined; no instructions say nothing.
        if not (name == "stream" and value is False) and not (name == "instructions" and not value)
    }
    if isinstance(found["input"], str):
        # The API reads bare words as what a user says.
        found["input"] = [{"role": "user", "content": found["input"]}]
    found["input"] = [_item(each) for each in found["input"] if _is_sent(each)]
    if found.get("tools"):
        # The order of tools has no meaning: functions come first here.
        tools = [_tool(tool) for tool in found["tools"]]
        found["tools"] = sorted(tools, key=lambda tool: tool["type"] not in {"function", "custom"})
    return found


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    # A description that is null or empty describes nothing.
    return {name: value for name, value in _without_nulls(tool).items() if value != ""}


def _is_sent(item: dict[str, Any]) -> bool:
    if item.get("type") == "reasoning":
        # Thinking that is not sealed means something only to a server that stores it.
        return bool(item.get("encrypted_content"))
    # An answer without a word says nothing.
    return not (item.get("role") == "assistant" and not item["content"])


def _item(item: dict[str, Any]) -> dict[str, Any]:
    # A field that is null is as good as none.
    if "role" not in item and item.get("type") != "reasoning":
        return _without_nulls(item)
    # An item with a role is a message; thinking without content has none.
    found = {"type": "message", **_without_nulls(item)}
    if found["type"] == "reasoning" and not found.get("content", True):
        del found["content"]
    if isinstance(found.get("content"), str):
        # Bare words are one piece of text.
        kind = "output_text" if found["role"] == "assistant" else "input_text"
        found["content"] = [{"type": kind, "text": found["content"]}]
    if found.get("role") == "assistant":
        found["content"] = [_piece(each) for each in found["content"]]
    return found


def _piece(piece: dict[str, Any]) -> dict[str, Any]:
    # A text without annotations has none, and one without probabilities likewise.
    found = {"annotations": [], **piece}
    return {name: value for name, value in found.items() if name != "logprobs" or value}


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
