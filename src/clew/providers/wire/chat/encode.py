"""A request as the body of OpenAI Chat Completions.

The messages stand last in the body, so a request that appends to another begins with the
same bytes; the provider's prompt cache lives off that.
"""

from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from clew.context.reasoning import ReasoningReader
from clew.core.messages import Message
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.chat.dialect import Dialect
from clew.providers.wire.chat.messages import marked, system_message, wire_messages
from clew.providers.wire.chat.turns import Sent, lay_out
from clew.providers.wire.fragments import LIMIT, Fragments, joined

PLAIN = Dialect()
_FUNCTION_FIELDS = frozenset({"strict"})
"""Of a tool's private fields, those that belong to its function; the rest stand beside it."""

_json = msgspec.json.Encoder()


def fragments(
    reader: ReasoningReader, dialect: Dialect = PLAIN, *, limit: int = LIMIT
) -> Fragments[tuple[Sent, ...]]:
    """Return a place to keep the messages for `reader`, encoded in `dialect`."""
    return Fragments(reader, partial(_fragment, dialect), limit=limit)


def encode(
    request: Request,
    kept: Fragments[tuple[Sent, ...]],
    *,
    dialect: Dialect = PLAIN,
    streaming: bool = True,
) -> bytes:
    """Return the body that asks for `request`.

    Args:
        request: What to ask.
        kept: Messages that were encoded before, in the same dialect.
        dialect: How the server wants it.
        streaming: Ask for a stream of events.
    """
    found = kept.encode(request)
    marking = dialect.marks(request.model)
    if marking:
        _mark(found, request, kept, dialect)
    messages = lay_out(chain.from_iterable(found), dialect, request.model)
    if request.system:
        system = system_message(request.system, dialect, mark=marking)
        messages.insert(0, _json.encode(system))
    head = _json.encode(_head(request, dialect, streaming=streaming))
    return joined(head[:-1] + b',"messages":[', messages)


def _fragment(dialect: Dialect, message: Message) -> tuple[tuple[Sent, ...], int]:
    found = _sent(wire_messages(message, dialect))
    return found, sum(len(sent.data) for sent in found)


def _sent(messages: Iterable[dict[str, Any] | msgspec.Raw]) -> tuple[Sent, ...]:
    return tuple(Sent(_role(each), _json.encode(each)) for each in messages)


def _role(message: dict[str, Any] | msgspec.Raw) -> str:
    fields = message if isinstance(message, dict) else msgspec.json.decode(message)
    return str(fields["role"])


def _head(request: Request, dialect: Dialect, *, streaming: bool) -> dict[str, Any]:
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
    if request.tools or request.native_tools:
        head["tools"] = [*map(_tool, request.tools), *request.native_tools]
    return head | request.options


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.schema}
    inside = {key: value for key, value in spec.extra.items() if key in _FUNCTION_FIELDS}
    beside = {key: value for key, value in spec.extra.items() if key not in _FUNCTION_FIELDS}
    return {"type": "function", "function": {**function, **inside}, **beside}


def _mark(
    found: list[tuple[Sent, ...]],
    request: Request,
    kept: Fragments[tuple[Sent, ...]],
    dialect: Dialect,
) -> None:
    """Mark how far the server is to cache: the part that stays, and all there is now."""
    for end in {min(request.settled, len(found)), len(found)}:
        for place in range(end - 1, -1, -1):
            made = marked(kept.prepared(request.messages[place], request), dialect)
            if made:
                found[place] = _sent(made)
                break
