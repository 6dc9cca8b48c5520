"""Read and write message dictionaries in the formats of OpenAI's and Anthropic's APIs.

A dictionary is read as slices. A slice is kept or removed as a whole: a call with its arguments,
a result, or consecutive text. Unchanged dictionaries are written back as the same objects.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.ids import CallId
from clew.core.json_text import decode_json
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


class MessageSlice(Struct, frozen=True, kw_only=True):
    """A part of the list that stays or goes as a whole."""

    index: int
    """The index of its dictionary in the list."""
    blocks: tuple[int, ...] | None
    """The indexes of its blocks in the content; None for all."""
    message: Message
    is_system: bool = False


class UnknownBlock(Struct, frozen=True, kw_only=True):
    """A block that no known provider accepts."""

    index: int
    block: int
    what: str


def read_slices(messages: Sequence[Dict]) -> Iterator[MessageSlice | UnknownBlock]:
    """Read a list of dictionaries.

    Raises:
        ConfigError: Something in the list is not a message.
    """
    names: dict[str, str] = {}
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ConfigError(f"message {index} is not a dictionary with a role")
        yield from _read(index, message, names)


def _read(
    index: int, message: Dict, names: dict[str, str]
) -> Iterator[MessageSlice | UnknownBlock]:
    role, content = message["role"], message.get("content")
    if role in ("tool", "function"):
        call_id = str(message.get("tool_call_id") or message.get("name") or "")
        result = ToolResult(
            call_id=CallId(call_id), name=names.get(call_id, "tool"), text=_plain(content)
        )
        yield _slice(index, None, Role.TOOL, [result])
        return
    if role not in ("user", "assistant", *SYSTEM_ROLES):
        raise ConfigError(f"message {index} has the unknown role {role!r}")
    blocks = [content] if isinstance(content, str) else list(content or ())
    calls = [_openai_call(call) for call in message.get("tool_calls") or ()]
    if message.get("function_call"):
        name = str(message["function_call"].get("name"))
        calls.append(_openai_call({"id": name, "function": message["function_call"]}))
    names.update({call.call_id: call.name for call in calls})
    if message.get("reasoning_content"):
        blocks.append({"type": "thinking", "thinking": message["reasoning_content"]})
    if role == "assistant":
        yield from _assistant(index, blocks, calls, names)
        return
    yield from _user(index, blocks, names, is_system=role in SYSTEM_ROLES)


def _assistant(
    index: int, blocks: Sequence[Any], calls: Sequence[ToolCall], names: dict[str, str]
) -> Iterator[MessageSlice | UnknownBlock]:
    parts: list[Part] = []
    for number, block in enumerate(blocks):
        part = _part(block, names)
        if part is None:
            yield UnknownBlock(index=index, block=number, what=_kind(block))
        else:
            parts.append(part)
    for part in parts:
        if isinstance(part, ToolCall):
            names[part.call_id] = part.name
    yield _slice(index, None, Role.ASSISTANT, [*parts, *calls])


def _user(
    index: int, blocks: Sequence[Any], names: dict[str, str], *, is_system: bool
) -> Iterator[MessageSlice | UnknownBlock]:
    words: list[Part] = []
    at: list[int] = []
    for number, block in enumerate(blocks):
        part = _part(block, names)
        if part is None:
            yield UnknownBlock(index=index, block=number, what=_kind(block))
        elif isinstance(part, ToolResult):
            yield _slice(index, (number,), Role.TOOL, [part])
        else:
            words.append(part)
            at.append(number)
    if words or not blocks:
        where = tuple(at) if len(at) < len(blocks) else None
        yield _slice(index, where, Role.USER, words, is_system=is_system)


def _slice(
    index: int,
    blocks: tuple[int, ...] | None,
    role: Role,
    parts: Sequence[Part],
    *,
    is_system: bool = False,
) -> MessageSlice:
    message = Message(role=role, parts=tuple(parts))
    return MessageSlice(index=index, blocks=blocks, message=message, is_system=is_system)


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
        arguments=arguments,
    )


def _plain(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_block_text(block) for block in content)


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    if _kind(block) in _TEXT_FIELDS:
        return str(block.get("text", ""))
    return "" if _kind(block) in ("image", "image_url") else msgspec.json.encode(block).decode()


def _kind(block: Any) -> str:
    return str(block.get("type", "")) if isinstance(block, Mapping) else type(block).__name__


def is_anthropic(messages: Sequence[Dict]) -> bool:
    """Return True when tool results are in user messages, as in Anthropic's format."""
    return any(
        isinstance(block, Mapping) and block.get("type") in ("tool_use", "tool_result", "thinking")
        for message in messages
        if isinstance(message.get("content"), list)
        for block in message["content"]
    )


def write_slices(
    messages: Sequence[Dict], slices: Sequence[MessageSlice], shortened: Mapping[int, Message]
) -> list[dict[str, Any]]:
    """Return the dictionaries of `slices`.

    A dictionary that stays completely is the caller's own object. `shortened` has the new
    messages of those with truncated texts or arguments, by their index in `slices`.
    """
    written: list[dict[str, Any]] = []
    at = 0
    while at < len(slices):
        index = slices[at].index
        end = at
        while end < len(slices) and slices[end].index == index:
            end += 1
        same = slices[at:end]
        changed = {n - at: shortened[n] for n in range(at, end) if n in shortened}
        written.append(_write_message(messages[index], same, changed))
        at = end
    return written


def _write_message(
    message: Dict, slices: Sequence[MessageSlice], changed: Mapping[int, Message]
) -> dict[str, Any]:
    content = message.get("content")
    kept = [number for part in slices if part.blocks is not None for number in part.blocks]
    whole = any(part.blocks is None for part in slices) or (
        isinstance(content, list) and len(kept) == len(content)
    )
    if whole and not changed:
        return message if isinstance(message, dict) else dict(message)
    if message["role"] in ("tool", "function"):
        return {**message, "content": _new_text(changed[0])}
    if message["role"] == "assistant":
        return _write_answer(message, changed[0])
    if not isinstance(content, list):
        return {**message, "content": changed[0].text}
    blocks: list[tuple[int, Any]] = []
    for number, part in enumerate(slices):
        at = part.blocks if part.blocks is not None else range(len(content))
        same = [content[block] for block in at]
        if number in changed and changed[number].results:
            same = [{**block, "content": _new_text(changed[number])} for block in same]
        elif number in changed:
            same = list(_replace_text(same, changed[number].text))
        blocks += zip(at, same, strict=False)
    return {**message, "content": [block for _, block in sorted(blocks, key=itemgetter(0))]}


def _write_answer(message: Dict, shorter: Message) -> dict[str, Any]:
    written = dict(message)
    content = message.get("content")
    arguments = {call.call_id: call.arguments for call in shorter.calls}
    if isinstance(content, list):
        written["content"] = [
            _shorten_input(block, arguments) for block in _replace_text(content, shorter.text)
        ]
    elif content:
        written["content"] = shorter.text
    if message.get("tool_calls"):
        written["tool_calls"] = [_shorten_call(c, arguments) for c in message["tool_calls"]]
    if message.get("function_call"):
        name = CallId(str(message["function_call"].get("name")))
        written["function_call"] = {**message["function_call"], "arguments": arguments[name]}
    return written


def _shorten_input(block: Any, arguments: Mapping[CallId, str]) -> Any:
    if _kind(block) != "tool_use":
        return block
    return {**block, "input": decode_json(arguments[CallId(str(block.get("id")))])}


def _shorten_call(call: Dict, arguments: Mapping[CallId, str]) -> Dict:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    return {**call, "function": {**function, "arguments": arguments[CallId(str(call.get("id")))]}}


def _new_text(message: Message) -> str:
    return "\n".join(result.text for result in message.results)


def _replace_text(content: Sequence[Any], text: str) -> Iterator[Any]:
    """Replace the first block that reads as text by `text`, and remove the others."""
    written = False
    for block in content:
        if not isinstance(_part(block, {}), Text):
            yield block
        elif not written:
            written = True
            yield text if isinstance(block, str) else _text_block(block, text)


def _text_block(block: Dict, text: str) -> dict[str, Any]:
    if _kind(block) in _TEXT_FIELDS:
        return {**block, _TEXT_FIELDS[_kind(block)]: text}
    return {"type": "text", "text": text}
