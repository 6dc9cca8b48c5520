"""Parse a request body of generateContent.

`encode` gives the same body as JSON, except for these:

- names are in camel case (`fileUri`), although the API also accepts `file_uri`;
- consecutive contents of one role are merged;
- all functions are in one entry of `tools`, after Google's own tools;
- the system instruction has no role, and images are in standard base64;
- unsigned thoughts are left out, as the session decides.

The body does not contain the model, so it stays empty.
"""

import re
from collections import defaultdict, deque
from typing import Any

import msgspec

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
from clew.providers.wire.gemini.encode import encode_part
from clew.providers.wire.gemini.part_decoder import decode_media

_json = msgspec.json.Encoder()
_body = msgspec.json.Decoder(dict[str, Any])
_ROLES = {"user": Role.USER, "model": Role.ASSISTANT}
_SNAKE = re.compile(r"_([a-z])")
# Under these names stands what belongs to the user, not to the API.
_OPAQUE = frozenset(
    {
        "args",
        "labels",
        "parameters",
        "parametersJsonSchema",
        "response",
        "responseJsonSchema",
        "responseSchema",
    }
)


def parse_request(body: bytes, *, provenance: str) -> Request:
    """Parse a request body.

    Raises:
        ValueError: It is not a request of this API, or Clew cannot represent it.
    """
    found = camel_case(_body.decode(body))
    found = found.get("generateContentRequest", found)
    if "contents" not in found:
        raise ValueError("a body without contents")
    contents = found.pop("contents")
    read = _Contents(provenance)
    settings = found.get("generationConfig")
    functions, native = _tools(found.get("tools", []))
    if functions or native:
        del found["tools"]
    return Request(
        model=found.pop("model", ""),
        messages=tuple(map(read.message, contents)),
        system=_system(found),
        tools=functions,
        native_tools=native,
        max_output_tokens=settings.pop("maxOutputTokens", None) if settings else None,
        temperature=settings.pop("temperature", None) if settings else None,
        options=found,
    )


def camel_case(value: Any) -> Any:
    """Return a body with all names in camel case."""
    if isinstance(value, list):
        return [camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    named = {_SNAKE.sub(lambda at: at[1].upper(), name): each for name, each in value.items()}
    return {name: each if name in _OPAQUE else camel_case(each) for name, each in named.items()}


class _Contents:
    """Reads contents in order, and gives calls without an id an id as Clew generates them."""

    def __init__(self, provenance: str) -> None:
        self._provenance = provenance
        self._count = 0
        self._waiting: defaultdict[str, deque[CallId]] = defaultdict(deque)

    def message(self, content: dict[str, Any]) -> Message:
        """Return one content as a message."""
        role = _ROLES.get(content.get("role", "user"))
        if role is None:
            raise ValueError(f"the role {content['role']}")
        parts = tuple(map(self._part, content.get("parts", [])))
        if role is Role.USER and parts and all(isinstance(part, ToolResult) for part in parts):
            role = Role.TOOL
        private = any(isinstance(part, Native) or part.extra for part in parts)
        return Message(role=role, parts=parts, provenance=self._provenance if private else "")

    def _part(self, found: dict[str, Any]) -> Part:
        if "functionCall" in found:
            return _keep_extra(self._call(found["functionCall"]), found, "functionCall")
        if "functionResponse" in found:
            return _keep_extra(self._result(found["functionResponse"]), found, "functionResponse")
        part = self._common(found)
        is_bare = isinstance(part, Reasoning) and not part.signature
        if part is not None and (is_bare or _reencode(part) == _normalize_data(found)):
            return part
        return Native(provenance=self._provenance, data=_json.encode(found).decode())

    def _common(self, found: dict[str, Any]) -> Part | None:
        """Return the part in its common form, if it has one."""
        if "inlineData" in found:
            return _blob(found["inlineData"], _rest(found, "inlineData"))
        if "fileData" in found:
            address, extra = found["fileData"], _rest(found, "fileData")
            kind, url = address.get("mimeType", ""), address.get("fileUri", "")
            if kind.startswith("image/"):
                return Image(media_type=kind, url=url, extra=extra)
            return File(media_type=kind, url=url, extra=extra)
        if found.get("thought"):
            return Reasoning(
                text=found.get("text", ""),
                provenance=self._provenance,
                signature=found.get("thoughtSignature", ""),
                extra=_rest(found, "text", "thought", "thoughtSignature"),
            )
        return Text(found["text"], _rest(found, "text")) if "text" in found else None

    def _call(self, call: dict[str, Any]) -> ToolCall:
        name = call.get("name", "")
        call_id = CallId(call["id"]) if call.get("id") else self._new_id()
        if not call.get("id"):
            self._waiting[name].append(call_id)
        arguments = _json.encode(call.get("args", {})).decode()
        return ToolCall(call_id=call_id, name=name, arguments=arguments)

    def _result(self, result: dict[str, Any]) -> ToolResult:
        name, response = result.get("name", ""), result.get("response", {})
        waiting = self._waiting[name]
        call_id = result.get("id") or (waiting.popleft() if waiting else self._new_id())
        only = next(iter(response.values())) if len(response) == 1 else None
        text = only if isinstance(only, str) else _json.encode(response).decode()
        return ToolResult(
            call_id=CallId(call_id), name=name, text=text, failed=response.keys() == {"error"}
        )

    def _new_id(self) -> CallId:
        self._count += 1
        return CallId(f"call_{self._count:016x}")


def _blob(blob: dict[str, Any], extra: str) -> Part | None:
    try:
        return decode_media(blob.get("mimeType", ""), blob.get("data", ""), extra)
    except ValueError:
        return None


def _keep_extra(part: ToolCall | ToolResult, found: dict[str, Any], name: str) -> Part:
    """Return `part` with the fields that have no common form in its `extra`."""
    same = _reencode(part)[name] == found[name]
    extra = _rest(found, name) if same else _json.encode(found).decode()
    return msgspec.structs.replace(part, extra=extra)


def _reencode(part: Part) -> dict[str, Any]:
    """Return the encoded `part`; empty if it is not sent."""
    found = encode_part(part)
    return _body.decode(_json.encode(found[0])) if found else {}


def _normalize_data(found: dict[str, Any]) -> dict[str, Any]:
    """Return a part with its data in the base64 alphabet of `encode`."""
    blob = found.get("inlineData")
    if blob is None:
        return found
    data = blob.get("data", "").replace("-", "+").replace("_", "/")
    return {**found, "inlineData": {**blob, "data": data}}


def _rest(found: dict[str, Any], *common: str) -> str:
    kept = {name: each for name, each in found.items() if name not in common}
    return _json.encode(kept).decode() if kept else ""


def _system(found: dict[str, Any]) -> str:
    """Take the system instruction out of `found`, unless it is more than one text."""
    match found.get("systemInstruction"):
        case {"parts": [{"text": str(text), **others}]} if text and not others:
            del found["systemInstruction"]
            return text
    return ""


def _tools(
    entries: list[dict[str, Any]] | dict[str, Any],
) -> tuple[tuple[ToolSpec, ...], tuple[dict[str, Any], ...]]:
    functions: list[ToolSpec] = []
    native: list[dict[str, Any]] = []
    for entry in [entries] if isinstance(entries, dict) else entries:
        functions += map(_function, entry.pop("functionDeclarations", []))
        if entry:
            native.append(entry)
    return tuple(functions), tuple(native)


def _function(found: dict[str, Any]) -> ToolSpec:
    schema = found.pop("parametersJsonSchema", None)
    return ToolSpec(
        name=found.pop("name"),
        description=found.pop("description", ""),
        schema=found.get("parameters", {}) if schema is None else schema,
        extra=found,
    )
