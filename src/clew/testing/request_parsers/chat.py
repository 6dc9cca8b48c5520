"""Parse a request body of Chat Completions.

A plain first system or developer message becomes the system prompt; any other one becomes a
`Native` part. Fields for delivery, such as `stream`, are not part of a `Request`.
"""

from base64 import b64decode, b64encode
from typing import Any

import msgspec

from clew.context.reasoning import ReasoningPolicy
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
from clew.providers.wire.chat.reasoning_details import readable_text

_json = msgspec.json.Encoder()
_SYSTEM = frozenset({"system", "developer"})
_LIMITS = ("max_tokens", "max_completion_tokens")
_THOUGHTS = ("reasoning_content", "reasoning")
_AUDIO_TYPES = {"mp3": "audio/mpeg", "m4a": "audio/x-m4a"}


def parse_request(body: bytes, *, provenance: str) -> Request:
    """Parse a request body.

    Args:
        body: The JSON that was sent.
        provenance: The family that the private fields in it are meant for.

    Raises:
        ValueError: It is not a request of this API, or it calls tools other than functions.
    """
    fields = msgspec.json.decode(body)
    if not isinstance(fields, dict) or not isinstance(fields.get("messages"), list):
        raise ValueError("no messages")  # noqa: TRY004 - the caller gave no wrong type
    found = [_without_nulls(message) for message in fields.pop("messages")]
    system = _system(found[0]) if found else ""
    reader = _Reader(provenance)
    messages = tuple(map(reader.message, found[1:] if system else found))
    functions, natives = _tools(fields)
    return Request(
        model=fields.pop("model", ""),
        messages=messages,
        system=system,
        tools=functions,
        native_tools=natives,
        max_output_tokens=_limit(fields),
        temperature=fields.pop("temperature", None),
        reasoning=ReasoningPolicy(tools_used=any(map(_goes_on, messages))),
        options=_options(fields),
    )


def _goes_on(message: Message) -> bool:
    """Return whether `message` shows that thinking is sent back in this conversation."""
    return any(isinstance(part, Reasoning | ToolCall) for part in message.parts)


def _system(message: dict[str, Any]) -> str:
    content = message.get("content")
    plain = message.keys() == {"role", "content"} and message["role"] in _SYSTEM
    return content if plain and isinstance(content, str) else ""


def _limit(fields: dict[str, Any]) -> int | None:
    name = next((name for name in _LIMITS if isinstance(fields.get(name), int)), None)
    return fields.pop(name) if name else None


def _options(fields: dict[str, Any]) -> dict[str, Any]:
    fields.pop("stream", None)
    if fields.get("stream_options") == {"include_usage": True}:
        del fields["stream_options"]
    return fields


def _tools(fields: dict[str, Any]) -> tuple[tuple[ToolSpec, ...], tuple[dict[str, Any], ...]]:
    functions: list[ToolSpec] = []
    natives: list[dict[str, Any]] = []
    for tool in fields.get("tools") or ():
        function = tool.get("function")
        if isinstance(function, dict) and isinstance(function.get("parameters"), dict):
            functions.append(_function(tool, dict(function)))
        else:
            natives.append(tool)
    if functions or natives:
        del fields["tools"]
    return tuple(functions), tuple(natives)


def _function(tool: dict[str, Any], function: dict[str, Any]) -> ToolSpec:
    beside = {key: value for key, value in tool.items() if key not in {"type", "function"}}
    return ToolSpec(
        name=function.pop("name", ""),
        description=function.pop("description", ""),
        schema=function.pop("parameters"),
        extra={**function, **beside},
    )


class _Reader:
    """Reads the messages of one request in order, so that a result finds its call."""

    def __init__(self, provenance: str) -> None:
        self._provenance = provenance
        self._names: dict[str, str] = {}

    def message(self, fields: dict[str, Any]) -> Message:
        """Return one message."""
        match fields.get("role"):
            case "user":
                return self._make_message(Role.USER, self._parse_user(dict(fields)))
            case "assistant":
                return self._make_message(Role.ASSISTANT, self._answer(dict(fields)))
            case "tool":
                return self._make_message(Role.TOOL, [self._result(dict(fields))])
            case role:
                note = _text(fields.get("content")) if role in _SYSTEM else ""
                return self._make_message(Role.USER, [self._native(fields, note)])

    def _make_message(self, role: Role, parts: list[Part]) -> Message:
        private = any(isinstance(part, Native) or part.extra for part in parts)
        return Message(
            role=role, parts=tuple(parts), provenance=self._provenance if private else ""
        )

    def _native(self, fields: dict[str, Any], note: str) -> Native:
        return Native(provenance=self._provenance, data=_json.encode(fields).decode(), note=note)

    def _parse_user(self, fields: dict[str, Any]) -> list[Part]:
        del fields["role"]
        parts = self._content(fields.pop("content", ""))
        return _with_above(parts, fields)

    def _answer(self, fields: dict[str, Any]) -> list[Part]:
        del fields["role"]
        parts: list[Part] = [part for part in [self._parse_reasoning(fields)] if part is not None]
        parts += self._content(fields.pop("content", "") or "")
        parts += [self._call(call) for call in fields.pop("tool_calls", ())]
        return _with_above(parts, fields)

    def _parse_reasoning(self, fields: dict[str, Any]) -> Reasoning | None:
        above = {key: fields.pop(key) for key in _THOUGHTS if key in fields}
        details = fields.pop("reasoning_details", None)
        if not above and details is None:
            return None
        return Reasoning(
            text=next((text for text in above.values() if text), "")
            or readable_text(details or []),
            provenance=self._provenance,
            signature="" if details is None else _json.encode(details).decode(),
            extra=_extra({"message": above} if above else {}),
        )

    def _call(self, fields: dict[str, Any]) -> ToolCall:
        function = fields.get("function")
        if not isinstance(function, dict):
            raise ValueError("the called tool is not a function")  # noqa: TRY004
        self._names[fields["id"]] = function["name"]
        return ToolCall(
            call_id=CallId(fields["id"]),
            name=function["name"],
            arguments=function["arguments"],
            extra=_extra({k: v for k, v in fields.items() if k not in {"id", "type", "function"}}),
        )

    def _result(self, fields: dict[str, Any]) -> ToolResult:
        content = fields.get("content", "")
        parts = self._content(content)
        images = tuple(part for part in parts if isinstance(part, Image))
        private = {key: value for key, value in fields.items() if key not in _RESULT}
        text = "".join(part.text for part in parts if isinstance(part, Text))
        # Anything but one text followed by images is sent unchanged.
        if isinstance(content, list) and parts != [*([Text(text)] if text else []), *images]:
            private["content"] = content
        call_id = fields["tool_call_id"]
        name = fields.get("name") or self._names.get(call_id, "")
        return ToolResult(
            call_id=CallId(call_id), name=name, text=text, images=images, extra=_extra(private)
        )

    def _content(self, content: str | list[dict[str, Any]]) -> list[Part]:
        if isinstance(content, str):
            return [Text(content)] if content else []
        return [self._piece(_without_nulls(piece)) for piece in content]

    def _piece(self, piece: dict[str, Any]) -> Part:
        kind = piece.get("type")
        private = {key: value for key, value in piece.items() if key not in {"type", kind}}
        match kind:
            case "text":
                return Text(piece["text"], _extra(private))
            case "thinking" if isinstance(piece["thinking"], list):
                text = "".join(inner.get("text", "") for inner in piece["thinking"])
                if len(piece["thinking"]) > 1:
                    private["thinking"] = piece["thinking"]
                return Reasoning(text=text, provenance=self._provenance, extra=_extra(private))
            case "image_url" if isinstance(piece["image_url"], dict):
                return _image(piece["image_url"], private)
            case "input_audio":
                return _sound(piece["input_audio"], private)
            case "file" if "file_data" in piece["file"]:
                return _document(piece["file"], private)
            case "video_url":
                media_type, data, url = _address(piece["video_url"]["url"], "video/mp4")
                return File(media_type=media_type, data=data, url=url, extra=_extra(private))
            case "document_url" if isinstance(piece["document_url"], str):
                name = private.pop("document_name", "")
                media_type, data, url = _address(piece["document_url"], "application/pdf")
                return File(
                    media_type=media_type, data=data, url=url, name=name, extra=_extra(private)
                )
            case _:
                return self._native(piece, "")


_RESULT = frozenset({"role", "tool_call_id", "content"})


def _image(fields: dict[str, Any], private: dict[str, Any]) -> Image:
    media_type, data, url = _address(fields["url"], "image/png")
    inside = {key: value for key, value in fields.items() if key != "url"}
    extra = {**private, "image_url": inside} if inside else private
    return Image(media_type=media_type, data=data, url=url, extra=_extra(extra))


def _sound(fields: dict[str, Any], private: dict[str, Any]) -> File:
    kind = fields["format"]
    media_type = _AUDIO_TYPES.get(kind, f"audio/{kind}")
    return File(media_type=media_type, data=b64decode(fields["data"]), extra=_extra(private))


def _document(fields: dict[str, Any], private: dict[str, Any]) -> File:
    media_type, data, url = _address(fields["file_data"], "application/pdf")
    name = fields.get("filename", "")
    return File(media_type=media_type, data=data, url=url, name=name, extra=_extra(private))


def _address(address: str, media_type: str) -> tuple[str, bytes, str]:
    """Return media type, bytes and URL; data that encoding would change stays a URL."""
    head, base64, text = address.partition(";base64,")
    if not base64 or not head.startswith("data:"):
        return media_type, b"", address
    data = b64decode(text)
    same = b64encode(data).decode() == text
    return head.removeprefix("data:"), data if same else b"", "" if same else address


def _with_above(parts: list[Part], fields: dict[str, Any]) -> list[Part]:
    """Return `parts` with the fields of the message in the first part that can keep them."""
    if not fields:
        return parts
    for place, part in enumerate(parts):
        if not isinstance(part, Native):
            known = msgspec.json.decode(part.extra or "{}", type=dict[str, Any])
            above = {**known.get("message", {}), **fields}
            made = msgspec.structs.replace(part, extra=_extra({**known, "message": above}))
            return [*parts[:place], made, *parts[place + 1 :]]
    return [Text("", _extra({"message": fields})), *parts]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(piece.get("text") or "" for piece in content or ())


def _extra(fields: dict[str, Any]) -> str:
    return _json.encode(fields).decode() if fields else ""


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
