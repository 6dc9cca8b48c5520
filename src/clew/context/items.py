"""The messages of a view: an immutable sequence that grows by one in constant time."""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import overload

from msgspec import Struct

from clew.context.estimate import Meter, message_units, reasoning_units, text_units
from clew.core.ids import EntryId
from clew.core.messages import Message, Role


class Kind(IntEnum):
    """What a view item is spent on; also its column in the totals."""

    USER = 0
    ASSISTANT = 1
    TOOL_RESULT = 2
    SUMMARY = 3
    REASONING = 4
    """Only a column: thinking is part of an assistant message."""


_KIND_OF_ROLE = {
    Role.USER: Kind.USER,
    Role.ASSISTANT: Kind.ASSISTANT,
    Role.TOOL: Kind.TOOL_RESULT,
}


class Item(Struct, frozen=True, kw_only=True):
    """One message of the view, with the entry it comes from and what it is likely to cost."""

    entry_id: EntryId
    message: Message
    kind: Kind
    units: int
    reasoning_units: int = 0

    @classmethod
    def of(
        cls,
        entry_id: EntryId,
        message: Message,
        kind: Kind | None = None,
        *,
        meter: Meter = text_units,
    ) -> "Item":
        """Make an item and estimate it once and for all."""
        return cls(
            entry_id=entry_id,
            message=message,
            kind=_KIND_OF_ROLE[message.role] if kind is None else kind,
            units=message_units(message, meter),
            reasoning_units=reasoning_units(message, meter),
        )


class Items(Sequence[Item]):
    """Items with running sums.

    Appending shares the storage of the shorter sequence: two sequences differ only in how
    far they look. Whoever appends to one that is no longer the longest gets a copy.
    """

    __slots__ = ("_length", "_store", "_sums", "past_reasoning", "totals")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._store = list(items)
        self._length = len(self._store)
        self._sums = [0]
        self.past_reasoning = 0
        """Units of thinking from before the user last spoke."""
        totals = [0] * len(Kind)
        for item in self._store:
            self._sums.append(self._sums[-1] + item.units)
            _count(totals, item)
            if item.kind is Kind.USER:
                self.past_reasoning = totals[Kind.REASONING]
        self.totals = tuple(totals)
        """Units by `Kind`; reasoning is counted apart from its message."""

    def append(self, item: Item) -> "Items":
        """Return the sequence that ends with `item`; this one is unchanged."""
        if len(self._store) != self._length:
            return Items((*self, item))
        self._store.append(item)
        self._sums.append(self._sums[-1] + item.units)
        totals = list(self.totals)
        _count(totals, item)
        longer = Items.__new__(Items)
        longer._store, longer._sums = self._store, self._sums
        longer._length, longer.totals = self._length + 1, tuple(totals)
        new_turn = item.kind is Kind.USER
        longer.past_reasoning = totals[Kind.REASONING] if new_turn else self.past_reasoning
        return longer

    def units(self, start: int = 0) -> int:
        """Return the units from index `start` to the end."""
        return self._sums[self._length] - self._sums[start]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            return self._store[start:stop:step]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._store[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Item]:
        return iter(self._store[: self._length])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash((self._length, self.totals))

    def __repr__(self) -> str:
        return f"Items({self._length} items, {self.units()} units)"


def _count(totals: list[int], item: Item) -> None:
    totals[item.kind] += item.units - item.reasoning_units
    totals[Kind.REASONING] += item.reasoning_units
