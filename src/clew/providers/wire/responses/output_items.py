"""Convert output items to the parts of a message."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from clew.core.ids import CallId
from clew.core.json_text import JsonDecoder
from clew.core.messages import Image, Native, Part, Reasoning, Text, ToolCall
from clew.core.models import TOOL_SEARCH

ItemFields: TypeAlias = Mapping[str, Any]

_json = msgspec.json.Encoder()
_object = JsonDecoder(dict[str, Any])


def as_fields(value: Any) -> ItemFields:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_fields(value: Any) -> list[ItemFields]:
    """Return the objects in `value` if it is a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return `value` as text: a string itself, None as empty, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else _json.encode(value).decode()


def other_fields(fields: ItemFields, *known: str) -> dict[str, Any]:
    """Return the fields that are not `known` and not empty."""
    return {
        name: value
        for name, value in fields.items()
        if name not in known and value is not None and value != []
    }


def pack_extra(fields: ItemFields) -> str:
    """Return `fields` as the text of an `extra`."""
    return _json.encode(fields).decode() if fields else ""


def unpack_extra(text: str) -> dict[str, Any]:
    """Return the fields of an `extra`."""
    return _object.decode(text) if text else {}


LONGEST = 200
"""Characters of a tool's input and output in a note."""

_CLIENT_RUNS = frozenset({"function_call", "computer_call", "local_shell_call", "apply_patch_call"})
# xAI reports the steps of its own search as calls of custom tools.
_XAI_RUNS = frozenset({"x_keyword_search", "x_semantic_search", "x_thread_fetch", "x_user_search"})


def is_server_tool(item: ItemFields) -> bool:
    """Return whether `item` is a tool that the provider runs itself."""
    kind = as_text(item.get("type"))
    if kind == "shell_call":
        return as_text(as_fields(item.get("environment")).get("type")).startswith("container")
    if kind == "custom_tool_call":
        return as_text(item.get("name")) in _XAI_RUNS
    called = kind.endswith("_call") and kind not in _CLIENT_RUNS
    return (called and item.get("execution") != "client") or kind == "mcp_list_tools"


def tool_name(item: ItemFields) -> str:
    """Return the name of the tool, such as `web_search`."""
    kind = as_text(item.get("type"))
    if kind in {"mcp_call", "mcp_list_tools"}:
        return f"{as_text(item.get('server_label'))}.{as_text(item.get('name')) or 'list_tools'}"
    return as_text(item.get("name")) or kind.removesuffix("_call")


def call_name(item: ItemFields) -> str:
    """Return the name of the tool that the client runs."""
    return TOOL_SEARCH if item.get("type") == SEARCH_CALL else as_text(item.get("name"))


def describe_input(item: ItemFields) -> str:
    """Return the input of the tool, if known."""
    action = as_fields(item.get("action"))
    return (
        as_text(action.get("query"))
        or _join_texts(action.get("queries"))
        or _join_texts(action.get("commands"), "\n")
        or as_text(action.get("url"))
        or _join_texts(item.get("queries"))
        or as_text(
            item.get("code")
            or item.get("arguments")
            or item.get("revised_prompt")
            or item.get("prompt")
            or item.get("input")
        )
    )


def describe_output(item: ItemFields) -> str:
    """Return the readable output of the tool."""
    if said := item.get("error") or item.get("output"):
        return as_text(said)
    logs = [each.get("logs") for each in list_fields(item.get("outputs"))]
    files = [each.get("filename") for each in list_fields(item.get("results"))]
    tools = [each.get("name") for each in list_fields(item.get("tools"))]
    urls = [each.get("url") for each in list_fields(as_fields(item.get("action")).get("sources"))]
    return _join_texts(logs, "\n") or _join_texts([*files, *tools, *urls])


def has_failed(item: ItemFields) -> bool:
    """Return whether the tool failed."""
    return item.get("status") == "failed" or bool(item.get("error"))


def summarize_item(item: ItemFields) -> str:
    """Return a one-line note that replaces the item for other providers."""
    if not is_server_tool(item) or item.get("type") == "mcp_list_tools":
        return ""
    told = " → ".join(filter(None, (_line(describe_input(item)), _line(describe_output(item)))))
    return f"[{tool_name(item)}: {told}]" if told else f"[{tool_name(item)}]"


def _join_texts(values: Any, between: str = ", ") -> str:
    return (
        between.join(as_text(each) for each in values if each) if isinstance(values, list) else ""
    )


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[:LONGEST] + "…"


BETWEEN = "\n\n"
"""The separator between the parts of reasoning in one text."""
CUSTOM_CALL = "custom_tool_call"
SEARCH_CALL = "tool_search_call"
PICTURE = "image_generation_call"
SUMMARY, CONTENT = "summary_text", "reasoning_text"
"""The two types of reasoning parts."""

_WORDS = {"output_text": "text", "input_text": "text", "text": "text", "refusal": "refusal"}
"""The content types that are text, and the field that contains it."""


def parse_item(raw: bytes, provenance: str) -> tuple[Part, ...]:
    """Return an output item as parts of a message, usually one."""
    item = unpack_extra(raw.decode())
    parts: tuple[Part, ...] | None = None
    match item.get("type") or "message":
        case "message" if item.get("role") == "assistant":
            parts = _texts(item)
        case "reasoning":
            parts = (parse_reasoning(item, provenance),)
        case "function_call" | "custom_tool_call" | "tool_search_call" if not is_server_tool(item):
            parts = (_call(item),)
        case "image_generation_call":
            parts = _picture(item)
    if parts is None:
        return (Native(provenance=provenance, data=raw.decode(), note=summarize_item(item)),)
    return parts


def parse_reasoning(item: ItemFields, provenance: str, *, verbatim: bool = False) -> Reasoning:
    """Return a reasoning item; `verbatim` keeps its parts instead of their lengths."""
    summary, content = list_fields(item.get("summary")), list_fields(item.get("content"))
    texts = [as_text(piece.get("text")) for piece in (*summary, *content)]
    extra = other_fields(item, "type", "summary", "content", "encrypted_content")
    if verbatim or not (_are_plain(summary, SUMMARY) and _are_plain(content, CONTENT)):
        extra |= {"summary": summary, "content": content}
    elif content or len(summary) > 1 or texts == [""]:
        lengths = [len(text) for text in texts]
        extra |= {"summary": lengths[: len(summary)], "content": lengths[len(summary) :]}
    return Reasoning(
        text=BETWEEN.join(texts),
        provenance=provenance,
        signature=as_text(item.get("encrypted_content")),
        extra=pack_extra(extra),
    )


def _texts(item: ItemFields) -> tuple[Part, ...] | None:
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content}]
    found: list[Part] = []
    for piece in list_fields(content):
        kind = as_text(piece.get("type"))
        if kind not in _WORDS:
            return None
        extra = other_fields(piece, "type", _WORDS[kind])
        if kind == "refusal":
            extra["type"] = kind
        if found:
            extra["more"] = True
        elif head := other_fields(item, "type", "role", "content"):
            extra["item"] = head
        found.append(Text(as_text(piece.get(_WORDS[kind])), pack_extra(extra)))
    return tuple(found)


def _call(item: ItemFields) -> ToolCall:
    extra = other_fields(item, "type", "call_id", "name", "arguments", "input")
    arguments = as_text(item.get("arguments"))
    if item.get("type") == CUSTOM_CALL:
        arguments = pack_extra({"input": as_text(item.get("input"))})
        extra["type"] = CUSTOM_CALL
    elif item.get("type") == SEARCH_CALL:
        extra["type"] = SEARCH_CALL
    return ToolCall(
        call_id=CallId(as_text(item.get("call_id") or item.get("id"))),
        name=call_name(item),
        arguments=arguments,
        extra=pack_extra(extra),
    )


def _picture(item: ItemFields) -> tuple[Part, ...] | None:
    result = as_text(item.get("result"))
    try:
        data = b64decode(result, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not data or b64encode(data).decode() != result:
        return None
    media_type = f"image/{item.get('output_format') or 'png'}"
    extra = pack_extra({"item": other_fields(item, "result")})
    return (Image(media_type=media_type, data=data, extra=extra),)


def _are_plain(pieces: list[ItemFields], kind: str) -> bool:
    return all(
        piece.keys() == {"type", "text"}
        and piece["type"] == kind
        and isinstance(piece["text"], str)
        for piece in pieces
    )
