"""The history of a conversation as its digests read it.

A digest needs something of every message, and the newest ones line by line. A `History`
remembers what it read, so the next digest of the same conversation reads only the messages
since. The result is that of reading all of them again.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from clew.context.digest.agent_prose import ItemProse, read_prose
from clew.context.digest.passages import CALLED, Passage, read_passages
from clew.context.digest.state_ledger import StateLog
from clew.context.digest.turn_ledger import TurnLog
from clew.context.items import Item, Items
from clew.context.lazy_list import LazyMapping
from clew.context.view import View
from clew.core.ids import CallId, EntryId


class History:
    """A conversation that grows, and what digests know about it."""

    def __init__(self) -> None:
        self.turns = TurnLog()
        self.state = StateLog()
        self._items: list[Item] = []
        self._sources: _Sources | None = None
        """What the items were listed from."""
        self._texts: dict[int, ItemText] = {}
        """By the identity of items, which they hold."""

    def follow_view(self, view: View) -> list[Item]:
        """Follow the conversation of `view` and return it; quick if the view has only grown."""
        sources = _Sources(view.items, view.archived, view.originals)
        if self._sources is not None and sources.continue_from(self._sources):
            new = view.items[len(self._sources.items) :]
            if _are_newer(new, self._items[-1]):
                self._read(new)
                self._items += new
                self._sources = sources
                return self._items
        self.follow(view.list_conversation())
        self._sources = sources if self._items else None
        return self._items

    def follow(self, conversation: list[Item]) -> None:
        """Read the messages since the last time; all of them if earlier ones changed."""
        if conversation is self._items:
            return
        if conversation[: len(self._items)] != self._items:
            self._items, self.turns, self.state = [], TurnLog(), StateLog()
        self._read(conversation[len(self._items) :])
        self._items, self._sources = conversation, None

    def _read(self, new: Sequence[Item]) -> None:
        self.turns.extend(new)
        self.state.extend(new)

    def read_texts(self, items: Sequence[Item], more: Sequence[Item]) -> "_Texts":
        """Return the texts of `items` and of `more`; those of other messages are forgotten."""
        known = self._texts
        texts = [known.get(id(item)) or ItemText(item) for item in items]
        others = [known.get(id(item)) or ItemText(item) for item in more]
        self._texts = {id(text.item): text for text in chain(texts, others)}
        return texts, others


class _Sources(Struct, frozen=True):
    """What a conversation is listed from."""

    items: Items
    archived: Items
    originals: LazyMapping[EntryId, Item]

    def continue_from(self, earlier: "_Sources") -> bool:
        """Return whether messages were only added at the end since `earlier`."""
        return (
            self.archived is earlier.archived
            and self.originals is earlier.originals
            and self.items.continues(earlier.items)
        )


def _are_newer(items: Sequence[Item], last: Item) -> bool:
    """Return whether `items` follow `last` in the order of a conversation."""
    ids = [last.entry_id, *(item.entry_id for item in items)]
    return ids[0] > 0 and ids == sorted(ids)


class ItemText(Struct, gc=False):
    """The text of one message, read once."""

    item: Item
    _passages: list[Passage] | None = None
    _labels: Sequence[str | None] = ()
    """What its results were labelled with, which depends on the calls that are read before it."""
    _calls: Sequence[tuple[CallId, str]] = ()
    """The labels of its calls."""
    _prose: ItemProse | None = None

    def split_passages(self, shown_by: dict[CallId, str]) -> list[Passage]:
        """Return the passages; `shown_by` is that of `read_passages`."""
        item = self.item
        answers = item.answers
        labels = [shown_by.get(call_id) for call_id in answers] if answers else ()
        if self._passages is None or labels != self._labels:
            made = read_passages(item, shown_by)
            self._labels, self._passages = labels, made
            if item.asks:
                self._calls = [(one.call_id, one.label) for one in made if one.source == CALLED]
        elif self._calls:
            shown_by.update(self._calls)
        return self._passages

    def read_prose(self) -> ItemProse:
        """Return the prose."""
        if self._prose is None:
            self._prose = read_prose(self.item)
        return self._prose


_Texts: TypeAlias = tuple[list[ItemText], list[ItemText]]


def join_passages(texts: Iterable[ItemText]) -> list[Passage]:
    """Return the passages of consecutive messages."""
    found: list[Passage] = []
    shown_by: dict[CallId, str] = {}
    for text in texts:
        found += text.split_passages(shown_by)
    return found
