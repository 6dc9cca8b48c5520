"""What the recordings of generateContent need: see `tests.recordings`."""

import json
from itertools import groupby
from typing import Any

from clew.context.reasoning import Echoes, ReasoningReader
from clew.core.messages import Message
from clew.providers.protocol import Request
from clew.providers.sse import EventParser
from clew.providers.wire.base_decoder import Decoder as AnyDecoder
from clew.providers.wire.base_decoder import StreamFraming
from clew.providers.wire.gemini.decode import gemini_decoder
from clew.providers.wire.gemini.encode import encode, encode_count, message_cache
from clew.testing.request_parsers.gemini import camel_case, parse_request

APIS = frozenset({"google.generateContent", "google.count_tokens"})
PROVENANCE = "gemini"
READER = ReasoningReader(PROVENANCE, Echoes.OWN_ISSUED)


def decoder() -> AnyDecoder:
    """Return a decoder for one recorded answer."""
    return gemini_decoder(PROVENANCE)


def framing() -> StreamFraming:
    """Return what finds the events of a recorded stream."""
    return EventParser()


def claims(record: dict[str, Any]) -> bool:
    """Say whether an answer without a request is one of this API.

    Files that hold several answers are not claimed: `answers` takes them apart.
    """
    text = record["response_text"] or ""
    return text.startswith('{"candidates"') and record["source"] != "gemini-cli"


def answers(record: dict[str, Any]) -> list[bytes]:
    """Return the answers in a recording of Gemini CLI, each as one document."""
    lines = (record["response_text"] or "").splitlines()
    found = [json.loads(line) for line in lines if line.startswith('{"method"')]
    return [
        json.dumps(each["response"]).encode()
        for each in found
        if each["method"].startswith("generateContent")
    ]


def encode_again(body: dict[str, Any], *, streaming: bool) -> dict[str, Any]:
    """Read a request and write it again; a body is the same whether it streams or not."""
    del streaming
    request = parse_request(json.dumps(body).encode(), provenance=PROVENANCE)
    kept = message_cache(READER)
    if "generateContentRequest" in body:
        return _object(encode_count(request, kept, model=request.model))
    return _object(encode(request, kept))


def send_back(message: Message) -> dict[str, Any]:
    """Return the request that sends an answer back."""
    return _object(encode(Request(model="m", messages=(message,)), message_cache(READER)))


def normal(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with everything that may be written in two ways written in one."""
    if "generateContentRequest" in body:
        return {"generateContentRequest": normal(body["generateContentRequest"])}
    # The API reads `file_uri` as `fileUri`.
    found: dict[str, Any] = camel_case(body)
    if "contents" in found:
        found["contents"] = _contents(found["contents"])
    if "tools" in found:
        found["tools"] = _tools(found["tools"])
    if "systemInstruction" in found:
        # The API does not look at the role of a system instruction.
        found["systemInstruction"].pop("role", None)
    return found


def _contents(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join what follows on one side: the API reads it as one turn."""
    found = []
    for role, run in groupby(contents, lambda content: content.get("role", "user")):
        parts = [_part(part) for content in run for part in content["parts"] if _is_sent(part)]
        if parts:
            found.append({"role": role, "parts": parts})
    return found


def _is_sent(part: dict[str, Any]) -> bool:
    # A thought without a signature is for people: the API does not want it back.
    return not part.get("thought") or "thoughtSignature" in part


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if "inlineData" not in part:
        return part
    # Base64 has two alphabets, and the API reads both.
    data = part["inlineData"]["data"].replace("-", "+").replace("_", "/")
    return {**part, "inlineData": {**part["inlineData"], "data": data}}


def _tools(tools: list[dict[str, Any]] | dict[str, Any]) -> list[dict[str, Any]]:
    """Put the functions into one entry behind the others: the order says nothing."""
    entries = [tools] if isinstance(tools, dict) else tools
    functions = [each for entry in entries for each in entry.pop("functionDeclarations", [])]
    own = [entry for entry in entries if entry]
    return [*own, {"functionDeclarations": functions}] if functions else own


def _object(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(body)
    return found
