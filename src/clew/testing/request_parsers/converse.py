"""Parse a request body of Converse.

The body does not contain the model, so it stays empty.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from clew.core.ids import CallId
from clew.core.messages import (
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
from clew.providers.wire.converse import media
from clew.providers.wire.converse.block_decoder import parse_citations
from clew.providers.wire.converse.block_encoder import SERVER_CALL

_json = msgspec.json.Encoder()
_keys = msgspec.json.Decoder(dict[str, Raw])
_fields = msgspec.json.Decoder(dict[str, Any])


class _Message(Struct):
    role: str
    content: list[Raw]


class _Body(Struct, rename="camel"):
    messages: list[_Message] = []
    system: list[dict[str, Any]] = []
    inference_config: dict[str, Any] = {}
    tool_config: dict[str, Any] = {}


_body = msgspec.json.Decoder(_Body)
_OWN = frozenset({"messages", "system", "inferenceConfig", "toolConfig"})


def parse_request(body: bytes, *, provenance: str) -> Request:
    """Parse the body of a request, or of a request to count tokens.

    Raises:
        ValueError: No `Request` encodes to this body.
    """
    try:
        return _request(_unwrap_count(body), provenance)
    except (msgspec.DecodeError, KeyError) as error:
        raise ValueError(f"it is not a Converse request: {error}") from error


def _unwrap_count(body: bytes) -> bytes:
    """Return the request inside a token count request, or `body` itself."""
    asked = _keys.decode(body).get("input")
    if asked is None:
        return body
    inner = _keys.decode(asked).get("converse")
    if inner is None:
        raise ValueError("it counts the tokens of another API's request")
    return bytes(inner)


def _request(body: bytes, provenance: str) -> Request:
    found = _body.decode(body)
    options = {name: value for name, value in _fields.decode(body).items() if name not in _OWN}
    inference = dict(found.inference_config)
    limit, temperature = inference.pop("maxTokens", None), inference.pop("temperature", None)
    if inference:
        options["inferenceConfig"] = inference
    texts = [block.get("text", "") for block in found.system]
    if found.system and (len(found.system) > 1 or found.system != [{"text": texts[0]}]):
        options["system"] = found.system
    tools, native_tools, choice = _tools(found.tool_config)
    if choice:
        options["toolConfig"] = choice
    return Request(
        model="",
        messages=tuple(_Reader(provenance).messages(found.messages)),
        system="\n".join(filter(None, texts)),
        tools=tools,
        native_tools=native_tools,
        max_output_tokens=limit,
        temperature=temperature,
        options=options,
    )


def _tools(
    config: dict[str, Any],
) -> tuple[tuple[ToolSpec, ...], tuple[dict[str, Any], ...], dict[str, Any]]:
    """Return Clew's tools, the provider's tools, and the other tool settings."""
    choice = dict(config)
    listed = choice.pop("tools", [])
    own = [tool["toolSpec"] for tool in listed if "toolSpec" in tool]
    native = [tool for tool in listed if "toolSpec" not in tool]
    if listed != [*({"toolSpec": spec} for spec in own), *native]:
        # Their order is part of the prompt, so the list is kept as it was.
        choice["tools"] = listed
    return tuple(map(_tool, own)), tuple(native), choice


def _tool(spec: dict[str, Any]) -> ToolSpec:
    rest = dict(spec)
    return ToolSpec(
        name=rest.pop("name"),
        description=rest.pop("description", ""),
        schema=rest.pop("inputSchema")["json"],
        extra=rest,
    )


class _Reader:
    """Reads the messages in order, so that a result finds the name of its tool."""

    def __init__(self, provenance: str) -> None:
        self._provenance = provenance
        self._names: dict[str, str] = {}

    def messages(self, found: Iterable[_Message]) -> Iterable[Message]:
        for message in found:
            role = Role.ASSISTANT if message.role == "assistant" else Role.USER
            parts = [self._part(block, role) for block in message.content]
            for is_result, run in groupby(parts, key=lambda part: isinstance(part, ToolResult)):
                held = tuple(run)
                private = any(isinstance(part, Native) or part.extra for part in held)
                yield Message(
                    role=Role.TOOL if is_result else role,
                    parts=held,
                    provenance=self._provenance if private else "",
                )

    def _part(self, block: Raw, role: Role) -> Part:
        found = _keys.decode(block)
        kind, inner = next(iter(found.items()), ("", Raw(b"null")))
        part = self._common(kind, inner, role) if len(found) == 1 else None
        return part or Native(provenance=self._provenance, data=_text(block))

    def _common(self, kind: str, inner: Raw, role: Role) -> Part | None:
        """Return a block as a part; None if it has no common form."""
        match kind:
            case "text":
                # Blank text is never sent unasked, so here it is real text.
                text = msgspec.json.decode(inner, type=str)
                return Text(text) if text.strip() else None
            case "citationsContent":
                text, extra = parse_citations(inner)
                return Text(text, extra) if text.strip() else None
            case "reasoningContent":
                return self._parse_reasoning(_fields.decode(inner))
            case "toolUse":
                return self._call(_keys.decode(inner))
            case "toolResult" if role is Role.USER:
                return self._result(_fields.decode(inner))
            case _ if kind in media.KINDS and role is Role.USER:
                return media.parse_media(kind, _fields.decode(inner))
        return None

    def _parse_reasoning(self, fields: dict[str, Any]) -> Reasoning | None:
        match fields:
            case {"redactedContent": str(redacted), **rest} if not rest:
                return Reasoning(provenance=self._provenance, redacted=redacted)
            case {
                "reasoningText": {"text": str(text), "signature": str(sealed), **more},
                **rest,
            } if sealed and not more and not rest:
                return Reasoning(provenance=self._provenance, text=text, signature=sealed)
        return None

    def _call(self, fields: dict[str, Raw]) -> ToolCall | None:
        call_id, name = (msgspec.json.decode(fields.pop(key)) for key in ("toolUseId", "name"))
        self._names[call_id] = name
        arguments = _text(fields.pop("input"))
        extra = _json.encode(fields).decode() if fields else ""
        if fields.get("type") == Raw(_json.encode(SERVER_CALL)) or arguments[:1] != "{":
            return None
        return ToolCall(call_id=CallId(call_id), name=name, arguments=arguments, extra=extra)

    def _result(self, fields: dict[str, Any]) -> ToolResult:
        call_id = fields.pop("toolUseId")
        content, status = fields.pop("content"), fields.pop("status", None)
        text = "\n".join(filter(None, map(_words, content)))
        images = [found for block in content if (found := _image(block)) is not None]
        plain = [("text", text)] if text.strip() else []
        said = [dict([pair]) for pair in (*plain, *filter(None, map(media.media_block, images)))]
        if not content or content != said:
            fields["content"] = content
        if status not in {None, "error"}:
            fields["status"] = status
        return ToolResult(
            call_id=CallId(call_id),
            name=self._names.get(call_id, ""),
            text=text,
            failed=status == "error",
            images=tuple(images),
            extra=_json.encode(fields).decode() if fields else "",
        )


def _words(block: dict[str, Any]) -> str:
    if "json" in block:
        return _json.encode(block["json"]).decode()
    return str(block.get("text", ""))


def _image(block: dict[str, Any]) -> Image | None:
    found = media.parse_media("image", block["image"]) if "image" in block else None
    return replace(found, extra="") if isinstance(found, Image) else None


def _text(raw: Raw) -> str:
    return bytes(raw).decode()
