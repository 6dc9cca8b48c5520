"""Encoded messages, kept so that a request costs only what is new in it."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from clew.context.reasoning import Reader, ReasoningPolicy, spoken
from clew.core.messages import Message

LIMIT = 64 << 20
"""Bytes of fragments that are kept before all are let go."""

F = TypeVar("F")
_object = msgspec.json.Decoder(dict[str, Any])


class Fragments(Generic[F]):
    """Prepares messages for one reader, encodes them, and keeps what came out.

    A message is known again by identity: views hand out the same objects turn after turn.
    Safe to share between sessions.
    """

    def __init__(
        self, reader: Reader, make: Callable[[Message], tuple[F, int]], *, limit: int = LIMIT
    ) -> None:
        """Encode with `make`, which returns a fragment and how many bytes it is."""
        self.reader = reader
        self._make = make
        self._limit = limit
        self._size = 0
        self._kept: dict[ReasoningPolicy, dict[int, tuple[Message, F]]] = {}

    def encode(self, messages: Iterable[Message], policy: ReasoningPolicy) -> list[F]:
        """Return the fragment of each message, in order."""
        kept = self._kept.setdefault(policy, {})
        found: list[F] = []
        for message in messages:
            known = kept.get(id(message))
            if known is None:
                fragment, size = self._make(spoken(message, self.reader, policy))
                self._size += size
                # Keeping the message itself keeps its id from being given to another.
                known = kept[id(message)] = (message, fragment)
            found.append(known[1])
        if self._size > self._limit:
            self._kept, self._size = {}, 0
        return found


def merged(block: dict[str, Any], extra: str) -> dict[str, Any]:
    """Return `block` with the family's own fields beside the common ones."""
    return {**block, **_object.decode(extra)} if extra else block


def joined(begin: bytes, pieces: list[bytes]) -> bytes:
    """Return a body that ends with an array: its beginning, the pieces, and the end of both.

    One join makes it, because a long conversation is many megabytes; `pieces` is used up.
    """
    pieces = pieces or [b""]
    pieces[0] = begin + pieces[0]
    pieces[-1] += b"]}"
    return b",".join(pieces)
