"""The names in a recording: what an agent goes on to need, and where it had come up.

What it needs is read off the arguments of its tool calls. A name is something that cannot be
guessed: a file, a hash, a long identifier.
"""

import re
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from clew.context.items import Item, ItemKind
from clew.context.passages import CALLED, render_text, split_passages
from clew.context.view import View
from clew.core.ids import EntryId
from clew.core.messages import Message, Role

ANSWERS_AHEAD = 60
"""How many answers after a compaction show what was needed."""

_NAME = re.compile(
    r"/(?P<file>[\w@+-][\w@+.-]*\.[A-Za-z0-9]{1,6})\b"
    r"|\b(?P<hash>(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,40})\b"
    r"|\b(?P<word>[A-Za-z_]\w{11,})\b"
)
_PLAIN_WORD = re.compile(r"[A-Za-z]?[a-z]+")


class Recall(Struct, frozen=True, kw_only=True):
    """How many names were needed after one compaction, and how many its view held."""

    needed: int
    found: int


def names_in(text: str) -> frozenset[str]:
    """Return the names in `text`: files without their folder, hashes, words of 12 and more."""
    return frozenset(match[match.lastgroup or 0] for match in _NAME.finditer(text))


def text_of(message: Message) -> str:
    """Return the words of one message, as `render_text` gives those of many."""
    return render_text([_item(message)])


class Names:
    """The names in the messages of one session, found once and only when asked for."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages

    def recall(self, view: View, *, since: int, now: int) -> Recall:
        """Judge the view that a compaction left before message `now`.

        Needed is what the next answers name and the messages from `since` on had named.
        """
        stood = frozenset[str]().union(*self._said[since:now])
        answers = [n for n in self._answers if n >= now][:ANSWERS_AHEAD]
        needed = stood.intersection(frozenset[str]().union(*(self._called[n] for n in answers)))
        text = f"{view.summary}\n{render_text(view.items)}"
        return Recall(needed=len(needed), found=sum(name in text for name in needed))

    def said(self, item: Item) -> frozenset[str]:
        """Return the names that an item of a view shows."""
        place = self._places.get(id(item.message))
        if place is not None:
            return self._said[place]
        if item.kind is ItemKind.SUMMARY:
            return names_in(item.message.text)
        return names_in(text_of(item.message))

    def sources(self, place: int) -> dict[str, int]:
        """Return the names in the calls of message `place` that had come up, and where last.

        A single word of plain language is left out: no one has to look it up.
        """
        return self._sources[place]

    @cached_property
    def _answers(self) -> list[int]:
        return [n for n, message in enumerate(self._messages) if message.role is Role.ASSISTANT]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(message): place for place, message in enumerate(self._messages)}

    @cached_property
    def _said(self) -> list[frozenset[str]]:
        return [names_in(text_of(message)) for message in self._messages]

    @cached_property
    def _called(self) -> list[frozenset[str]]:
        return [_called_names(message) for message in self._messages]

    @cached_property
    def _sources(self) -> list[dict[str, int]]:
        last: dict[str, int] = {}
        found = []
        for place, called in enumerate(self._called):
            found.append(
                {
                    name: last[name]
                    for name in sorted(called)
                    if name in last and not _PLAIN_WORD.fullmatch(name)
                }
            )
            last.update(dict.fromkeys(self._said[place], place))
        return found


def _called_names(message: Message) -> frozenset[str]:
    if not message.calls:
        return frozenset()
    quoted = split_passages([_item(message)])
    return names_in("\n".join(passage.text for passage in quoted if passage.source == CALLED))


def _item(message: Message) -> Item:
    """Make an item that is only read, never measured."""
    return Item(entry_id=EntryId(0), message=message, kind=ItemKind.USER, units=0)
