"""Describe native blocks as text, for people and for other models."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from clew.core.text import truncate_middle

LONGEST_NOTE = 500
"""Characters of the note that replaces a block for other models."""

_json = msgspec.json.Encoder()
_KINDS = {
    "compaction": "Summary of what was said before",
    "container_upload": "A file in the container",
    "document": "A document",
    "image": "A picture",
    "search_result": "Found",
}


def describe_input(block: Mapping[str, Any]) -> str:
    """Return the input of a tool: its only text, or all of it as JSON."""
    given = block.get("input")
    if isinstance(given, dict) and len(given) == 1:
        (only,) = given.values()
        if isinstance(only, str):
            return only
    return _json.encode(given).decode() if given else ""


def describe_result(block: Mapping[str, Any]) -> str:
    """Return the readable text of a tool result."""
    return "\n".join(_lines(block.get("content")))


def is_failed(block: Mapping[str, Any]) -> bool:
    """Return whether a tool reports an error."""
    content = block.get("content")
    return bool(block.get("is_error")) or (isinstance(content, dict) and "error_code" in content)


def summarize_block(block: Mapping[str, Any], tool: str = "") -> str:
    """Return a one-line note that replaces `block`, or an empty string.

    Args:
        block: The block.
        tool: The name of the tool whose result it is.
    """
    kind = str(block.get("type", ""))
    if kind.endswith("tool_use"):
        label, text = str(block.get("name", "")), describe_input(block)
    elif kind.endswith("tool_result"):
        label, text = (
            f"{tool or kind.removesuffix('_tool_result')} answered",
            describe_result(block),
        )
    elif kind in _KINDS:
        label, text = _KINDS[kind], "; ".join(_lines(dict(block)))
    else:
        return ""
    line = " ".join(text.split())
    return f"[{label}: {truncate_middle(line, LONGEST_NOTE)}]" if line else f"[{label}]"


def _lines(value: object) -> Iterator[str]:
    """Yield the readable text in a block's content of any type."""
    match value:
        case str():
            yield value
        case list():
            for inner in value:
                yield from _lines(inner)
        case {"error_code": code}:
            yield str(code)
        case dict():
            named = [value.get(name) for name in ("title", "url", "tool_name", "file_id")]
            if any(named):
                yield " ".join(str(name) for name in named if name)
            for name in ("text", "stdout", "stderr", "content", "tool_references", "source"):
                yield from _lines(value.get(name))
        case _:
            return
