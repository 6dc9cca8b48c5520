"""Replay a log: rebuild the history and the requests, line by line."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clew.context.render import render
from clew.context.view import View, advance
from clew.core import entries as core
from clew.core.errors import StoreDamaged
from clew.core.ids import EntryId
from clew.core.messages import Message
from clew.log import events as log
from clew.log.content_store import content_hash, count_shared_prefix
from clew.log.reader import FaultCode, LogFault, LogLine, LogReader
from clew.providers.recorded_calls import RecordedRequest

_SETUP_CONTENTS = frozenset({"system", "tools"})
"""Fields of a setup entry that requests of earlier versions refer to."""


class _SentList(NamedTuple):
    owner: str
    items: Sequence[Any] | None
    """None when the log does not contain enough to rebuild the list."""


_EMPTY = _SentList("", ())


class ReplayState:
    """A session as its log describes it, after the lines that were read so far.

    Raises:
        ConfigError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.reader = LogReader(path)
        self.session_id = ""
        self.entries: list[core.Entry] = []
        self.view = View()
        self.added: core.Entry | None = None
        """The entry of the last line, if it has one."""
        self.contents: dict[str, Any] = {}
        """Messages and trees that the log contains so far, by hash."""
        self.sent: RecordedRequest | None = None
        """The messages of the last model call; None when they cannot be rebuilt."""
        self._ids: set[EntryId] = set()
        self._last = EntryId(0)
        self._previous: Sequence[Message] = ()
        """The messages of the last model call, if it belongs to the conversation."""
        self._turn = _EMPTY
        self._wire: dict[str, _SentList] = {}
        self._is_reliable = True
        """False once part of the history is missing; requests are no longer compared with it."""

    @property
    def history(self) -> list[Message]:
        """The conversation, as `Session.get_history` returns it."""
        return [item.message for item in self.view.items]

    @property
    def request(self) -> tuple[Message, ...]:
        """The messages of the next request."""
        return render(self.view)

    @property
    def faults(self) -> tuple[LogFault, ...]:
        """What is wrong with the lines that were read."""
        return tuple(self.reader.faults)

    def lines(self, *, until: int | None = None) -> Iterator[LogLine]:
        """Read the log up to the line with the number `until`; yields each line once applied."""
        for line in self.reader:
            if until is not None and line.seq > until:
                return
            self._apply(line)
            yield line

    def wire_list(self, field: str) -> list[Any]:
        """Return a list from the last HTTP request body."""
        return list(self._wire.get(field, _EMPTY).items or ())

    def _apply(self, line: LogLine) -> None:
        self.session_id = self.session_id or line.session_id
        self.added = None
        match line.event:
            case log.SessionInit(anew=anew):
                self._turn, self._wire, self._previous = _EMPTY, {}, ()
                if anew:
                    self.entries, self.view = [], View()
                    self._ids, self._last = set(), EntryId(0)
                    self._is_reliable = True
            case log.HistoryMutation():
                self._mutate(line.event, is_complete=line.is_complete)
            case log.ProviderRequest(content=content):
                self._learn(content, is_complete=line.is_complete)
                self._request(line.event)
            case log.NativePayload(payload_kind="request", content=content):
                self._learn(content, is_complete=line.is_complete)
                self._wire_request(line.event)
            case _:
                pass

    def _mutate(self, event: log.HistoryMutation, *, is_complete: bool) -> None:
        self._is_reliable = self._is_reliable and is_complete
        try:
            entry = core.decode(msgspec.json.encode(event.entry))
        except StoreDamaged as error:
            self._damage(FaultCode.HISTORY_ENTRY_INVALID, f"entry #{event.entry_id}: {error}")
            self._last = max(self._last, event.entry_id)
            return
        order = f"entry #{entry.id} follows entry #{self._last}"
        if entry.id <= self._last:
            self.reader.report(FaultCode.HISTORY_ENTRY_DUPLICATE, order)
            return
        if entry.id != self._last + 1:
            self._damage(FaultCode.HISTORY_ENTRY_GAP, order)
        if missing := sorted(set(_targets(entry.body)) - self._ids):
            text = f"entry #{entry.id} changes missing entries: #{', #'.join(map(str, missing))}"
            self._damage(FaultCode.HISTORY_TARGET_UNKNOWN, text)
        self._hold(event, entry, is_complete=is_complete)
        self.added = entry
        self.entries.append(entry)
        self._ids.add(entry.id)
        self._last = entry.id
        self.view = advance(self.view, self.entries)

    def _hold(self, event: log.HistoryMutation, entry: core.Entry, *, is_complete: bool) -> None:
        """Check the hash of an entry, and remember its contents."""
        body = event.entry["body"]
        hashed = body["message"] if isinstance(entry.body, core.MessageAdded) else body
        if is_complete and content_hash(hashed) != event.sha256:
            text = f"entry #{entry.id} does not match its hash"
            self._damage(FaultCode.CONTENT_SHA256_MISMATCH, text)
        if isinstance(entry.body, core.MessageAdded):
            self.contents[event.sha256] = entry.body.message
        elif isinstance(entry.body, core.SetupChanged):
            for name in _SETUP_CONTENTS & body.keys():
                self.contents[content_hash(body[name])] = body[name]

    def _learn(self, content: dict[str, Any], *, is_complete: bool) -> None:
        """Check the hashes of new contents, and remember them."""
        for name, tree in content.items():
            if is_complete and content_hash(tree) != name:
                text = f"the content {name} does not match its hash"
                self.reader.report(FaultCode.CONTENT_SHA256_MISMATCH, text)
            self.contents.setdefault(name, tree)

    def _request(self, event: log.ProviderRequest) -> None:
        owner, history = event.execution_id, self.request
        for name in filter(None, (event.system, event.tools)):
            self._find(name, owner)
        base = self._turn
        if event.messages.of == log.HISTORY:
            base = _SentList(log.HISTORY, history if self._is_reliable else None)
        try:
            messages = msgspec.convert(
                self._expand(event.messages, base, owner), tuple[Message, ...] | None
            )
        except msgspec.ValidationError:
            messages = None
        is_turn = event.purpose == log.TURN
        keep = count_shared_prefix(self._previous, messages or ()) if is_turn else 0
        self._previous = messages if messages and is_turn else ()
        self.sent = None
        if messages is not None:
            self.sent = RecordedRequest(keep=keep, new=messages[keep:])
        if is_turn:
            self._turn = _SentList(owner, messages)
            if self._is_reliable and messages is not None and messages != history:
                first = count_shared_prefix(messages, history) + 1
                text = f"{owner} differs from the history at message {first}"
                self.reader.report(FaultCode.REQUEST_HISTORY_MISMATCH, text)

    def _wire_request(self, event: log.NativePayload) -> None:
        owner = f"{event.execution_id}/{event.attempt}"
        for name in event.named.values():
            self._find(name, owner)
        for field, delta in event.lists.items():
            items = self._expand(delta, self._wire.get(field, _EMPTY), owner)
            self._wire[field] = _SentList(owner, items)

    def _expand(self, delta: log.PrefixDelta, last: _SentList, owner: str) -> list[Any] | None:
        """Rebuild a whole list from its difference to the last one; None when that fails."""
        new = [self._find(name, owner) for name in delta.new]
        base = last.items if delta.same and delta.of == last.owner else ()
        if base is None or None in new:
            return None
        if len(base) < delta.same:
            text = f"{owner} refers to {delta.same} elements of {delta.of}, which has {len(base)}"
            self.reader.report(FaultCode.REQUEST_BASE_INVALID, text)
            return None
        return [*base[: delta.same], *new]

    def _find(self, name: str, owner: str) -> Any:
        """Return a content; report it when no line contains it."""
        if name not in self.contents:
            text = f"{owner} refers to {name}, which no earlier line contains"
            self.reader.report(FaultCode.CONTENT_MISSING, text)
        return self.contents.get(name)

    def _damage(self, code: FaultCode, text: str) -> None:
        self._is_reliable = False
        self.reader.report(code, text)


def replay_log(path: Path, *, until: int | None = None) -> ReplayState:
    """Rebuild the history from the log at `path`, up to the line with the number `until`.

    Raises:
        ConfigError: The file cannot be opened.
    """
    state = ReplayState(path)
    for _ in state.lines(until=until):
        pass
    return state


def _targets(body: core.Body) -> Iterator[EntryId]:
    """Yield the entries that an entry changes."""
    match body:
        case core.Undone(target=target) | core.PinChanged(target=target):
            yield target
        case core.ReasoningDropped(targets=targets):
            yield from targets
        case core.ResultsCleared(replaced=replaced):
            yield from (change.entry_id for change in replaced)
        case core.Compacted(dropped=dropped, replaced=replaced):
            yield from dropped
            yield from (change.entry_id for change in replaced)
        case core.Rewound(before=int(before)):
            yield before
        case _:
            pass
