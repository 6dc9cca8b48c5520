"""Measure what a compacted view forgets: the names that the agent needs afterwards.

A name is something that cannot be guessed: a file, a hash, a long identifier. The arguments of
later tool calls show which names the agent needs. A recorded agent acts as if it still saw
everything, so a simulation with lookups adds a call before each call that uses a forgotten name;
the result of that call brings the name back into the view.
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import msgspec
from msgspec import Struct

from clew.context.digest.passages import CALLED, render_text, split_passages
from clew.context.items import Item, ItemKind
from clew.context.recall import RECALL
from clew.context.view import View
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message, Role, ToolCall, assistant, tool_result

ANSWERS_AHEAD = 60
"""How many responses after a compaction show what was needed."""

_PAGE = 12_000
"""The number of characters that one lookup returns."""
_NAME = re.compile(
    r"/(?P<file>[\w@+-][\w@+.-]*\.[A-Za-z0-9]{1,6})\b"
    r"|\b(?P<hash>(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,40})\b"
    r"|\b(?P<word>[A-Za-z_]\w{11,})\b"
)
_PLAIN_WORD = re.compile(r"[A-Za-z]?[a-z]+")


class RecallScore(Struct, frozen=True, kw_only=True):
    """How many names were needed after one compaction, and which the view did not contain."""

    needed: int
    lost: tuple[str, ...] = ()

    @property
    def found(self) -> int:
        """How many of them the view contained."""
        return self.needed - len(self.lost)


def find_names(text: str) -> frozenset[str]:
    """Return the names in `text`: file names, hashes, and words of 12 or more characters."""
    return frozenset(match[match.lastgroup or 0] for match in _NAME.finditer(text))


def message_text(message: Message) -> str:
    """Return the text of one message, as `render_text` formats it."""
    return render_text([_item(message)])


class SessionNames:
    """The names in the messages of one session, computed on first use."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages

    def recall(self, view: View, *, since: int, now: int) -> RecallScore:
        """Score the view after a compaction before message `now`.

        A name is needed when the next responses use it and a message since `since` contains it.
        """
        seen = frozenset[str]().union(*self._names[since:now])
        answers = [n for n in self._answers if n >= now][:ANSWERS_AHEAD]
        needed = seen.intersection(frozenset[str]().union(*(self._called[n] for n in answers)))
        text = f"{view.summary}\n{render_text(view.items)}"
        lost = sorted(name for name in needed if name not in text)
        return RecallScore(needed=len(needed), lost=tuple(lost))

    def names_of(self, item: Item) -> frozenset[str]:
        """Return the names in an item of a view."""
        index = self._indexes.get(id(item.message))
        if index is not None:
            return self._names[index]
        if item.kind is ItemKind.SUMMARY:
            return find_names(item.message.text)
        return find_names(message_text(item.message))

    def sources(self, index: int) -> dict[str, int]:
        """Return the names in the calls of message `index`, and the last message with each.

        Plain words are skipped, because an agent does not need to look them up.
        """
        return self._sources[index]

    @cached_property
    def _answers(self) -> list[int]:
        return [n for n, message in enumerate(self._messages) if message.role is Role.ASSISTANT]

    @cached_property
    def _indexes(self) -> dict[int, int]:
        return {id(message): index for index, message in enumerate(self._messages)}

    @cached_property
    def _names(self) -> list[frozenset[str]]:
        return [find_names(message_text(message)) for message in self._messages]

    @cached_property
    def _called(self) -> list[frozenset[str]]:
        return [_find_called_names(message) for message in self._messages]

    @cached_property
    def _sources(self) -> list[dict[str, int]]:
        last: dict[str, int] = {}
        found = []
        for index, called in enumerate(self._called):
            found.append(
                {
                    name: last[name]
                    for name in sorted(called)
                    if name in last and not _PLAIN_WORD.fullmatch(name)
                }
            )
            last.update(dict.fromkeys(self._names[index], index))
        return found


def _find_called_names(message: Message) -> frozenset[str]:
    if not message.calls:
        return frozenset()
    quoted = split_passages([_item(message)])
    return find_names("\n".join(passage.text for passage in quoted if passage.source == CALLED))


def _item(message: Message) -> Item:
    """Create an item for reading; its size is not set."""
    return Item(entry_id=EntryId(0), message=message, kind=ItemKind.USER, units=0)


class LookupModel:
    """Adds the lookups that an agent would need; tracks the names in the view incrementally."""

    def __init__(self, names: SessionNames, messages: Sequence[Message]) -> None:
        self._index = names
        self._messages = messages
        self._shown: Counter[str] = Counter()
        self._items: dict[int, Item] = {}
        self._lookups = 0

    def look_up(self, view: View, index: int) -> list[Message]:
        """Return a message with Recall calls and their results, for the names that are missing.

        Empty when the view contains all names that message `index` needs.
        """
        sources = self._index.sources(index)
        if not sources:
            return []
        self._update(view)
        missing = {source: name for name, source in sources.items() if not self._shown[name]}
        if not missing:
            return []
        pages = [self._page(source, missing[source]) for source in sorted(missing)]
        calls = [self._call(source) for source in sorted(missing)]
        answers = [tool_result(call, page) for call, page in zip(calls, pages, strict=True)]
        return [assistant(*calls), *answers]

    def _update(self, view: View) -> None:
        now = {id(item): item for item in view.items}
        for key in self._items.keys() - now.keys():
            self._shown.subtract(self._index.names_of(self._items[key]))
        for key in now.keys() - self._items.keys():
            self._shown.update(self._index.names_of(now[key]))
        self._items = now

    def _call(self, source: int) -> ToolCall:
        self._lookups += 1
        arguments = msgspec.json.encode({"entry": source}).decode()
        return ToolCall(call_id=CallId(f"lookup_{self._lookups}"), name=RECALL, arguments=arguments)

    def _page(self, source: int, name: str) -> str:
        text = message_text(self._messages[source])
        start = max(0, text.find(name)) // _PAGE * _PAGE
        return text[start : start + _PAGE]
