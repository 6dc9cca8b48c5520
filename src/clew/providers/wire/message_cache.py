"""A cache of encoded messages, so that a request costs only its new messages."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from clew.context.reasoning import ReasoningPolicy, ReasoningReader, adapt_message
from clew.core.json_text import JsonDecoder
from clew.core.messages import Message, ToolResult
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.media import replace_media

LIMIT = 256 << 20
"""Bytes to keep before the older half is evicted."""
_MOST_TOOL_LISTS = 64
"""Lists of tools to keep: sessions with the same tools share one."""
OVERHEAD = 600
"""Bytes per entry besides its encoding: the message and the dict slot."""

F = TypeVar("F")
_Key: TypeAlias = tuple[ReasoningPolicy, bool, frozenset[str]]
_object = JsonDecoder(dict[str, Any])


class _Entry(Struct, Generic[F], frozen=True, gc=False):
    message: Message
    """A reference keeps its id from being reused."""
    fragment: F
    size: int


class MessageCache(Generic[F]):
    """Prepares messages for one provider, encodes them and caches the result.

    Messages are identified by object identity: views return the same objects every turn. Sessions
    may share a cache.
    """

    def __init__(
        self,
        reader: ReasoningReader,
        make: Callable[[Message], tuple[F, int]],
        *,
        limit: int = LIMIT,
    ) -> None:
        """Encode with `make`, which returns an encoded message and its size in bytes."""
        self.reader = reader
        self._encode_message = make
        self._limit = limit
        self._size = 0
        self._cached: dict[_Key, dict[int, _Entry[F]]] = {}
        self._tools: dict[tuple[int, ...], tuple[Sequence[ToolSpec], Raw]] = {}

    def encode_tools(
        self, tools: Sequence[ToolSpec], make: Callable[[Sequence[ToolSpec]], bytes]
    ) -> Raw:
        """Return `tools` as `make` encodes them; like messages, they are identified by identity."""
        key = tuple(map(id, tools))
        known = self._tools.get(key)
        if known is None:
            if len(self._tools) >= _MOST_TOOL_LISTS:
                self._tools.clear()
            # A reference to the tools keeps their ids from being reused.
            known = self._tools[key] = tools, Raw(make(tools))
        return known[1]

    def encode(self, request: Request, *, loadable: frozenset[str] = frozenset()) -> list[F]:
        """Return the encoded messages of `request`, in order.

        Args:
            request: The request.
            loadable: The deferred tools that results may load by name.
        """
        key = (request.reasoning, request.sees, loadable)
        cached = self._cached.setdefault(key, {})
        known = map(cached.get, map(id, request.messages))
        found = [
            entry if entry is not None else self._encode_new(message, request, cached, loadable)
            for message, entry in zip(request.messages, known, strict=True)
        ]
        while self._size > self._limit:
            self._evict()
        return [entry.fragment for entry in found]

    def prepare(self, message: Message, request: Request) -> Message:
        """Return `message` without anything that the model of `request` cannot take."""
        found = adapt_message(message, self.reader, request.reasoning)
        return found if request.sees else replace_media(found)

    def _encode_new(
        self,
        message: Message,
        request: Request,
        cached: dict[int, _Entry[F]],
        loadable: frozenset[str],
    ) -> _Entry[F]:
        prepared = _drop_loads(self.prepare(message, request), loadable)
        fragment, size = self._encode_message(prepared)
        entry = cached[id(message)] = _Entry(message, fragment, size + OVERHEAD)
        self._size += size + OVERHEAD
        return entry

    def _evict(self) -> None:
        """Evict the older half; other sessions may still use the rest."""
        for cached in self._cached.values():
            for place in list(islice(cached, (len(cached) + 1) // 2)):
                self._size -= cached.pop(place).size
        self._cached = {key: cached for key, cached in self._cached.items() if cached}


def _drop_loads(message: Message, loadable: frozenset[str]) -> Message:
    """Return `message` with the text of results in place of tools that they cannot load."""
    for part in message.parts:
        if type(part) is ToolResult and part.loads and not loadable.issuperset(part.loads):
            break
    else:
        return message
    parts = (
        replace(part, loads=())
        if isinstance(part, ToolResult) and not loadable.issuperset(part.loads)
        else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts))


def merge_extra(block: dict[str, Any], extra: str) -> dict[str, Any]:
    """Return `block` merged with the private fields of its part."""
    return {**block, **_object.decode(extra)} if extra else block


def join_array(begin: bytes, pieces: list[bytes]) -> bytes:
    """Return a body that ends with an array: its beginning, the elements and the closing brackets.

    It uses a single join, because long conversations have many megabytes, and consumes `pieces`.
    """
    pieces = pieces or [b""]
    pieces[0] = begin + pieces[0]
    pieces[-1] += b"]}"
    return b",".join(pieces)
