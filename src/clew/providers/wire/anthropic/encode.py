"""Encode a request as the body of the Messages API.

The messages come last in the body, so a request that appends to another starts with the same bytes
except for breakpoints, which the provider's prompt cache needs.
"""

from typing import Any

import msgspec

from clew.context.reasoning import ReasoningReader
from clew.core.messages import Message
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.anthropic import cache_control
from clew.providers.wire.anthropic.turns import (
    EncodedTurn,
    arrange_turns,
    drop_thinking,
    encode_turns,
    find_loop_start,
)
from clew.providers.wire.message_cache import LIMIT, MessageCache

LEAST_THINKING = 1_024
"""The API's minimum thinking budget in tokens."""
_DEFAULT_TEMPERATURE = 1.0

_COUNTED = frozenset(
    {
        "cache_control",
        "context_management",
        "mcp_servers",
        "model",
        "output_config",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    }
)
_RUN_BY_THE_PROVIDER = (
    "advisor_",
    "code_execution_",
    "mcp_toolset",
    "tool_search_tool_",
    "web_fetch_",
    "web_search_",
)

_json = msgspec.json.Encoder()


def message_cache(
    reader: ReasoningReader, *, limit: int = LIMIT
) -> MessageCache[tuple[EncodedTurn, ...]]:
    """Return a cache for encoded messages."""
    return MessageCache(reader, _fragment, limit=limit)


def encode(
    request: Request,
    kept: MessageCache[tuple[EncodedTurn, ...]],
    *,
    streaming: bool = True,
    cache: bool = False,
    ttl: str = "",
    ceiling: int | None = None,
) -> bytes:
    """Return the body for `request`.

    Args:
        request: The request.
        kept: The cache of encoded messages.
        streaming: Request an event stream.
        cache: Set cache breakpoints.
        ttl: The lifetime of the cache: `5m`, the default, or `1h`.
        ceiling: The model's maximum output, if known.
    """
    head = _head(request)
    if streaming:
        head["stream"] = True
    found = kept.encode(request, loadable=_find_loadable(request))
    # With the field set for the whole request, the API places the breakpoints.
    if cache and cache_control.FIELD not in request.options:
        found = _with_marks(head, found, request, ttl)
    turns = arrange_turns(found)
    _settle_thinking(head, turns, ceiling)
    return _body(head, turns)


def encode_count(request: Request, kept: MessageCache[tuple[EncodedTurn, ...]]) -> bytes:
    """Return the body that counts the tokens of `request`.

    Server tools are left out, because the endpoint rejects them.
    """
    head = {name: value for name, value in _head(request).items() if name in _COUNTED}
    if "tools" in head:
        head["tools"] = [tool for tool in head["tools"] if _is_counted(tool)]
        if not head["tools"]:
            del head["tools"]
            head.pop("tool_choice", None)
    turns = arrange_turns(kept.encode(request, loadable=_find_loadable(request)))
    _settle_thinking(head, turns, None)
    return _body(head, turns)


def _fragment(message: Message) -> tuple[tuple[EncodedTurn, ...], int]:
    found = encode_turns(message)
    return found, sum(len(piece.data) for piece in found)


def _find_loadable(request: Request) -> frozenset[str]:
    return frozenset(spec.name for spec in request.deferred_tools)


def _head(request: Request) -> dict[str, Any]:
    """Return the body without its messages."""
    head: dict[str, Any] = {}
    if request.model:
        head["model"] = request.model
    if request.max_output_tokens is not None:
        head["max_tokens"] = request.max_output_tokens
    if request.temperature is not None:
        head["temperature"] = request.temperature
    if request.tools or request.native_tools:
        later = [{**_tool(spec), "defer_loading": True} for spec in request.deferred_tools]
        head["tools"] = [*map(_tool, request.tools), *later, *request.native_tools]
    if request.system.strip():
        head["system"] = [{"type": "text", "text": request.system}]
    return head | request.options


def _tool(spec: ToolSpec) -> dict[str, Any]:
    tool = {"name": spec.name, "description": spec.description, "input_schema": spec.schema}
    return {**tool, **spec.extra}


def _is_counted(tool: dict[str, Any]) -> bool:
    return not str(tool.get("type", "")).startswith(_RUN_BY_THE_PROVIDER)


def _with_marks(
    head: dict[str, Any], found: list[tuple[EncodedTurn, ...]], request: Request, ttl: str
) -> list[tuple[EncodedTurn, ...]]:
    """Set breakpoints at the end, after settled messages and on the system prompt, as available."""
    left = cache_control.MAX_BREAKPOINTS - sum(
        piece.marks for fragment in found for piece in fragment
    )
    left -= sum(
        cache_control.FIELD in block for name in ("tools", "system") for block in head.get(name, ())
    )
    ends = cache_control.choose_breakpoints(found, request.settled)[: max(left, 0)]
    if left > len(ends) and "system" in head and "system" not in request.options:
        head["system"] = [
            {**head["system"][0], cache_control.FIELD: cache_control.make_cache_control(ttl)}
        ]
    return cache_control.add_breakpoints(found, ends, ttl)


def _settle_thinking(head: dict[str, Any], turns: list[EncodedTurn], ceiling: int | None) -> None:
    """Make `thinking` consistent with the messages, as the API requires.

    If enabled, the current tool loop must start with thinking; if disabled, it must contain none. A
    loop that started on another model can only continue without thinking.
    """
    thinking = head.get("thinking")
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    since = find_loop_start(turns) if kind in {"enabled", "disabled"} else None
    if since is not None and not (kind == "enabled" and turns[since].begins_thinking):
        drop_thinking(turns, since)
        if kind == "enabled":
            del head["thinking"]
    elif kind in {"enabled", "adaptive"}:
        # The API accepts only its default beside thinking.
        if head.get("temperature") != _DEFAULT_TEMPERATURE:
            head.pop("temperature", None)
        _make_room(head, ceiling)


def _make_room(head: dict[str, Any], ceiling: int | None) -> None:
    """Raise the output limit above the thinking budget, or lower the budget if it cannot."""
    budget, limit = head["thinking"].get("budget_tokens"), head.get("max_tokens")
    if not isinstance(budget, int) or not isinstance(limit, int) or budget < limit:
        return
    longest = budget + limit if ceiling is None else min(budget + limit, max(ceiling, limit))
    longest = max(longest, LEAST_THINKING * 2)
    words = min(limit, longest // 2)
    head["max_tokens"] = longest
    head["thinking"] = {**head["thinking"], "budget_tokens": min(budget, longest - words)}


def _body(head: dict[str, Any], turns: list[EncodedTurn]) -> bytes:
    start = _json.encode(head)[:-1] + (b"," if head else b"") + b'"messages":['
    messages = [turn.data for turn in turns] or [b""]
    # A single join, because long conversations have many megabytes.
    messages[0] = start + messages[0]
    messages[-1] += b"]}"
    return b",".join(messages)
