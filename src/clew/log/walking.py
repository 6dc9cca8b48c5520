"""Going through a log, event by event, with the history as it was at each point."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from clew.context.render import render
from clew.context.view import View, advance
from clew.core.entries import (
    Body,
    Compacted,
    Entry,
    MessageAdded,
    PinChanged,
    ReasoningDropped,
    ResultsCleared,
    Rewound,
    SetupChanged,
    Undone,
    decode,
)
from clew.core.errors import StoreDamaged
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.log.events import (
    HISTORY,
    HistoryMutation,
    LogEvent,
    NativePayload,
    ProviderRequest,
    SessionInit,
)
from clew.log.faults import Code
from clew.log.history import SETUP_FIELDS
from clew.log.library import NOTHING, Complain, Library, Names
from clew.log.outline import content_name


class Sent(Struct, frozen=True, kw_only=True):
    """The messages of a request: those of the last turn's request up to `keep`, then `new`."""

    keep: int
    new: tuple[Message, ...]


class Walk:
    """What a log leads to, up to the event that was last taken."""

    def __init__(self, complain: Complain | None = None) -> None:
        self._complain = complain or _ignore
        self.library = Library(self._complain)
        self.entries: list[Entry] = []
        self.view = View()
        self.sent: Sent | None = None
        """The messages of the last request; None when they cannot be made out."""
        self._ids: set[EntryId] = set()
        self._last = EntryId(0)
        self._turn: Names = NOTHING
        self._native: dict[str, Names] = {}
        self._match = _Match(self.library)
        self._is_sure = True
        """False once the history is known not to be all there: it is no measure any more."""

    def take(self, event: LogEvent, *, is_whole: bool = True) -> None:
        """Take the next event; one that is not whole has lost some of its text."""
        match event:
            case SessionInit():
                self._begin(event)
            case HistoryMutation():
                self._change(event, is_whole=is_whole)
            case ProviderRequest():
                self._request(event, is_whole=is_whole)
            case NativePayload(payload_kind="request"):
                self._wire(event, is_whole=is_whole)
            case _:
                pass

    def native_list(self, field: str) -> list[Any]:
        """Return a list of the last request that went over the wire."""
        names = self._native.get(field, NOTHING)[1]
        return [self.library.get(name) for name in names or []]

    def _begin(self, event: SessionInit) -> None:
        self._turn, self._native = NOTHING, {}
        if event.anew:
            self.entries, self.view = [], View()
            self._ids, self._last = set(), EntryId(0)
            self._is_sure = True

    def _change(self, event: HistoryMutation, *, is_whole: bool) -> None:
        self._is_sure = self._is_sure and is_whole
        try:
            entry = decode(msgspec.json.encode(event.entry))
        except StoreDamaged as error:
            self._doubt(Code.HISTORY_ENTRY_INVALID, f"entry #{event.entry_id}: {error}")
            self._last = max(self._last, event.entry_id)
            return
        after = f"entry #{entry.id} stands after #{self._last}"
        if entry.id <= self._last:
            self._complain(Code.HISTORY_ENTRY_DUPLICATE, after)
            return
        if entry.id != self._last + 1:
            self._doubt(Code.HISTORY_ENTRY_GAP, after)
        lost = sorted(target for target in _targets(entry.body) if target not in self._ids)
        if lost:
            text = f"entry #{entry.id} changes #{', #'.join(map(str, lost))}, which is not there"
            self._doubt(Code.HISTORY_TARGET_UNKNOWN, text)
        self._hold(event, entry, is_whole=is_whole)
        self.entries.append(entry)
        self._ids.add(entry.id)
        self._last = entry.id
        self.view = advance(self.view, self.entries)

    def _hold(self, event: HistoryMutation, entry: Entry, *, is_whole: bool) -> None:
        """Remember the contents of an entry, and see whether they are what their name says."""
        body = event.entry["body"]
        named = body["message"] if isinstance(entry.body, MessageAdded) else body
        if is_whole and content_name(named) != event.sha256:
            self._doubt(Code.CONTENT_SHA256_MISMATCH, f"entry #{entry.id} was changed")
        if isinstance(entry.body, MessageAdded):
            self.library.hold(event.sha256, entry.body.message)
        elif isinstance(entry.body, SetupChanged):
            for field in SETUP_FIELDS:
                if field in body:
                    self.library.hold(content_name(body[field]), body[field])

    def _request(self, event: ProviderRequest, *, is_whole: bool) -> None:
        library, outline, place = self.library, event.messages, event.execution_id
        library.learn(event.content, is_whole=is_whole)
        for name in filter(None, (event.system, event.tools)):
            library.check(name, place)
        history = render(self.view)
        names = library.spelt_out(outline, self._turn, place, history=history)
        found = [library.message(name) for name in outline.new if library.check(name, place)]
        messages = tuple(message for message in found if message is not None)
        self.sent = None
        if len(messages) == len(outline.new) and names[1] is not None:
            self.sent = Sent(keep=outline.same, new=messages)
            if outline.of == HISTORY:
                self.sent = Sent(keep=0, new=(*history[: outline.same], *messages))
        if event.purpose == "turn":
            self._turn = names
            first = self._match.first_difference(names[1], history, same=outline.same)
            if first is not None and self._is_sure:
                text = f"{place} differs from the history at message {first + 1}"
                self._complain(Code.REQUEST_HISTORY_MISMATCH, text)

    def _wire(self, event: NativePayload, *, is_whole: bool) -> None:
        self.library.learn(event.content, is_whole=is_whole)
        place = f"{event.execution_id}/{event.attempt}"
        for name in event.named.values():
            self.library.check(name, place)
        for field, outline in event.lists.items():
            last = self._native.get(field, NOTHING)
            self._native[field] = self.library.spelt_out(outline, last, place)
            for name in outline.new:
                self.library.check(name, place)

    def _doubt(self, code: Code, text: str) -> None:
        self._is_sure = False
        self._complain(code, text)


class _Match:
    """Compares requests with the history; only what is new is looked at."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._agreed: tuple[Message, ...] = ()

    def first_difference(
        self, names: Sequence[str] | None, history: tuple[Message, ...], *, same: int
    ) -> int | None:
        """Return the first place that differs; None when none does, or nobody can know."""
        done = len(self._agreed)
        if same < done or history[:done] != self._agreed:
            done = 0
        self._agreed = ()
        if names is None:
            return None
        wanted = [self._library.name(message) for message in history[done:]]
        if len(names) == len(history) and names[done:] == wanted:
            self._agreed = history
            return None
        pairs = zip(names[done:], wanted, strict=False)
        least = min(len(names), len(history))
        return next((n for n, (a, b) in enumerate(pairs, done) if a != b), least)


def _targets(body: Body) -> Iterator[EntryId]:
    """Yield the entries that an entry changes."""
    match body:
        case Undone(target=target) | PinChanged(target=target):
            yield target
        case ReasoningDropped(targets=targets):
            yield from targets
        case ResultsCleared(replaced=replaced):
            yield from (change.entry_id for change in replaced)
        case Compacted(dropped=dropped, replaced=replaced):
            yield from dropped
            yield from (change.entry_id for change in replaced)
        case Rewound(before=int(before)):
            yield before
        case _:
            pass


def _ignore(_code: Code, _text: str) -> None:
    pass
