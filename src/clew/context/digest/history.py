"""The history of a conversation as its digests read it.

A digest needs something of every message, and the newest ones line by line. A `History`
remembers what it read, so the next digest of the same conversation reads only the messages
since. The result is that of reading all of them again.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from clew.context.digest.passages import (
    CALLED,
    Passage,
    collect_names,
    has_windows_path,
    read_passages,
)
from clew.context.digest.prose.agent_prose import ItemProse, read_prose
from clew.context.digest.state.state_ledger import StateLog
from clew.context.digest.turns.turn_log import TurnLog
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
        self._texts: _Texts = [], []
        """Those that were read last."""
        self._names: dict[str, set[str]] = {}
        """The names in parts of the last digest."""

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
        self._read(conversation[len(self._items) :] if self._items else conversation)
        self._items, self._sources = conversation, None

    def _read(self, new: Sequence[Item]) -> None:
        self.turns.extend(new)
        self.state.extend(new)

    def read_texts(self, items: Sequence[Item], more: Sequence[Item]) -> "_Texts":
        """Return the texts of `items` and of `more`; those of other messages are forgotten."""
        earlier, others = self._texts
        texts = _drop_beginning(earlier, items)
        known = {id(text.item): text for text in (others if texts else chain(earlier, others))}
        texts += [known.get(id(item)) or ItemText(item) for item in items[len(texts) :]]
        self._texts = texts, [known.get(id(item)) or ItemText(item) for item in more]
        return self._texts

    def collect_names(self, parts: Sequence[str]) -> set[str]:
        """Return the names in the lines of a digest; parts of the last one are not read again."""
        if any(map(has_windows_path, parts)):
            # Then no backslash begins an escape, in other parts neither.
            return collect_names("\n".join(parts))
        known = self._names
        self._names = {
            part: known[part] if part in known else collect_names(part) for part in parts
        }
        return set(chain.from_iterable(self._names.values()))


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


def _drop_beginning(texts: "Sequence[ItemText]", items: Sequence[Item]) -> "list[ItemText]":
    """Return the texts from that of the first item on, if they are those of the first items."""
    first = items[0] if items else None
    start = next((place for place, text in enumerate(texts) if text.item is first), len(texts))
    kept = [text.item for text in texts[start:]]
    return list(texts[start:]) if kept == list(items[: len(kept)]) else []


class ItemText(Struct, gc=False):
    """The text of one message, read once."""

    item: Item
    passages: list[Passage] | None = None
    labels: Sequence[str | None] = ()
    """What its results were labelled with, which depends on the calls that are read before it."""
    calls: Sequence[Passage] = ()
    """The passages of its calls, which have their labels."""
    prose: ItemProse | None = None

    def make_passages(self, shown_by: dict[CallId, str]) -> list[Passage]:
        """Read the passages; `shown_by` is that of `read_passages`."""
        item = self.item
        self.labels = list(map(shown_by.get, item.answers)) if item.answers else ()
        self.passages = made = read_passages(item, shown_by)
        if item.asks:
            self.calls = [one for one in made if one.source == CALLED]
        return made

    def read_prose(self) -> ItemProse:
        """Read the prose."""
        self.prose = made = read_prose(self.item)
        return made


_Texts: TypeAlias = tuple[list[ItemText], list[ItemText]]


def join_passages(texts: Iterable[ItemText]) -> list[Passage]:
    """Return the passages of consecutive messages."""
    found: list[Passage] = []
    shown_by: dict[CallId, str] = {}
    for text in texts:
        known, labels = text.passages, text.labels
        if known is None or (labels and list(map(shown_by.get, text.item.answers)) != labels):
            found += text.make_passages(shown_by)
            continue
        found += known
        for call in text.calls:
            shown_by[call.call_id] = call.label
    return found
