"""Reading message lists as OpenAI's and Anthropic's APIs have them.

A dictionary is read into pieces, each of which stays or goes as a whole: a call with its
arguments, a result, a stretch of words. Writing back takes the caller's own dictionaries
wherever nothing changed in them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.ids import CallId
from clew.core.messages import Image, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult

Dict: TypeAlias = Mapping[str, Any]

SYSTEM_ROLES = frozenset({"system", "developer"})
_TEXT_FIELDS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
}
_MEDIA = frozenset(
    {"image", "image_url", "input_image", "input_audio", "audio", "video", "file", "document"}
)
_SERVER = frozenset(
    {
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "search_result",
        "mcp_tool_use",
        "mcp_tool_result",
    }
)


class Piece(Struct, frozen=True, kw_only=True):
    """A part of the caller's list that stays or goes as a whole."""

    place: int
    """Which dictionary of the list."""
    blocks: tuple[int, ...] | None
    """Which blocks of its content; None for all of it."""
    message: Message
    is_system: bool = False


class Unknown(Struct, frozen=True, kw_only=True):
    """A block that no provider is known to take."""

    place: int
    block: int
    what: str


def read_pieces(messages: Sequence[Dict]) -> Iterator[Piece | Unknown]:
    """Read a list of dictionaries, in order.

    Raises:
        ConfigError: Something in the list is not a message at all.
    """
    names: dict[str, str] = {}
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ConfigError(f"message {place} is not a dictionary with a role")
        yield from _read(place, message, names)


def _read(place: int, message: Dict, names: dict[str, str]) -> Iterator[Piece | Unknown]:
    role, content = message["role"], message.get("content")
    if role in ("tool", "function"):
        call_id = str(message.get("tool_call_id") or message.get("name") or "")
        result = ToolResult(
            call_id=CallId(call_id), name=names.get(call_id, "tool"), text=_plain(content)
        )
        yield _piece(place, None, Role.TOOL, [result])
        return
    if role not in ("user", "assistant", *SYSTEM_ROLES):
        raise ConfigError(f"message {place} has the role {role!r}, which no provider knows")
    blocks = [content] if isinstance(content, str) else list(content or ())
    calls = [_openai_call(call) for call in message.get("tool_calls") or ()]
    if message.get("function_call"):
        name = str(message["function_call"].get("name"))
        calls.append(_openai_call({"id": name, "function": message["function_call"]}))
    names.update({call.call_id: call.name for call in calls})
    if message.get("reasoning_content"):
        blocks.append({"type": "thinking", "thinking": message["reasoning_content"]})
    if role == "assistant":
        yield from _assistant(place, blocks, calls, names)
        return
    yield from _user(place, blocks, names, is_system=role in SYSTEM_ROLES)


def _assistant(
    place: int, blocks: Sequence[Any], calls: Sequence[ToolCall], names: dict[str, str]
) -> Iterator[Piece | Unknown]:
    parts: list[Part] = []
    for number, block in enumerate(blocks):
        part = _part(block, names)
        if part is None:
            yield Unknown(place=place, block=number, what=_kind(block))
        else:
            parts.append(part)
    for part in parts:
        if isinstance(part, ToolCall):
            names[part.call_id] = part.name
    yield _piece(place, None, Role.ASSISTANT, [*parts, *calls])


def _user(
    place: int, blocks: Sequence[Any], names: dict[str, str], *, is_system: bool
) -> Iterator[Piece | Unknown]:
    words: list[Part] = []
    at: list[int] = []
    for number, block in enumerate(blocks):
        part = _part(block, names)
        if part is None:
            yield Unknown(place=place, block=number, what=_kind(block))
        elif isinstance(part, ToolResult):
            yield _piece(place, (number,), Role.TOOL, [part])
        else:
            words.append(part)
            at.append(number)
    if words or not blocks:
        where = tuple(at) if len(at) < len(blocks) else None
        yield _piece(place, where, Role.USER, words, is_system=is_system)


def _piece(
    place: int,
    blocks: tuple[int, ...] | None,
    role: Role,
    parts: Sequence[Part],
    *,
    is_system: bool = False,
) -> Piece:
    message = Message(role=role, parts=tuple(parts))
    return Piece(place=place, blocks=blocks, message=message, is_system=is_system)


def _part(block: Any, names: Mapping[str, str]) -> Part | None:
    if isinstance(block, str):
        return Text(block)
    kind = _kind(block)
    if kind in _TEXT_FIELDS:
        return Text(str(block.get(_TEXT_FIELDS[kind], "")))
    if kind in _MEDIA:
        source = block.get("source")
        is_text = isinstance(source, Mapping) and source.get("type") in ("text", "content")
        return Text(msgspec.json.encode(source).decode()) if is_text else Image()
    if kind in _SERVER:
        return Text(msgspec.json.encode(block).decode())
    return _anthropic_part(kind, block, names)


def _anthropic_part(kind: str, block: Dict, names: Mapping[str, str]) -> Part | None:
    match kind:
        case "thinking":
            return Reasoning(
                text=str(block.get("thinking", "")), signature=str(block.get("signature", ""))
            )
        case "redacted_thinking":
            return Reasoning(redacted=str(block.get("data", "")))
        case "tool_use":
            return ToolCall(
                call_id=CallId(str(block.get("id"))),
                name=str(block.get("name", "tool")),
                arguments=msgspec.json.encode(block.get("input", {})).decode(),
            )
        case "tool_result":
            return _anthropic_result(block, names)
        case _:
            return None


def _anthropic_result(block: Dict, names: Mapping[str, str]) -> ToolResult:
    call_id = str(block.get("tool_use_id"))
    content = block.get("content")
    images = sum(_kind(inner) == "image" for inner in content) if isinstance(content, list) else 0
    return ToolResult(
        call_id=CallId(call_id),
        name=names.get(call_id, "tool"),
        text=_plain(content),
        failed=bool(block.get("is_error")),
        images=(Image(),) * images,
    )


def _openai_call(call: Dict) -> ToolCall:
    function = call.get("function") or call.get("custom") or {}
    arguments = function.get("arguments", function.get("input", ""))
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    return ToolCall(
        call_id=CallId(str(call.get("id"))),
        name=str(function.get("name", "tool")),
        arguments=arguments
        if isinstance(arguments, str)
        else msgspec.json.encode(arguments).decode(),
    )


def _plain(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_words(block) for block in content)


def _words(block: Any) -> str:
    if isinstance(block, str):
        return block
    if _kind(block) in _TEXT_FIELDS:
        return str(block.get("text", ""))
    return "" if _kind(block) in ("image", "image_url") else msgspec.json.encode(block).decode()


def _kind(block: Any) -> str:
    return str(block.get("type", "")) if isinstance(block, Mapping) else type(block).__name__
