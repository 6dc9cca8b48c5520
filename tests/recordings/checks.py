"""What every wire format must be able to do with a recording."""

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import msgspec

from clew.core.errors import ProviderError, StreamBroken
from clew.core.messages import Message
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Chunk, Finished
from tests.recordings.records import Record, answer_bytes, is_whole, tokens

_CUTS = 25
_FAILURES = (b'"error":', b"MALFORMED_FUNCTION_CALL")
"""How a recorded answer says that it failed; then an error is the right thing to find."""


def parse(wire: ModuleType, pieces: Sequence[bytes], *, whole: bool) -> tuple[Message, Finished]:
    """Return the message that an answer is, and how it ended."""
    decoder, framing = wire.decoder(), wire.framing()
    chunks: list[Chunk] = []
    if whole:
        chunks += decoder.whole(b"".join(pieces))
    else:
        for piece in pieces:
            for event in framing.feed(piece):
                chunks += decoder.feed(event)
        for event in framing.close():
            chunks += decoder.feed(event)
    assembly = MessageBuilder(provenance=wire.PROVENANCE)
    for chunk in [*chunks, finished := decoder.close()]:
        assembly.add(chunk)
    return assembly.message(), finished


def check_answer(wire: ModuleType, record: Record) -> str:
    """Parse an answer, whole and cut at random; return what is wrong, or nothing."""
    body, whole = answer_bytes(record), is_whole(record)
    try:
        message, finished = parse(wire, [body], whole=whole)
    except ProviderError as error:
        failed = any(mark in body for mark in _FAILURES) and not isinstance(error, StreamBroken)
        return "" if failed else f"{type(error).__name__}: {str(error)[:150]}"
    if not message.parts and not finished.usage and not finished.detail:
        return "nothing was found in the answer"
    if not whole:
        again = parse(wire, cut(body, random.Random(len(body))), whole=False)
        if shape(again) != shape((message, finished)):
            return "cut at other places, it reads differently"
    sent = json.dumps(wire.send_back(message), ensure_ascii=False)
    lost = [token for token in answer_tokens(wire, record) if token not in sent]
    return f"{len(lost)} opaque tokens are not sent back" if lost else ""


def check_request(wire: ModuleType, body: dict[str, Any]) -> str:
    """Read a request and write it again; return what is wrong, or nothing."""
    again = wire.encode_again(body, streaming=bool(body.get("stream")))
    wanted, found = wire.normal(body), wire.normal(again)
    return "" if wanted == found else f"differs at {difference(wanted, found)}"


def check_tokens(wire: ModuleType, body: dict[str, Any]) -> str:
    """See that every token of a request is written again where it stood."""
    again = wire.normal(wire.encode_again(body, streaming=bool(body.get("stream"))))
    wanted, found = dict(tokens(wire.normal(body))), dict(tokens(again))
    lost = [place for place, token in wanted.items() if found.get(place) != token]
    if not wanted:
        return "no token was found"
    return f"{len(lost)} of {len(wanted)} tokens are lost or elsewhere" if lost else ""


def cut(body: bytes, chance: random.Random) -> list[bytes]:
    """Cut `body` at random places."""
    places = sorted({0, len(body), *(chance.randrange(len(body) + 1) for _ in range(_CUTS))})
    return [body[start:end] for start, end in pairwise(places)]


def shape(answer: tuple[Message, Finished]) -> list[object]:
    """Return what must be equal: all but the ids that Clew makes up itself."""
    message, finished = answer
    return [
        *((c.name, c.arguments, c.extra) for c in message.calls),
        *(part for part in message.parts if part not in message.calls),
        finished,
    ]


def answer_tokens(wire: ModuleType, record: Record) -> list[str]:
    """Return the opaque tokens of an answer, as they stand when it is complete."""
    body = answer_bytes(record)
    if is_whole(record):
        try:
            return [token for _, token in tokens(msgspec.json.decode(body))]
        except msgspec.DecodeError:
            return []
    framing = wire.framing()
    texts = [event.data for event in framing.feed(body)]
    events = [msgspec.json.decode(text) for text in texts if text.startswith("{")]
    if any(str(event.get("type", "")).startswith("response.") for event in events):
        # What an item holds while it grows is not what it holds in the end.
        events = [event for event in events if event["type"] == "response.output_item.done"]
    return [token for event in events for _, token in tokens(event)]


def difference(wanted: Any, found: Any, path: str = "") -> str:
    """Name the first place at which two JSON values differ."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in sorted({*wanted, *found}):
            if wanted.get(name) != found.get(name):
                return difference(wanted.get(name), found.get(name), f"{path}.{name}")
    if isinstance(wanted, list) and isinstance(found, list):
        for index, (one, other) in enumerate(zip(wanted, found, strict=False)):
            if one != other:
                return difference(one, other, f"{path}[{index}]")
    return f"{path or 'the top'}: {json.dumps(wanted)[:80]} became {json.dumps(found)[:80]}"
