"""Encode a request as the body of the Responses API.

The items come last in the body, so a request that appends to another starts with the same bytes,
which the provider's prompt cache needs.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from clew.context.reasoning import ReasoningReader
from clew.core.json_text import JsonDecoder
from clew.core.messages import Message
from clew.core.models import TOOL_SEARCH, ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.message_cache import LIMIT, MessageCache, join_array
from clew.providers.wire.responses.input_items import LONGEST_ID, RESULT, InputItem, encode_items
from clew.providers.wire.responses.output_items import (
    CUSTOM_CALL,
    SEARCH_CALL,
    as_text,
    unpack_extra,
)

SEALED = "reasoning.encrypted_content"
STATELESS: Mapping[str, Any] = {"store": False, "include": [SEALED]}
"""The server stores nothing, and returns encrypted reasoning that can be sent back."""

_RESULT = f'{{"type":"{RESULT}"'.encode()
_CUSTOM_RESULT = b'{"type":"custom_tool_call_output"'
_ADAPTED = frozenset({RESULT, SEARCH_CALL})
_json = msgspec.json.Encoder()
_spec = JsonDecoder(ToolSpec)


class EncodedItems(Struct, frozen=True):
    """The encoded items of one message."""

    items: bytes
    custom: tuple[str, ...] = ()
    """The calls of custom tools: their results have another item type."""
    searches: tuple[str, ...] = ()
    """The calls of the API's tool search; likewise."""
    results: tuple[InputItem, ...] = ()
    """All items, if there are tool results or searches among them."""

    def adapt(
        self, custom: frozenset[str], searches: frozenset[str], *, tool_search: bool
    ) -> bytes:
        """Return the items, with each result of the type that its call needs."""
        special = custom | searches
        if all(item.call_id not in special for item in self.results):
            return self.items
        return b",".join(
            _write_search(item, tool_search=tool_search)
            if item.call_id in searches
            else _CUSTOM_RESULT + item.data[len(_RESULT) :]
            if item.call_id in custom and item.kind == RESULT
            else item.data
            for item in self.results
        )


def _write_search(item: InputItem, *, tool_search: bool) -> bytes:
    """Return a search or its result for a model that has tool search, or for one that has not."""
    if tool_search == (item.kind == SEARCH_CALL):
        return item.data
    fields = unpack_extra(item.data.decode())
    if item.kind == SEARCH_CALL:
        call = {"type": "function_call", "call_id": item.call_id, "name": TOOL_SEARCH}
        return _json.encode({**call, "arguments": as_text(fields.get("arguments"))})
    tools = [
        {**_tool(spec), "defer_loading": True}
        for spec in _read_specs(as_text(fields.get("output")))
    ]
    if not tools:
        # The API accepts this as well: the model reads why there are none.
        return item.data
    output = {
        "type": "tool_search_output",
        "call_id": item.call_id,
        "execution": "client",
        "status": "completed",
        "tools": tools,
    }
    return _json.encode(output)


def _read_specs(text: str) -> Iterator[ToolSpec]:
    """Yield the tools that a search returned, one in each line; nothing for any other text."""
    for line in text.splitlines():
        with suppress(msgspec.DecodeError):
            yield _spec.decode(line)


def message_cache(reader: ReasoningReader, *, limit: int = LIMIT) -> MessageCache[EncodedItems]:
    """Return a cache for encoded messages."""
    return MessageCache(reader, _fragment, limit=limit)


def encode(
    request: Request,
    kept: MessageCache[EncodedItems],
    *,
    streaming: bool = True,
    defaults: Mapping[str, Any] = STATELESS,
    tool_search: bool = False,
) -> bytes:
    """Return the body for `request`.

    Args:
        request: The request.
        kept: The cache of encoded messages.
        streaming: Request an event stream.
        defaults: Fields that the request's options may override; the `include` lists of both
            are merged.
        tool_search: Use the API's tool search, so that the model calls what it found directly.
    """
    head: dict[str, Any] = {"model": request.model}
    if streaming:
        head["stream"] = True
    head |= defaults
    if request.max_output_tokens is not None:
        head["max_output_tokens"] = request.max_output_tokens
    if request.temperature is not None:
        head["temperature"] = request.temperature
    if request.cache_key:
        head["prompt_cache_key"] = request.cache_key[:LONGEST_ID]
    if request.tools or request.native_tools:
        declare = _declare_search if tool_search else _tool
        head["tools"] = [*map(declare, request.tools), *request.native_tools]
    if request.system:
        head["instructions"] = request.system
    head |= request.options
    included = (*defaults.get("include", ()), *(request.options.get("include") or ()))
    if included:
        head["include"] = list(dict.fromkeys(included))
    found = kept.encode(request)
    custom = frozenset(chain.from_iterable(each.custom for each in found))
    searches = frozenset(chain.from_iterable(each.searches for each in found))
    items = [
        each.adapt(custom, searches, tool_search=tool_search) if custom or searches else each.items
        for each in found
    ]
    return join_array(_json.encode(head)[:-1] + b',"input":[', list(filter(None, items)))


def _fragment(message: Message) -> tuple[EncodedItems, int]:
    written = encode_items(message)
    items = b",".join(item.data for item in written)
    fragment = EncodedItems(
        items=items,
        custom=tuple(item.call_id for item in written if item.kind == CUSTOM_CALL),
        # Those that the server carries out itself are native parts, without a call id.
        searches=tuple(
            item.call_id for item in written if item.kind == SEARCH_CALL and item.call_id
        ),
        results=tuple(written) if any(item.kind in _ADAPTED for item in written) else (),
    )
    return fragment, len(items)


def _declare_search(spec: ToolSpec) -> dict[str, Any]:
    """Return the declaration of a tool; that of the tool that finds others as the API's own."""
    if spec.name != TOOL_SEARCH:
        return _tool(spec)
    search = {"type": "tool_search", "execution": "client", "description": spec.description}
    return {**search, "parameters": spec.schema}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    tool: dict[str, Any] = {"type": "function", "name": spec.name}
    if spec.description:
        tool["description"] = spec.description
    if spec.extra.get("type") == "custom":
        return {**tool, **spec.extra}
    # By default, the API makes every parameter of a function required.
    tool |= {"parameters": spec.schema, "strict": False, **spec.extra}
    return {name: value for name, value in tool.items() if name != "strict" or value is not None}
