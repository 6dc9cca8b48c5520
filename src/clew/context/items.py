"""The messages of a view: an immutable sequence that grows by one in constant time."""

from bisect import bisect_left
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import accumulate, compress
from operator import attrgetter, not_
from typing import overload

from msgspec import Struct
from msgspec.structs import replace

from clew.context.estimate import (
    SAFE_FRAMING,
    Framing,
    Meter,
    cached_units,
    image_units,
    part_units,
    text_units,
)
from clew.context.lazy_list import LazyList
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message, Reasoning, Role, Text, ToolCall, ToolResult

_GROWTH = 1.1
_entry_id = attrgetter("entry_id")


class ItemKind(IntEnum):
    """The category of an item; also its index in the totals."""

    USER = 0
    ASSISTANT = 1
    TOOL_RESULT = 2
    SUMMARY = 3
    REASONING = 4
    """Only an index: thinking is part of an assistant message."""


_USER, _ASSISTANT, _TOOL_RESULT, _SUMMARY, _ = ItemKind
_KIND_OF_ROLE = {Role.USER: _USER, Role.ASSISTANT: _ASSISTANT, Role.TOOL: _TOOL_RESULT}


class Item(Struct, frozen=True, gc=False, kw_only=True):
    """One message of the view, with its entry and its estimated size."""

    entry_id: EntryId
    """Below 1 for a message without a journal entry."""
    message: Message
    kind: ItemKind
    units: int
    reasoning_units: int = 0
    asks: tuple[CallId, ...] = ()
    """Ids of the calls it makes."""
    answers: tuple[CallId, ...] = ()
    """Ids of the calls whose results it contains."""
    is_signed: bool = False
    """True if it contains thinking that its provider wants back."""

    @classmethod
    def of(
        cls,
        entry_id: EntryId,
        message: Message,
        kind: ItemKind | None = None,
        *,
        meter: Meter = text_units,
        framing: Framing = SAFE_FRAMING,
    ) -> "Item":
        """Make an item: analyses and measures the message once."""
        asks: tuple[CallId, ...] = ()
        answers: tuple[CallId, ...] = ()
        units, thinking, is_signed = framing.message, 0, False
        for part in message.parts:
            if type(part) is Text:
                units += meter(part.text)
            elif type(part) is ToolResult:
                units += meter(part.text) + framing.result
                if part.images:
                    units += sum(map(image_units, part.images))
                answers += (part.call_id,)
            elif type(part) is ToolCall:
                units += cached_units(meter, part.name) + meter(part.arguments) + framing.call
                asks += (part.call_id,)
            else:
                size = part_units(part, meter, framing)
                units += size
                if isinstance(part, Reasoning):
                    thinking += size
                    is_signed = is_signed or bool(part.signature or part.redacted)
        return cls(
            entry_id=entry_id,
            message=message,
            kind=_KIND_OF_ROLE[message.role] if kind is None else kind,
            units=units,
            reasoning_units=thinking,
            asks=asks,
            answers=answers,
            is_signed=is_signed,
        )


class Tally(Struct, gc=False):
    """Running totals of items, so no question needs a pass over all of them."""

    totals: list[int]
    """Units by `ItemKind`; reasoning is separate from its message."""
    turns: int = 0
    past_reasoning: int = 0
    """Units of thinking before the last user message."""
    mark: float = 0.0
    marked_at: int = 0
    """The length at which tool results last grew by a tenth; see `Items.has_new_results`."""
    answered_at: int = 0
    """The length at which the model last answered."""
    outgoing: int = 0
    """Number of messages that are sent: those that are not empty."""
    waiting: frozenset[CallId] = frozenset()
    """Calls of the last answer without a result."""
    is_matched: bool = True
    """False after a result without its call, another message before a result, a call id that is
    used twice, or a message of tool results without any."""

    def extend(self, items: Iterable[Item], length: int) -> None:
        """Add items; `length` is the length of the sequence before them."""
        asked, answered, results, summaries, thought = self.totals
        mark = self.mark
        waiting: Collection[CallId] = self.waiting
        self.outgoing -= length
        for item in items:
            length += 1
            kind, units = item.kind, item.units - item.reasoning_units
            thought += item.reasoning_units
            if kind is _TOOL_RESULT:
                results += units
                if results >= mark:
                    mark = results * _GROWTH
                    self.marked_at = length
            elif kind is _ASSISTANT:
                answered += units
                self.answered_at = length
            elif kind is _USER:
                asked += units
                self.turns += 1
                self.past_reasoning = thought
            else:
                summaries += units
            if not item.message.parts:
                self.outgoing -= 1
            elif kind is not _TOOL_RESULT:
                unanswered, waiting = waiting, item.asks
                if unanswered or (len(waiting) > 1 and len(waiting) > len(set(waiting))):
                    self.is_matched = False
            elif waiting and item.answers == waiting:
                waiting = ()
            else:
                waiting = self._answer(waiting, item.answers)
        self.totals[:] = asked, answered, results, summaries, thought
        self.mark, self.waiting = mark, frozenset(waiting)
        self.outgoing += length

    def _answer(self, waiting: Iterable[CallId], answers: tuple[CallId, ...]) -> frozenset[CallId]:
        """Return which calls still wait after a message with results."""
        asked, given = frozenset(waiting), frozenset(answers)
        if not answers or not given <= asked or len(given) < len(answers):
            self.is_matched = False
        return asked - given

    def copy(self) -> "Tally":
        """Return an independent copy."""
        return replace(self, totals=self.totals.copy())


class ItemIndex(Struct, frozen=True):
    """Ids and sums of a sequence of items, available without the items."""

    ids: list[EntryId]
    sums: list[int]
    """The units before each item, and the total; begins with 0."""


class _Index(Struct, gc=False):
    """What is computed from items: lists that longer sequences share, and their own totals."""

    ids: list[EntryId]
    sums: list[int]
    """The units before each item, and the total; begins with 0."""
    outgoing: list[Message] | LazyList[Message]
    tally: Tally

    @classmethod
    def of(cls, items: Sequence[Item]) -> "_Index":
        tally = Tally([0] * len(ItemKind))
        tally.extend(items, 0)
        outgoing = [item.message for item in items]
        if tally.outgoing < len(items) or tally.totals[_SUMMARY]:
            outgoing = [outgoing_message(item) for item in items if item.message.parts]
        return cls(
            ids=[item.entry_id for item in items],
            sums=list(accumulate([item.units for item in items], initial=0)),
            outgoing=outgoing,
            tally=tally,
        )

    def extend(self, items: Iterable[Item], length: int) -> "_Index":
        """Return the index of a longer sequence; `length` is that of this one."""
        ids, sums, outgoing, tally = self.ids, self.sums, self.outgoing, self.tally.copy()
        for item in items:
            ids.append(item.entry_id)
            sums.append(sums[-1] + item.units)
            if item.message.parts:
                outgoing.append(outgoing_message(item) if item.kind is _SUMMARY else item.message)
        tally.extend(items, length)
        return _Index(ids, sums, outgoing, tally)


class Items(Sequence[Item]):
    """An immutable sequence of items with running sums, which are computed on first use.

    Appending shares the storage of the shorter sequence: two sequences differ only in their
    length. Appending to a sequence that is empty or not the longest makes a copy.
    """

    __slots__ = ("_length", "_made", "_store")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._store: list[Item] | LazyList[Item] = list(items)
        self._length = len(self._store)
        self._made: _Index | None = None

    @classmethod
    def restore(
        cls,
        items: LazyList[Item],
        outgoing: LazyList[Message],
        *,
        known: "ItemIndex",
        tally: Tally,
    ) -> "Items":
        """Return items with known sums, without making any of them."""
        return cls._share(items, len(items), _Index(known.ids, known.sums, outgoing, tally))

    @classmethod
    def _share(
        cls, store: list[Item] | LazyList[Item], length: int, index: _Index | None
    ) -> "Items":
        made = cls.__new__(cls)
        made._store, made._length, made._made = store, length, index
        return made

    @property
    def _index(self) -> _Index:
        if self._made is None:
            self._made = _Index.of(self._store)
        return self._made

    def export_index(self) -> tuple["ItemIndex", Tally]:
        """Return the arguments of `restore` beside the messages."""
        known = ItemIndex(ids=self.ids, sums=self._index.sums[: self._length + 1])
        return known, self._index.tally

    def iter_made(self) -> Iterable[tuple[int, Item]]:
        """Yield the items that are made already, with their indices."""
        if isinstance(self._store, LazyList):
            return (
                (index, item) for index, item in self._store.iter_made() if index < self._length
            )
        return enumerate(self._store[: self._length])

    def append(self, item: Item) -> "Items":
        """Return the sequence that ends with `item`; this one is unchanged."""
        return self.extend((item,))

    def extend(self, items: Sequence[Item]) -> "Items":
        """Return the sequence that ends with `items`; this one is unchanged."""
        store, length = self._store, self._length
        if len(store) != length or not length:
            return Items((*self, *items))
        index = self._index.extend(items, length)
        store.extend(items)
        return self._share(store, length + len(items), index)

    def continues(self, other: "Items") -> bool:
        """Return whether these are the items of `other`, and perhaps more after them."""
        return self._store is other._store and self._length >= other._length

    def without(self, entries: Container[EntryId]) -> list[Item]:
        """Return the items that do not belong to `entries`."""
        return list(compress(self._store, map(not_, map(entries.__contains__, self.ids))))

    @property
    def ids(self) -> list[EntryId]:
        """The entries of the items."""
        return self._index.ids[: self._length]

    @property
    def totals(self) -> tuple[int, ...]:
        """Units by `ItemKind`; reasoning is separate from its message."""
        return tuple(self._index.tally.totals)

    @property
    def outgoing(self) -> list[Message]:
        """The messages as they are sent: a summary as a user message, no empty ones.

        Always the same objects, so encoders can cache them by identity.
        """
        index = self._index
        return index.outgoing[: index.tally.outgoing]

    @property
    def is_complete(self) -> bool:
        """True if every call has its result directly after it, and every result its call."""
        tally = self._index.tally
        return tally.is_matched and not tally.waiting

    @property
    def is_matched(self) -> bool:
        """True if results follow their calls, only the last calls lack them, and ids differ."""
        return self._index.tally.is_matched

    @property
    def is_valid(self) -> bool:
        """True if every provider takes the messages as they are; see `render.find_problems`."""
        starts = not self._length or self._store[0].kind is _USER
        return starts and self.is_complete and self._index.tally.outgoing == self._length

    @property
    def turns(self) -> int:
        """Number of user messages."""
        return self._index.tally.turns

    @property
    def past_reasoning(self) -> int:
        """Units of thinking before the last user message."""
        return self._index.tally.past_reasoning

    @property
    def has_new_results(self) -> bool:
        """True if tool results grew by a tenth since the model's last answer.

        A caller that checks all results only then has a constant cost per message, however
        long the conversation.
        """
        tally = self._index.tally
        return tally.marked_at > tally.answered_at

    def units(self, start: int = 0) -> int:
        """Return the units of the items from index `start` on."""
        sums = self._index.sums
        return sums[self._length] - sums[start]

    def find_start(self, units: int) -> int:
        """Return the first index from which on the items take at most `units`."""
        sums = self._index.sums
        return bisect_left(sums, sums[self._length] - units, hi=self._length)

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
        return hash((self._length, self.units()))

    def __repr__(self) -> str:
        return f"Items({self._length} items, {self.units()} units)"


NO_ITEMS = Items()
"""An empty sequence, which views share: nothing is ever added to its storage."""


def sort_items(items: Sequence[Item]) -> list[Item]:
    """Sort items by their entries; ids without an entry count down from -1."""
    return sorted(items, key=_entry_id, reverse=bool(items) and items[-1].entry_id < 0)


def outgoing_message(item: Item) -> Message:
    """Return the message of an item as it is sent: a summary as a user message."""
    if item.kind is _SUMMARY:
        return Message(role=Role.USER, parts=item.message.parts)
    return item.message
