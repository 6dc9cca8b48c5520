"""Convert messages to those of Chat Completions.

A part's `extra` holds its private fields: they are merged into the content part, and those under
`message` into the message around it. A `Native` part is a whole message if it has a role, otherwise
a content part.
"""

from base64 import b64encode
from typing import Any

import msgspec

from clew.core.json_text import JsonDecoder
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
    join_texts,
)
from clew.providers.wire.chat.dialect import Dialect, DocumentField, ReasoningField
from clew.providers.wire.media import data_url
from clew.providers.wire.sanitize import sanitize_arguments, sanitize_name

_object = JsonDecoder(dict[str, Any])
_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "x-m4a": "m4a", "mp4": "m4a"}
_MARK = {"type": "ephemeral"}
_MESSAGE = "message"


def wire_messages(message: Message, dialect: Dialect) -> list[dict[str, Any] | msgspec.Raw]:
    """Return the messages of the API for `message`, in order."""
    found: list[dict[str, Any] | msgspec.Raw] = []
    rest: list[Part] = []
    whole: list[msgspec.Raw] = []
    for part in message.parts:
        if type(part) is ToolResult:
            found.append(_result(part, dialect))
        elif type(part) is Native and "role" in _object.decode(part.data):
            whole.append(msgspec.Raw(part.data.encode()))
        else:
            rest.append(part)
    found += whole
    if not rest:
        return found
    said = _answer(rest, dialect) if message.role is Role.ASSISTANT else _encode_user(rest, dialect)
    return [*found, said] if said else found


def add_cache_control(message: Message, dialect: Dialect) -> list[dict[str, Any] | msgspec.Raw]:
    """Return `message` with a cache breakpoint at its end; empty if it cannot have one."""
    found = wire_messages(message, dialect)
    last = found[-1] if found else None
    if not isinstance(last, dict) or not last.get("content"):
        return []
    return [*found[:-1], {**last, "content": _with_mark(last["content"])}]


def system_message(text: str, dialect: Dialect, *, mark: bool) -> dict[str, Any]:
    """Return the message with the system prompt."""
    return {"role": dialect.system_role, "content": _with_mark(text) if mark else text}


def file_part(file: File, documents: DocumentField) -> dict[str, Any]:
    """Return the content part for `file`, according to its media type."""
    kind, _, subtype = file.media_type.partition("/")
    if kind == "audio" and file.data:
        sound = {
            "data": b64encode(file.data).decode(),
            "format": _AUDIO_FORMATS.get(subtype, subtype),
        }
        return {"type": "input_audio", "input_audio": sound}
    if kind in {"audio", "video"}:
        return {"type": f"{kind}_url", f"{kind}_url": {"url": data_url(file)}}
    if documents is DocumentField.ADDRESS:
        named = {"document_name": file.name} if file.name else {}
        return {"type": "document_url", "document_url": data_url(file), **named}
    named = {"filename": file.name} if file.name else {}
    return {"type": "file", "file": {**named, "file_data": data_url(file)}}


def _encode_user(parts: list[Part], dialect: Dialect) -> dict[str, Any] | None:
    pieces = [piece for part in parts if (piece := _piece(part, dialect)) is not None]
    above = _above(parts)
    if not pieces and not above and not any(isinstance(part, Text) for part in parts):
        return None
    return {"role": "user", "content": _content(pieces, dialect), **above}


def _answer(parts: list[Part], dialect: Dialect) -> dict[str, Any] | None:
    calls = [_call(part, dialect) for part in parts if type(part) is ToolCall]
    thoughts = [part for part in parts if type(part) is Reasoning]
    content = _words(parts, dialect) if len(calls) < len(parts) else ""
    above = _above(parts)
    if thoughts:
        above = {**_encode_thinking(thoughts, dialect), **above}
    if not content and not calls and not above:
        return None
    found: dict[str, Any] = {"role": "assistant", "content": content or (None if calls else "")}
    if dialect.always_reasoning and dialect.reasoning:
        found[dialect.reasoning] = ""
    found |= above
    return {**found, "tool_calls": calls} if calls else found


def _words(parts: list[Part], dialect: Dialect) -> str | list[Any]:
    """Return the content of an assistant message: one text, if all parts are plain text."""
    pieces: list[Any] = []
    for part in parts:
        if isinstance(part, Reasoning) and dialect.reasoning is ReasoningField.PARTS:
            pieces.append(_encode_reasoning(part))
        elif (piece := _piece(_replace_media(part), dialect)) is not None:
            pieces.append(piece)
    if all(map(_is_bare, pieces)):
        return join_texts([_replace_media(part) for part in parts])
    return pieces


def _replace_media(part: Part) -> Part:
    """Return a note in place of what the API does not accept from the assistant."""
    return Text(_note(part)) if isinstance(part, Image | File) else part


def _encode_thinking(thoughts: list[Reasoning], dialect: Dialect) -> dict[str, Any]:
    """Return the fields of a message that contain its reasoning."""
    found: dict[str, Any] = {}
    text = "".join(part.text for part in thoughts)
    if text and dialect.reasoning in {ReasoningField.CONTENT, ReasoningField.REASONING}:
        found[dialect.reasoning] = text
    for part in thoughts:
        # The only signature in this API: the list of blocks, to be sent back unchanged.
        if part.signature.startswith("["):
            found["reasoning_details"] = msgspec.Raw(part.signature.encode())
    return found


def _encode_reasoning(part: Reasoning) -> dict[str, Any]:
    piece = {"type": "thinking", "thinking": [{"type": "text", "text": part.text}]}
    return _merge_extra(piece, part.extra)


def _call(part: ToolCall, dialect: Dialect) -> dict[str, Any]:
    name, arguments = sanitize_name(part.name, dialect.names), sanitize_arguments(part.arguments)
    function = {"name": name, "arguments": arguments}
    call = {
        "id": sanitize_name(part.call_id, dialect.ids),
        "type": "function",
        "function": function,
    }
    return _merge_extra(call, part.extra)


def _content(pieces: list[Any], dialect: Dialect) -> str | list[Any]:
    if all(map(_is_bare, pieces)) and (len(pieces) < 2 or not dialect.text_lists):
        return "\n\n".join(piece["text"] for piece in pieces)
    return pieces


def _is_bare(piece: Any) -> bool:
    return isinstance(piece, dict) and piece.keys() == {"type", "text"}


def _piece(part: Part, dialect: Dialect) -> dict[str, Any] | msgspec.Raw | None:
    match part:
        case Text(text=text, extra=extra):
            fields = _merge_extra({"type": "text", "text": text}, extra)
            return fields if text or len(fields) > 2 else None
        case Image(data=b"", url="", extra="") | File(data=b"", url="", extra=""):
            # The API rejects an empty one.
            return None
        case Image(extra=extra):
            picture = {"type": "image_url", "image_url": {"url": data_url(part)}}
            return _merge_extra(picture, extra)
        case File(extra=extra):
            return _merge_extra(file_part(part, dialect.documents), extra)
        case Native(data=data):
            return msgspec.Raw(data.encode())
        case Reasoning() | ToolCall() | ToolResult():
            return None


def _result(result: ToolResult, dialect: Dialect) -> dict[str, Any]:
    text = result.text
    if result.failed and not text.startswith("Error: "):
        text = f"Error: {text}"
    content: str | list[Any] = text
    if result.images and dialect.result_images:
        words = [{"type": "text", "text": text}] if text else []
        pictures = (_piece(image, dialect) for image in result.images)
        content = [*words, *filter(None, pictures)]
    else:
        content = text + "".join(f"\n{_note(image)}" for image in result.images)
    call_id = sanitize_name(result.call_id, dialect.ids)
    found = {"role": "tool", "tool_call_id": call_id, "content": content}
    return _merge_extra(found, result.extra)


def _note(part: Image | File) -> str:
    kind = "picture" if isinstance(part, Image) else "file"
    return f"[A {kind} ({part.media_type}) that cannot be shown here.]"


def _with_mark(content: str | list[Any]) -> list[Any]:
    pieces = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(pieces[-1], dict):
        return pieces
    return [*pieces[:-1], {**pieces[-1], "cache_control": _MARK}]


def _merge_extra(block: dict[str, Any], extra: str) -> dict[str, Any]:
    """Return `block` merged with the private fields of its part, objects recursively."""
    if not extra:
        return block
    found = dict(block)
    for key, value in _object.decode(extra).items():
        mine = found.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            found[key] = {**mine, **value}
        elif key != _MESSAGE:
            found[key] = value
    return found


def _above(parts: list[Part]) -> dict[str, Any]:
    """Return the private fields that belong to the message itself."""
    found: dict[str, Any] = {}
    for part in parts:
        if part.extra:
            found |= _object.decode(part.extra).get(_MESSAGE, {})
    return found
