"""Encode a request as the body of generateContent.

The contents come last in the body, so a request that appends to another starts with the same bytes.
The URL selects the model and streaming.
"""

import re
from base64 import b64encode
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from clew.context.reasoning import ReasoningReader
from clew.core.ids import CallId
from clew.core.messages import (
    File,
    Image,
    Message,
    Native,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.message_cache import LIMIT, MessageCache, merge_extra
from clew.providers.wire.sanitize import NameRule, sanitize_arguments, sanitize_name

UNSIGNED = "skip_thought_signature_validator"
"""Google's placeholder for the signature of a call that its model did not make."""

NAMES = NameRule(characters="a-zA-Z0-9_.:-", first="a-zA-Z_", longest=64)
"""What the API accepts as a function name."""

_json = msgspec.json.Encoder()
_GENERATION = re.compile(r"gemini-(?:(\d+)|[a-z-]+-latest$)")
_OWN_ID = re.compile(r"call_[0-9a-f]{16}")
_SILENCE = Text("")
_OPEN = {True: b'{"role":"model","parts":[', False: b'{"role":"user","parts":['}


class EncodedParts(Struct, frozen=True):
    """The parts of one message, for both generations of models."""

    is_model: bool
    old: bytes
    new: bytes
    """For Gemini 3 and later."""


def message_cache(reader: ReasoningReader, *, limit: int = LIMIT) -> MessageCache[EncodedParts]:
    """Return a cache for encoded messages."""
    return MessageCache(reader, _fragment, limit=limit)


def encode(request: Request, kept: MessageCache[EncodedParts]) -> bytes:
    """Return the body for `request`.

    `options["generationConfig"]` is merged into the generated one, all other options into the body.
    """
    head = _head(request)
    return b"".join(
        (
            _json.encode(head)[:-1],
            b',"contents":[' if head else b'"contents":[',
            *_contents(kept.encode(request), request.model),
            b"]}",
        )
    )


def encode_count(request: Request, kept: MessageCache[EncodedParts], *, model: str) -> bytes:
    """Return the body that counts the tokens of `request` on the Gemini API.

    Args:
        request: The request.
        kept: The cache of encoded messages.
        model: The model's resource name, such as `models/gemini-2.5-pro`.
    """
    named = replace(request, options={**request.options, "model": model})
    return b'{"generateContentRequest":' + encode(named, kept) + b"}"


def is_gemini_3_or_later(model: str) -> bool:
    """Return whether a model is Gemini 3 or later.

    Those reject calls without a signature and accept images inside function responses. A name such
    as `gemini-flash-latest` is one of them.
    """
    found = _GENERATION.search(model)
    return found is not None and int(found[1] or 3) >= 3


def is_generated_id(call_id: CallId) -> bool:
    """Return whether Clew generated this id; the API sent none, so none is sent back."""
    return _OWN_ID.fullmatch(call_id) is not None


def encode_part(part: Part, *, new: bool = False) -> list[dict[str, Any] | Raw]:
    """Return the API's parts for `part`.

    There are none for unsigned reasoning, empty text and empty files.
    """
    match part:
        case Text(text=text, extra=extra):
            return [merge_extra({"text": text}, extra)] if text or extra else []
        case Image() | File():
            return [merge_extra(_media(part), part.extra)] if part.data or part.url else []
        case Reasoning():
            return [merge_extra(_encode_reasoning(part), part.extra)] if part.signature else []
        case ToolCall():
            return [merge_extra({"functionCall": _call(part)}, part.extra)]
        case ToolResult():
            return _result(part, new=new)
        case Native(data=data):
            return [Raw(data)]


def _head(request: Request) -> dict[str, Any]:
    head: dict[str, Any] = {}
    if request.system:
        head["systemInstruction"] = {"parts": [{"text": request.system}]}
    tools: list[dict[str, Any]] = [*request.native_tools]
    if request.tools:
        tools.append({"functionDeclarations": [*map(_declaration, request.tools)]})
    if tools:
        head["tools"] = tools
    settings: dict[str, Any] = {}
    if request.max_output_tokens is not None:
        settings["maxOutputTokens"] = request.max_output_tokens
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if settings or "generationConfig" in request.options:
        settings |= request.options.get("generationConfig", {})
        return {**head, **request.options, "generationConfig": settings}
    return {**head, **request.options}


def _declaration(spec: ToolSpec) -> dict[str, Any]:
    found: dict[str, Any] = {"name": spec.name, "description": spec.description}
    # `parameters` accepts only a subset of JSON Schema; `extra` can still set it.
    if spec.schema and "parameters" not in spec.extra:
        found["parametersJsonSchema"] = spec.schema
    return {**found, **spec.extra}


def _contents(turns: list[EncodedParts], model: str) -> list[bytes]:
    """Return the contents in pieces; consecutive messages of one role form one content.

    The API requires all results of a step in the content after the calls.
    """
    new = is_gemini_3_or_later(model)
    pieces: list[bytes] = []
    last: bool | None = None
    for turn in turns:
        parts = turn.new if new else turn.old
        if not parts:
            continue
        if turn.is_model is last:
            pieces.append(b",")
        else:
            pieces += (b"" if last is None else b"]},", _OPEN[turn.is_model])
            last = turn.is_model
        pieces.append(parts)
    return pieces if last is None else [*pieces, b"]}"]


def _fragment(message: Message) -> tuple[EncodedParts, int]:
    old = new = _encode_parts(message, new=False)
    size = len(old)
    sealed = _add_signature(message)
    if sealed is not message or any(result.images for result in message.results):
        new = _encode_parts(sealed, new=True)
        size += len(new)
    return EncodedParts(message.role is Role.ASSISTANT, old, new), size


def _encode_parts(message: Message, *, new: bool) -> bytes:
    found = [piece for part in message.parts for piece in encode_part(part, new=new)]
    if not found and message.role is Role.USER:
        # A request with only a system prompt still needs a user message.
        found = [{"text": ""} for part in message.parts if part == _SILENCE]
    return b",".join(map(_json.encode, found))


def _add_signature(message: Message) -> Message:
    """Return `message` with a placeholder if its first call lacks a signature.

    The API requires it only in the current turn, but bytes that were sent once must not change.
    """
    for place, part in enumerate(message.parts):
        if isinstance(part, ToolCall):
            if '"thoughtSignature"' in part.extra:
                return message
            extra = _json.encode(merge_extra({"thoughtSignature": UNSIGNED}, part.extra)).decode()
            parts = list(message.parts)
            parts[place] = replace(part, extra=extra)
            return replace(message, parts=tuple(parts))
    return message


def _media(part: Image | File) -> dict[str, Any]:
    kind = {"mimeType": part.media_type} if part.media_type else {}
    if part.url.startswith("data:") and ";base64," in part.url:
        about, _, data = part.url.removeprefix("data:").partition(";base64,")
        return {"inlineData": {"mimeType": about, "data": data}}
    if part.url:
        return {"fileData": {**kind, "fileUri": part.url}}
    return {"inlineData": {**kind, "data": b64encode(part.data).decode()}}


def _encode_reasoning(part: Reasoning) -> dict[str, Any]:
    text = {"text": part.text} if part.text else {}
    return {**text, "thought": True, "thoughtSignature": part.signature}


def _call(part: ToolCall) -> dict[str, Any]:
    return {**_encode_name(part), "args": Raw(sanitize_arguments(part.arguments))}


def _result(part: ToolResult, *, new: bool) -> list[dict[str, Any] | Raw]:
    response = {"error" if part.failed else "output": part.text}
    found: dict[str, Any] = {**_encode_name(part), "response": response}
    inside = [image for image in part.images if new and image.data]
    if inside:
        found["parts"] = [*map(_media, inside)]
    beside = [piece for image in part.images if image not in inside for piece in encode_part(image)]
    return [merge_extra({"functionResponse": found}, part.extra), *beside]


def _encode_name(part: ToolCall | ToolResult) -> dict[str, Any]:
    known = {} if is_generated_id(part.call_id) or not part.call_id else {"id": part.call_id}
    return {**known, "name": sanitize_name(part.name or "tool", NAMES)}
