"""A cache of encoded messages, so that a request costs only its new messages."""

from collections.abc import Callable
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from clew.context.reasoning import ReasoningPolicy, ReasoningReader, adapt_message
from clew.core.messages import Message
from clew.providers.protocol import Request
from clew.providers.wire.unsupported_media import replace_media

LIMIT = 256 << 20
"""Bytes to keep before the older half is evicted."""
OVERHEAD = 600
"""Bytes per entry besides its encoding: the message and the dict slot."""

F = TypeVar("F")
_Key: TypeAlias = tuple[ReasoningPolicy, bool]
_object = msgspec.json.Decoder(dict[str, Any])


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
        self._make = make
        self._limit = limit
        self._size = 0
        self._kept: dict[_Key, dict[int, tuple[Message, F, int]]] = {}

    def encode(self, request: Request) -> list[F]:
        """Return the encoded messages of `request`, in order."""
        kept = self._kept.setdefault((request.reasoning, request.sees), {})
        found: list[F] = []
        for message in request.messages:
            known = kept.get(id(message))
            if known is None:
                known = kept[id(message)] = self._made(message, request)
                self._size += known[2]
            found.append(known[1])
        while self._size > self._limit:
            self._let_go()
        return found

    def prepared(self, message: Message, request: Request) -> Message:
        """Return `message` without anything that the model of `request` cannot take."""
        found = adapt_message(message, self.reader, request.reasoning)
        return found if request.sees else replace_media(found)

    def _made(self, message: Message, request: Request) -> tuple[Message, F, int]:
        fragment, size = self._make(self.prepared(message, request))
        # Keeping the message itself keeps its id from being given to another.
        return message, fragment, size + OVERHEAD

    def _let_go(self) -> None:
        """Evict the older half; other sessions may still use the rest."""
        for kept in self._kept.values():
            for place in list(islice(kept, (len(kept) + 1) // 2)):
                self._size -= kept.pop(place)[2]
        self._kept = {key: kept for key, kept in self._kept.items() if kept}


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
