"""Encode a request as the body of OpenAI Chat Completions.

The messages come last in the body, so a request that appends to another starts with the same bytes,
which the provider's prompt cache needs. Strict servers get the messages in an order that they
accept: Mistral rejects a user message right after tool results, as after an abort, and some chat
templates require that user and assistant alternate.
"""

from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import Any

import msgspec
from msgspec import Raw, Struct

from clew.context.reasoning import ReasoningReader
from clew.core.json_text import JsonDecoder, decode_json
from clew.core.messages import Message
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.chat.dialect import Dialect
from clew.providers.wire.chat.messages import add_cache_control, system_message, wire_messages
from clew.providers.wire.message_cache import LIMIT, MessageCache, join_array

PLAIN = Dialect()
_FUNCTION_FIELDS = frozenset({"strict"})
"""The private fields of a tool that belong into its function; the rest go beside it."""

_json = msgspec.json.Encoder()


USER, ASSISTANT, TOOL = "user", "assistant", "tool"
BRIDGE = "I have read the results."
"""The assistant message between tool results and the next user message."""

_CALLS = "tool_calls"
_PLAIN = frozenset({"role", "content"})
_fields = JsonDecoder(dict[str, Raw])


class WireMessage(Struct, frozen=True, gc=False):
    """One encoded message of the API."""

    role: str
    data: bytes


_bridge = WireMessage(ASSISTANT, _json.encode({"role": ASSISTANT, "content": BRIDGE}))


def message_cache(
    reader: ReasoningReader, dialect: Dialect = PLAIN, *, limit: int = LIMIT
) -> MessageCache[tuple[WireMessage, ...]]:
    """Return a cache for messages encoded in `dialect`."""
    return MessageCache(reader, partial(_fragment, dialect), limit=limit)


def encode(
    request: Request,
    kept: MessageCache[tuple[WireMessage, ...]],
    *,
    dialect: Dialect = PLAIN,
    streaming: bool = True,
) -> bytes:
    """Return the body for `request`.

    Args:
        request: The request.
        kept: The cache of encoded messages, for the same dialect.
        dialect: The dialect of the server.
        streaming: Request an event stream.
    """
    found = kept.encode(request)
    marking = dialect.needs_cache_control(request.model)
    if marking:
        _mark(found, request, kept, dialect)
    messages = arrange_messages(chain.from_iterable(found), dialect, request.model)
    if request.system:
        system = system_message(request.system, dialect, mark=marking)
        messages.insert(0, _json.encode(system))
    head = _json.encode(_head(request, kept, dialect, streaming=streaming))
    return join_array(head[:-1] + b',"messages":[', messages)


def _fragment(dialect: Dialect, message: Message) -> tuple[tuple[WireMessage, ...], int]:
    found = _encode_messages(wire_messages(message, dialect))
    return found, sum([len(sent.data) for sent in found])


def _encode_messages(messages: Iterable[dict[str, Any] | msgspec.Raw]) -> tuple[WireMessage, ...]:
    return tuple([WireMessage(_role(each), _json.encode(each)) for each in messages])


def _role(message: dict[str, Any] | msgspec.Raw) -> str:
    fields = message if isinstance(message, dict) else decode_json(message)
    return str(fields["role"])


def _head(
    request: Request,
    kept: MessageCache[tuple[WireMessage, ...]],
    dialect: Dialect,
    *,
    streaming: bool,
) -> dict[str, Any]:
    head: dict[str, Any] = {"model": request.model}
    if streaming:
        head["stream"] = True
        if dialect.stream_usage:
            head["stream_options"] = {"include_usage": True}
    if request.max_output_tokens is not None:
        head[dialect.limit_field] = request.max_output_tokens
    if request.temperature is not None:
        head["temperature"] = request.temperature
    if dialect.key_field and request.cache_key:
        head[dialect.key_field] = request.cache_key
    if request.native_tools:
        head["tools"] = [*map(_tool, request.tools), *request.native_tools]
    elif request.tools:
        head["tools"] = kept.encode_tools(request.tools, _encode_tools)
    return head | request.options


def _encode_tools(tools: Iterable[ToolSpec]) -> bytes:
    return _json.encode([*map(_tool, tools)])


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    inside = {key: value for key, value in spec.extra.items() if key in _FUNCTION_FIELDS}
    beside = {key: value for key, value in spec.extra.items() if key not in _FUNCTION_FIELDS}
    return {"type": "function", "function": {**function, **inside}, **beside}


def _mark(
    found: list[tuple[WireMessage, ...]],
    request: Request,
    kept: MessageCache[tuple[WireMessage, ...]],
    dialect: Dialect,
) -> None:
    """Set cache breakpoints: after the messages that stay, and after the last."""
    for end in {min(request.settled, len(found)), len(found)}:
        for place in range(end - 1, -1, -1):
            made = add_cache_control(kept.prepare(request.messages[place], request), dialect)
            if made:
                found[place] = _encode_messages(made)
                break


def arrange_messages(messages: Iterable[WireMessage], dialect: Dialect, model: str) -> list[bytes]:
    """Return `messages` in an order that the server accepts for `model`."""
    bridges = dialect.needs_bridge(model)
    if not bridges and not dialect.merge_roles:
        return [message.data for message in messages]
    found: list[WireMessage] = []
    for message in messages:
        last = found[-1] if found else None
        if last is not None:
            if bridges and last.role == TOOL and message.role == USER:
                found.append(_bridge)
            elif dialect.merge_roles and (both := _merge_messages(last, message)) is not None:
                found[-1] = both
                continue
        found.append(message)
    return [message.data for message in found]


def _merge_messages(first: WireMessage, second: WireMessage) -> WireMessage | None:
    """Return two messages as one, or None if they cannot be merged."""
    if first.role != second.role or first.role not in {USER, ASSISTANT}:
        return None
    one, other = _fields.decode(first.data), _fields.decode(second.data)
    # Results must follow calls, and other fields of a message cannot be merged.
    if one.keys() != _PLAIN or other.keys() - {_CALLS} != _PLAIN:
        return None
    content = _join_contents(bytes(one["content"]), bytes(other["content"]))
    return WireMessage(first.role, _json.encode({**other, "content": Raw(content)}))


def _join_contents(one: bytes, other: bytes) -> bytes:
    """Return two contents as one: texts with a blank line between, else a list of parts."""
    if b"null" in {one, other}:
        return other if one == b"null" else one
    if one.startswith(b'"') and other.startswith(b'"'):
        return b"".join((one[:-1], rb"\n\n", other[1:]))
    pieces = (_inside(content) for content in (one, other))
    return b"[" + b",".join(filter(None, pieces)) + b"]"


def _inside(content: bytes) -> bytes:
    if content.startswith(b"["):
        return content[1:-1]
    return _json.encode({"type": "text", "text": Raw(content)})
