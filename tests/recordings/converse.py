"""AWS Bedrock Converse."""

from typing import Any

import msgspec

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.messages import Message
from clew.providers.eventstream import EventStream
from clew.providers.protocol import Request
from clew.providers.sse import EventParser, ServerEvent
from clew.providers.wire.base_decoder import Decoder
from clew.providers.wire.converse.decode import converse_decoder
from clew.providers.wire.converse.encode import OPENING, encode, encode_count, message_cache
from clew.testing.request_parsers.converse import parse_request

APIS = frozenset({"bedrock.converse", "bedrock.count_tokens"})
PROVENANCE = "bedrock"

_OPENING = {"role": "user", "content": [{"text": OPENING}]}


class _Framing:
    """The frames of AWS; or events whose recorder wrote each as one line, its name inside."""

    def __init__(self) -> None:
        self._frames: EventStream | None = None
        self._lines = EventParser()

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        if self._frames is None and chunk[:1] == b"\0":
            self._frames = EventStream(PROVENANCE)
        if self._frames is not None:
            return self._frames.feed(chunk)
        return [each for event in self._lines.feed(chunk) for each in _named(event)]

    def close(self) -> list[ServerEvent]:
        return self._frames.close() if self._frames is not None else []


def _named(event: ServerEvent) -> list[ServerEvent]:
    found: dict[str, Any] = msgspec.json.decode(event.data)
    return [ServerEvent(msgspec.json.encode(data).decode(), name) for name, data in found.items()]


def decoder() -> Decoder:
    return converse_decoder(PROVENANCE)


def framing() -> _Framing:
    return _Framing()


def claims(record: dict[str, Any]) -> bool:
    """Say whether an answer without its request is one of Converse."""
    text = record["response_text"] or ""
    if not text.lstrip().startswith("{"):
        return False
    if text.startswith(('{"contentBlock', '{"messageStart"')):
        return True
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return isinstance(found, dict) and {"output", "stopReason"} <= found.keys()


def encode_again(body: dict[str, Any], *, streaming: bool) -> dict[str, Any]:
    """Read a request and write it again."""
    request = parse_request(msgspec.json.encode(body), provenance=PROVENANCE)
    kept = message_cache(ReasoningReader(PROVENANCE, Echoes.OWN_ISSUED))
    again = encode_count(request, kept) if "input" in body else encode(request, kept)
    found: dict[str, Any] = msgspec.json.decode(again)
    return found


def send_back(message: Message) -> dict[str, Any]:
    """Return the request that sends an answer back."""
    kept = message_cache(ReasoningReader(PROVENANCE, Echoes.OWN_ISSUED))
    found = encode(Request(model="claude", messages=(message,)), kept)
    return msgspec.json.decode(found, type=dict[str, Any])


def normal(body: dict[str, Any]) -> dict[str, Any]:
    """Return `body` without what says nothing."""
    if "converse" in body.get("input", {}):
        return {"input": {"converse": normal(body["input"]["converse"])}}
    # An empty list of instructions, or settings in which nothing is set, are as good as none.
    kept = {
        name: value
        for name, value in body.items()
        if value or name not in {"system", "inferenceConfig"}
    }
    # Most models refuse a conversation that begins with an answer, so it gets an opening word.
    if kept.get("messages", [])[:1] == [_OPENING]:
        kept["messages"] = kept["messages"][1:]
    return kept
