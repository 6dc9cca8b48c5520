"""Replay a log: rebuild the history and the requests, event by event."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
from clew.log.content_store import content_hash, shared_prefix
from clew.log.events import (
    HISTORY,
    SETUP_CONTENTS,
    HistoryMutation,
    LogEvent,
    NativePayload,
    PrefixDelta,
    ProviderRequest,
    SessionInit,
)
from clew.log.reader import FaultCode, LogFault, LogReader, ReportFault


class ReplayedLog(Struct, frozen=True, kw_only=True):
    """A session as its log describes it."""

    session_id: str = ""
    cwd: str = ""
    entries: tuple[Entry, ...] = ()
    view: View = View()
    faults: tuple[LogFault, ...] = ()

    @property
    def history(self) -> list[Message]:
        """The conversation, as `Session.get_history` returns it."""
        return [item.message for item in self.view.items]

    @property
    def request(self) -> tuple[Message, ...]:
        """The messages of the next request."""
        return render(self.view)


def replay_log(path: Path, *, until: int | None = None) -> ReplayedLog:
    """Rebuild the history from the log at `path`, up to the line with the number `until`.

    Raises:
        ConfigError: The file cannot be opened.
    """
    reader = LogReader(path)
    state = ReplayState(reader.report)
    session_id = cwd = ""
    for line in reader:
        if until is not None and line.seq > until:
            break
        session_id = session_id or line.session_id
        if isinstance(line.event, SessionInit):
            cwd = line.event.cwd
        if line.event is not None:
            state.apply(line.event, is_complete=line.is_complete)
    return ReplayedLog(
        session_id=session_id,
        cwd=cwd,
        entries=tuple(state.entries),
        view=state.view,
        faults=tuple(reader.faults),
    )


class SentMessages(Struct, frozen=True, kw_only=True):
    """The messages of a request: the first `keep` of the previous turn's request, then `new`."""

    keep: int
    new: tuple[Message, ...]


class _HashList(NamedTuple):
    owner: str
    hashes: list[str] | None
    """None when the log does not contain enough to rebuild the list."""


_EMPTY = _HashList("", [])


class ReplayState:
    """The state of a session after the events that were applied so far."""

    def __init__(self, report: ReportFault | None = None) -> None:
        self._report = report or _ignore
        self.contents = _Contents(self._report)
        self.entries: list[Entry] = []
        self.view = View()
        self.sent: SentMessages | None = None
        """The messages of the last request; None when they cannot be rebuilt."""
        self._ids: set[EntryId] = set()
        self._last = EntryId(0)
        self._rendered: tuple[Message, ...] = ()
        self._rendered_hashes: list[str] = []
        self._turn = _EMPTY
        self._wire: dict[str, _HashList] = {}
        self._is_reliable = True
        """False once part of the history is missing; requests are no longer compared with it."""

    def apply(self, event: LogEvent, *, is_complete: bool = True) -> None:
        """Apply the next event; an incomplete one has lost a payload."""
        match event:
            case SessionInit():
                self._start(event)
            case HistoryMutation():
                self._mutate(event, is_complete=is_complete)
            case ProviderRequest():
                self.contents.learn(event.content, is_complete=is_complete)
                self._request(event)
            case NativePayload(payload_kind="request"):
                self.contents.learn(event.content, is_complete=is_complete)
                self._wire_request(event)
            case _:
                pass

    def wire_list(self, field: str) -> list[Any]:
        """Return a list from the last HTTP request body."""
        return [self.contents.get(name) for name in self._wire.get(field, _EMPTY).hashes or []]

    def _start(self, event: SessionInit) -> None:
        self._turn, self._wire = _EMPTY, {}
        if event.anew:
            self.entries, self.view = [], View()
            self._ids, self._last = set(), EntryId(0)
            self._is_reliable = True

    def _mutate(self, event: HistoryMutation, *, is_complete: bool) -> None:
        self._is_reliable = self._is_reliable and is_complete
        try:
            entry = decode(msgspec.json.encode(event.entry))
        except StoreDamaged as error:
            self._report_damage(
                FaultCode.HISTORY_ENTRY_INVALID, f"entry #{event.entry_id}: {error}"
            )
            self._last = max(self._last, event.entry_id)
            return
        order = f"entry #{entry.id} follows entry #{self._last}"
        if entry.id <= self._last:
            self._report(FaultCode.HISTORY_ENTRY_DUPLICATE, order)
            return
        if entry.id != self._last + 1:
            self._report_damage(FaultCode.HISTORY_ENTRY_GAP, order)
        if missing := sorted(set(_targets(entry.body)) - self._ids):
            text = f"entry #{entry.id} changes missing entries: #{', #'.join(map(str, missing))}"
            self._report_damage(FaultCode.HISTORY_TARGET_UNKNOWN, text)
        self._hold(event, entry, is_complete=is_complete)
        self.entries.append(entry)
        self._ids.add(entry.id)
        self._last = entry.id
        self.view = advance(self.view, self.entries)

    def _hold(self, event: HistoryMutation, entry: Entry, *, is_complete: bool) -> None:
        """Check the hash of an entry, and remember its contents."""
        body = event.entry["body"]
        hashed = body["message"] if isinstance(entry.body, MessageAdded) else body
        if is_complete and content_hash(hashed) != event.sha256:
            text = f"entry #{entry.id} does not match its hash"
            self._report_damage(FaultCode.CONTENT_SHA256_MISMATCH, text)
        if isinstance(entry.body, MessageAdded):
            self.contents.hold(event.sha256, entry.body.message)
        elif isinstance(entry.body, SetupChanged):
            for name in SETUP_CONTENTS & body.keys():
                self.contents.hold(content_hash(body[name]), body[name])

    def _request(self, event: ProviderRequest) -> None:
        delta, owner = event.messages, event.execution_id
        history = self._render()
        hashes = self._expand(delta, self._turn, owner)
        for name in (event.system, event.tools, *delta.new):
            if name:
                self.contents.check(name, owner)
        messages = tuple(m for name in delta.new if (m := self.contents.message(name)) is not None)
        self.sent = None
        if len(messages) == len(delta.new) and hashes.hashes is not None:
            self.sent = SentMessages(keep=delta.same, new=messages)
            if delta.of == HISTORY:
                self.sent = SentMessages(keep=0, new=(*history[: delta.same], *messages))
        if event.purpose == "turn":
            self._turn = hashes
            if self._is_reliable and hashes.hashes not in (None, self._rendered_hashes):
                first = shared_prefix(hashes.hashes or [], self._rendered_hashes) + 1
                text = f"{owner} differs from the history at message {first}"
                self._report(FaultCode.REQUEST_HISTORY_MISMATCH, text)

    def _wire_request(self, event: NativePayload) -> None:
        owner = f"{event.execution_id}/{event.attempt}"
        for name in event.named.values():
            self.contents.check(name, owner)
        for field, delta in event.lists.items():
            self._wire[field] = self._expand(delta, self._wire.get(field, _EMPTY), owner)
            for name in delta.new:
                self.contents.check(name, owner)

    def _expand(self, delta: PrefixDelta, last: _HashList, owner: str) -> _HashList:
        """Rebuild a whole list from its difference to the last one."""
        base: list[str] | None = []
        if delta.of == HISTORY:
            base = self._rendered_hashes
        elif delta.same and delta.of == last.owner:
            base = last.hashes
        if base is None:
            return _HashList(owner, None)
        if len(base) < delta.same:
            text = f"{owner} refers to {delta.same} elements of {delta.of}, which has {len(base)}"
            self._report(FaultCode.REQUEST_BASE_INVALID, text)
            return _HashList(owner, None)
        return _HashList(owner, [*base[: delta.same], *delta.new])

    def _render(self) -> tuple[Message, ...]:
        """Render the view; only new messages are hashed."""
        history = render(self.view)
        same = shared_prefix(self._rendered, history)
        new = (self.contents.hash(message) for message in history[same:])
        self._rendered_hashes = [*self._rendered_hashes[:same], *new]
        self._rendered = history
        return history

    def _report_damage(self, code: FaultCode, text: str) -> None:
        self._is_reliable = False
        self._report(code, text)


class _Contents:
    """The contents that the log holds so far, by hash."""

    def __init__(self, report: ReportFault) -> None:
        self._report = report
        self._contents: dict[str, Any] = {}
        """Trees and messages."""
        self._hashes: dict[int, tuple[Message, str]] = {}

    def get(self, name: str) -> Any:
        """Return a content; None when no line contains it."""
        return self._contents.get(name)

    def message(self, name: str) -> Message | None:
        """Return a message; None when no line contains it."""
        found = self._contents.get(name)
        if found is None or isinstance(found, Message):
            return found
        try:
            return msgspec.convert(found, Message)
        except msgspec.ValidationError:
            return None

    def hash(self, message: Message) -> str:
        """Return the hash of a message."""
        known = self._hashes.get(id(message))
        if known is None:
            known = (message, content_hash(msgspec.to_builtins(message)))
            self._hashes[id(message)] = known
        return known[1]

    def hold(self, name: str, value: Any) -> None:
        """Remember a content of a history line."""
        self._contents[name] = value
        if isinstance(value, Message):
            self._hashes[id(value)] = (value, name)

    def learn(self, content: dict[str, Any], *, is_complete: bool) -> None:
        """Remember the contents of a request, and check their hashes."""
        for name, tree in content.items():
            if is_complete and content_hash(tree) != name:
                text = f"the content {name} does not match its hash"
                self._report(FaultCode.CONTENT_SHA256_MISMATCH, text)
            self._contents.setdefault(name, tree)

    def check(self, name: str, owner: str) -> None:
        """Report a content that no line contains."""
        if name not in self._contents:
            text = f"{owner} refers to {name}, which no earlier line contains"
            self._report(FaultCode.CONTENT_MISSING, text)


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


def _ignore(_code: FaultCode, _text: str) -> None:
    pass
