"""Decode the parts of a response, streamed or whole.

Text deltas form one part. A part with a signature or other private fields stays a part of its own:
the API needs it back unchanged. Arguments may arrive value by value: each names its path in the
object (`$.list[0].name`), and a string may come in several pieces.
"""

import binascii
import re
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from clew.core.ids import CallId
from clew.core.json_text import JsonDecoder
from clew.core.messages import File, Image, Native
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    PartChunk,
    ReasoningChunk,
    TextChunk,
)
from clew.providers.wire.gemini.server_tools import (
    CodeExecutionResult,
    ExecutableCode,
    GoogleToolTracker,
    ToolInvocation,
    readable_args,
    summarize_tool,
)

Media: TypeAlias = Image | File


class PartialArg(Struct, rename="camel"):
    """One value of the arguments, or a piece of a string, with its path."""

    json_path: str = "$"
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None

    @property
    def value(self) -> str | float | bool | None:
        """The value; no field means null."""
        given = (self.string_value, self.number_value, self.bool_value)
        return next((value for value in given if value is not None), None)


class _Call(Struct, rename="camel"):
    id: str | None = None
    name: str | None = None
    args: Raw = Raw(b"")
    partial_args: list[PartialArg] | None = None
    will_continue: bool | None = None


class _Blob(Struct, rename="camel"):
    mime_type: str = ""
    data: str = ""


class _Address(Struct, rename="camel"):
    mime_type: str = ""
    file_uri: str = ""


class _Part(Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None
    inline_data: _Blob | None = None
    file_data: _Address | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeExecutionResult | None = None
    tool_call: ToolInvocation | None = None
    tool_response: ToolInvocation | None = None


_ABOUT_THOUGHT = frozenset({"thought", "thoughtSignature"})
_part = JsonDecoder(_Part)
_fields = JsonDecoder(dict[str, Raw])
_json = msgspec.json.Encoder()


class PartDecoder:
    """Decodes the parts of one response into chunks."""

    def __init__(self, provenance: str) -> None:
        self.calls = 0
        self.tools = GoogleToolTracker()
        self._provenance = provenance
        self._text = 0
        self._thoughts = 0
        self._thinking = False
        self._arriving: PartialArguments | None = None

    def take(self, raw: Raw) -> list[Chunk]:
        """Return the chunks of the next part."""
        part = _part.decode(raw)
        fields = _fields.decode(raw)
        is_text = part.text is not None or fields.keys() <= _ABOUT_THOUGHT
        if is_text and part.thought:
            return self._decode_thought(part, _rest(fields, "text", *_ABOUT_THOUGHT))
        self._thinking = False
        if is_text:
            return self._words(part.text or "", _rest(fields, "text", "thought"))
        if part.function_call is not None:
            return self._call(part.function_call, _rest(fields, "functionCall"))
        if part.inline_data is not None:
            blob = part.inline_data
            return [PartChunk(decode_media(blob.mime_type, blob.data, _rest(fields, "inlineData")))]
        if part.file_data is not None:
            return [PartChunk(_decode_address(part.file_data, _rest(fields, "fileData")))]
        return self._native(part, raw)

    def close(self) -> list[Chunk]:
        """Return the chunks that complete the response."""
        return [*self._complete(), *self.tools.close()]

    def _words(self, text: str, extra: str) -> list[Chunk]:
        if not extra:
            return [TextChunk(text, self._text)] if text else []
        self._text += 2
        return [TextChunk(text, self._text - 1, extra)]

    def _decode_thought(self, part: _Part, extra: str) -> list[Chunk]:
        text, signature = part.text or "", part.thought_signature or ""
        alone = bool(signature or extra)
        if not (text or alone):
            return []
        if alone or not self._thinking:
            self._thoughts += 1
        self._thinking = not alone
        index = self._thoughts - 1
        return [ReasoningChunk(index=index, text=text, signature=signature, extra=extra)]

    def _call(self, call: _Call, extra: str) -> list[Chunk]:
        if not call.name and self._arriving is None:
            return []
        found = self._begin(call, extra) if call.name else self._extend_call(extra)
        if self._arriving is not None:
            for piece in call.partial_args or ():
                self._arriving.take(piece)
            found += [] if call.will_continue else self._complete()
        return found

    def _begin(self, call: _Call, extra: str) -> list[Chunk]:
        found = self._complete()
        whole = bytes(call.args).decode()
        if call.partial_args or call.will_continue:
            self._arriving, whole = PartialArguments(), ""
        elif not whole.startswith("{"):
            whole = "{}"
        begun = CallChunk(
            index=self.calls,
            call_id=CallId(call.id) if call.id else None,
            name=call.name or "",
            arguments=whole,
            extra=extra,
            complete=self._arriving is None,
        )
        self.calls += 1
        return [*found, begun]

    def _extend_call(self, extra: str) -> list[Chunk]:
        return [CallChunk(index=self.calls - 1, extra=extra)] if extra else []

    def _complete(self) -> list[Chunk]:
        """Complete the call whose arguments arrive value by value, if any."""
        arriving, self._arriving = self._arriving, None
        if arriving is None:
            return []
        return [CallChunk(index=self.calls - 1, arguments=arriving.text, complete=True)]

    def _native(self, part: _Part, raw: Raw) -> list[Chunk]:
        found: list[Chunk] = []
        line = ""
        if part.executable_code is not None:
            found.append(self.tools.start_code(part.executable_code))
            line = summarize_tool(part.executable_code.code, "ran code")
        elif part.code_execution_result is not None:
            found.append(self.tools.end_code(part.code_execution_result))
            line = summarize_tool(part.code_execution_result.output or "", "the code printed")
        elif part.tool_call is not None:
            found.append(self.tools.start_tool(part.tool_call))
            line = summarize_tool("; ".join(readable_args(part.tool_call.args)), "looked up")
        elif part.tool_response is not None:
            found.append(self.tools.end_tool(part.tool_response))
        kept = Native(provenance=self._provenance, data=bytes(raw).decode(), note=line)
        return [*found, PartChunk(kept)]


def decode_media(media_type: str, data: str, extra: str = "") -> Media:
    """Return an image or file from base64, standard or URL-safe.

    Raises:
        ValueError: The data is not base64.
    """
    found = binascii.a2b_base64(data.replace("-", "+").replace("_", "/"), strict_mode=True)
    if media_type.startswith("image/"):
        return Image(media_type=media_type, data=found, extra=extra)
    return File(media_type=media_type, data=found, extra=extra)


def _decode_address(found: _Address, extra: str) -> Media:
    if found.mime_type.startswith("image/"):
        return Image(media_type=found.mime_type, url=found.file_uri, extra=extra)
    return File(media_type=found.mime_type, url=found.file_uri, extra=extra)


def _rest(fields: dict[str, Raw], *common: str) -> str:
    """Return the fields other than `common`, byte for byte."""
    kept = {name: raw for name, raw in fields.items() if name not in common}
    return _json.encode(kept).decode() if kept else ""


_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]""")


class PartialArguments:
    """Arguments that are still arriving."""

    def __init__(self) -> None:
        self._root: Any = {}

    def take(self, piece: PartialArg) -> None:
        """Add the next value."""
        self._root = _put(self._root, _steps(piece.json_path), piece.value)

    @property
    def text(self) -> str:
        """The arguments so far, as JSON."""
        return _json.encode(self._root).decode()


def _steps(path: str) -> list[str | int]:
    return [
        int(found[2]) if found[2] else found[1] or found[3] or found[4] or ""
        for found in _STEP.finditer(path)
    ]


def _put(node: Any, steps: list[str | int], value: Any) -> Any:
    """Return `node` with `value` at the end of `steps`; strings are appended."""
    if not steps:
        return node + value if isinstance(node, str) and isinstance(value, str) else value
    step, *rest = steps
    if isinstance(step, int):
        items = node if isinstance(node, list) else []
        inner = items[step] if step < len(items) else None
        items[step : step + 1] = [_put(inner, rest, value)]
        return items
    fields = node if isinstance(node, dict) else {}
    fields[step] = _put(fields.get(step), rest, value)
    return fields
