"""Encode a request as the body of the Responses API.

The items come last in the body, so a request that appends to another starts with the same bytes,
which the provider's prompt cache needs.
"""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from clew.context.reasoning import ReasoningReader
from clew.core.messages import Message
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.message_cache import LIMIT, MessageCache, join_array
from clew.providers.wire.responses.input_items import LONGEST_ID, RESULT, InputItem, encode_items
from clew.providers.wire.responses.output_items import CUSTOM_CALL

SEALED = "reasoning.encrypted_content"
STATELESS: Mapping[str, Any] = {"store": False, "include": [SEALED]}
"""The server stores nothing, and returns encrypted reasoning that can be sent back."""

_RESULT = f'{{"type":"{RESULT}"'.encode()
_CUSTOM_RESULT = b'{"type":"custom_tool_call_output"'
_json = msgspec.json.Encoder()


class EncodedItems(Struct, frozen=True):
    """The encoded items of one message."""

    items: bytes
    custom: tuple[str, ...] = ()
    """The calls of custom tools: their results have another item type."""
    results: tuple[InputItem, ...] = ()
    """All items, if there are tool results among them."""

    def answering(self, custom: frozenset[str]) -> bytes:
        """Return the items, with each result of the type that its call needs."""
        if all(item.call_id not in custom for item in self.results):
            return self.items
        return b",".join(
            _CUSTOM_RESULT + item.data[len(_RESULT) :]
            if item.call_id in custom and item.kind == RESULT
            else item.data
            for item in self.results
        )


def message_cache(reader: ReasoningReader, *, limit: int = LIMIT) -> MessageCache[EncodedItems]:
    """Return a cache for encoded messages."""
    return MessageCache(reader, _fragment, limit=limit)


def encode(
    request: Request,
    kept: MessageCache[EncodedItems],
    *,
    streaming: bool = True,
    defaults: Mapping[str, Any] = STATELESS,
) -> bytes:
    """Return the body for `request`.

    Args:
        request: The request.
        kept: The cache of encoded messages.
        streaming: Request an event stream.
        defaults: Fields that the request's options may override; the `include` lists of both
            are merged.
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
        head["tools"] = [*map(_tool, request.tools), *request.native_tools]
    if request.system:
        head["instructions"] = request.system
    head |= request.options
    included = (*defaults.get("include", ()), *(request.options.get("include") or ()))
    if included:
        head["include"] = list(dict.fromkeys(included))
    found = kept.encode(request)
    custom = frozenset(chain.from_iterable(each.custom for each in found))
    items = [each.answering(custom) if custom else each.items for each in found]
    return join_array(_json.encode(head)[:-1] + b',"input":[', list(filter(None, items)))


def _fragment(message: Message) -> tuple[EncodedItems, int]:
    written = encode_items(message)
    items = b",".join(item.data for item in written)
    fragment = EncodedItems(
        items=items,
        custom=tuple(item.call_id for item in written if item.kind == CUSTOM_CALL),
        results=tuple(written) if any(item.kind == RESULT for item in written) else (),
    )
    return fragment, len(items)


def _tool(spec: ToolSpec) -> dict[str, Any]:
    tool: dict[str, Any] = {"type": "function", "name": spec.name}
    if spec.description:
        tool["description"] = spec.description
    if spec.extra.get("type") == "custom":
        return {**tool, **spec.extra}
    # By default, the API makes every parameter of a function required.
    tool |= {"parameters": spec.schema, "strict": False, **spec.extra}
    return {name: value for name, value in tool.items() if name != "strict" or value is not None}
