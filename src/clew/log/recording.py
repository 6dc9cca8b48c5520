"""From a log or a journal to a tape: calls that can be answered again, and what came between."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from clew.context.render import render
from clew.context.view import View, advance
from clew.core import errors
from clew.core.entries import Entry, MessageAdded, SetupChanged
from clew.core.messages import Message, Reasoning, Role
from clew.core.models import ToolSpec
from clew.log.calls import ABORTED
from clew.log.events import (
    LogEvent,
    ProviderFailed,
    ProviderRequest,
    ResponseNormalized,
    ResponseRaw,
)
from clew.log.faults import Fault
from clew.log.reading import LogReader
from clew.log.walking import Walk
from clew.providers.protocol import Finished, StopReason
from clew.providers.recorded_calls import RecordedCall, RecordedRequest, Recording, to_chunks

_ENDED = "the recording ends in the middle of this call"
_BROKEN_OFF = "the answer was broken off here when it was recorded"


class Kept(Struct, frozen=True):
    """An entry that no call brought."""

    entry: Entry


class Asked(Struct, frozen=True):
    """A call of the conversation, and the entry that it brought, if any."""

    call: int
    """Its place among the calls of the conversation, from 0."""
    answer: Entry | None = None


Step: TypeAlias = Kept | Asked


class Tape(Struct, frozen=True, kw_only=True):
    """A session that can be run again."""

    session_id: str = ""
    recording: Recording
    steps: tuple[Step, ...]
    entries: tuple[Entry, ...]
    faults: tuple[Fault, ...] = ()


def tape_of_log(path: Path) -> Tape:
    """Make a tape of the log at `path`; one without requests is taken as a journal.

    Raises:
        ConfigError: There is no such log.
    """
    reader = LogReader(path)
    maker = _Maker(reader)
    session_id = ""
    for line in reader:
        session_id = session_id or line.session_id
        if line.event is not None:
            maker.take(line.event, is_whole=line.is_whole)
    entries = tuple(maker.walk.entries)
    faults = tuple(reader.faults)
    if not maker.calls:
        return replace(tape_of_journal(entries, session_id=session_id), faults=faults)
    return Tape(
        session_id=session_id,
        recording=Recording(calls=tuple(maker.recorded()), models=_models(entries)),
        steps=tuple(maker.steps),
        entries=entries,
        faults=faults,
    )


def tape_of_journal(entries: Iterable[Entry], *, session_id: str = "") -> Tape:
    """Make a tape of a journal: each answer in it is taken as that of one call.

    What a request held beside its messages is known only as far as the setup says it; calls
    that left no answer, and those for summaries, are not there. An answer that broke off amid
    tool calls is kept as it is: what became of those is each tool's own affair.
    """
    entries = tuple(entries)
    calls: list[RecordedCall] = []
    steps: list[Step] = []
    view = View()
    last: tuple[Message, ...] = ()
    seen: list[Entry] = []
    for entry in entries:
        body = entry.body
        if isinstance(body, MessageAdded) and _is_answer(body.message):
            sent = render(view)
            steps.append(Asked(len(calls), entry))
            calls.append(_journal_call(body, view.setup, sent, last))
            last = sent
        else:
            steps.append(Kept(entry))
        seen.append(entry)
        view = advance(view, seen)
    return Tape(
        session_id=session_id,
        recording=Recording(calls=tuple(calls), models=_models(entries)),
        steps=tuple(steps),
        entries=entries,
    )


def _journal_call(
    body: MessageAdded, setup: SetupChanged, sent: Sequence[Message], last: Sequence[Message]
) -> RecordedCall:
    keep = len(last) if sent[: len(last)] == last else 0
    message = body.message
    reason = StopReason.TOOL_CALLS if message.calls else StopReason.DONE
    finished = Finished(reason=reason, usage=body.usage, cost=body.cost)
    provider = _family(message)
    return RecordedCall(
        request=RecordedRequest(
            keep=keep,
            new=tuple(sent[keep:]),
            model=setup.model.name,
            system=setup.system or None,
            tools=setup.tools or None,
        ),
        chunks=to_chunks(message, None if message.interrupted else finished),
        error=errors.StreamBroken(_BROKEN_OFF, provider=provider) if message.interrupted else None,
        provider=provider,
    )


def _is_answer(message: Message) -> bool:
    return message.role is Role.ASSISTANT and not (message.interrupted and message.calls)


def _family(message: Message) -> str:
    """Return who wrote a message, as far as it bears marks of that."""
    marks = (part.provenance for part in message.parts if isinstance(part, Reasoning))
    return message.provenance or next((mark for mark in marks if mark), "replay")


def _models(entries: Iterable[Entry]) -> dict[str, Any]:
    bodies = (entry.body for entry in entries)
    return {body.model.name: body.model for body in bodies if isinstance(body, SetupChanged)}


class _Call(Struct):
    event: ProviderRequest
    request: RecordedRequest | None
    message: Message | None = None
    finished: Finished | None = None
    error: errors.ProviderError | None = None
    is_over: bool = False
    place: int = field(default=-1)
    """Among the calls of the conversation."""


class _Maker:
    """Takes a log event by event."""

    def __init__(self, reader: LogReader) -> None:
        self.walk = Walk(reader.fault)
        self.calls: dict[str, _Call] = {}
        self.steps: list[Step] = []
        self._turns = 0
        self._waiting: _Call | None = None
        """A call whose answer is not in the history yet."""
        self._is_known = True
        """False while the messages of a request cannot be made out."""

    def take(self, event: LogEvent, *, is_whole: bool) -> None:
        """Take the next event."""
        before = len(self.walk.entries)
        self.walk.take(event, is_whole=is_whole)
        for entry in self.walk.entries[before:]:
            self._entry(entry)
        if isinstance(event, ProviderRequest):
            self._request(event)
        elif isinstance(event, ResponseRaw | ResponseNormalized | ProviderFailed):
            call = self.calls.get(event.execution_id)
            if call is not None:
                self._answer(call, event)

    def recorded(self) -> list[RecordedCall]:
        """Return the calls in the order in which they were made."""
        return [_recorded(call) for call in self.calls.values()]

    def _request(self, event: ProviderRequest) -> None:
        sent = self.walk.sent
        is_turn = event.purpose == "turn"
        request = None
        if is_turn:
            self._is_known = sent is not None and (self._is_known or not sent.keep)
        if sent is not None and (self._is_known or not is_turn):
            request = RecordedRequest(
                keep=sent.keep,
                new=sent.new,
                model=event.model,
                system=self._content(event.system, str, ""),
                tools=self._content(event.tools, tuple[ToolSpec, ...], ()),
                head=event.head,
            )
        call = _Call(event=event, request=request)
        self.calls[event.execution_id] = call
        if is_turn:
            call.place = self._turns
            self._turns += 1
            self._settle()
            self._waiting = call

    def _content(self, name: str, kind: Any, empty: Any) -> Any:
        if not name:
            return empty
        found = self.walk.library.get(name)
        return None if found is None else msgspec.convert(found, kind)

    def _answer(
        self, call: _Call, event: ResponseRaw | ResponseNormalized | ProviderFailed
    ) -> None:
        match event:
            case ResponseRaw(finished=finished) if finished is not None:
                call.finished = msgspec.convert(finished, Finished)
            case ResponseRaw():
                pass
            case ResponseNormalized(message=message):
                call.message = message
                if event.stop_reason and call.finished is None:
                    call.finished = Finished(
                        reason=StopReason(event.stop_reason), usage=event.usage, cost=event.cost
                    )
                call.is_over = call.finished is not None
            case ProviderFailed():
                call.error = _error(event, call.event.provider)
                call.is_over = True
        if call.is_over and call is self._waiting and not (call.message and call.message.parts):
            self._settle()

    def _entry(self, entry: Entry) -> None:
        body = entry.body
        is_answer = isinstance(body, MessageAdded) and body.message.role is Role.ASSISTANT
        if is_answer and self._waiting is not None:
            self.steps.append(Asked(self._waiting.place, entry))
            self._waiting = None
        else:
            self.steps.append(Kept(entry))

    def _settle(self) -> None:
        """Note a call that brought no entry."""
        if self._waiting is not None:
            self.steps.append(Asked(self._waiting.place))
            self._waiting = None


def _recorded(call: _Call) -> RecordedCall:
    error = call.error
    if not call.is_over:
        error = errors.StreamBroken(_ENDED, provider=call.event.provider)
    message = call.message
    finished = None if error is not None else call.finished
    return RecordedCall(
        request=call.request,
        chunks=to_chunks(message, finished) if message else (),
        error=error,
        provider=call.event.provider,
        is_turn=call.event.purpose == "turn",
    )


def _error(event: ProviderFailed, provider: str) -> errors.ProviderError:
    """Make the error again that a call ended with."""
    if event.kind == ABORTED:
        return errors.StreamBroken(_BROKEN_OFF, provider=provider)
    kind = getattr(errors, event.kind, errors.ProviderError)
    if not (isinstance(kind, type) and issubclass(kind, errors.ProviderError)):
        kind = errors.ProviderError
    try:
        return kind(event.text, provider=provider, **event.fields)
    except TypeError:
        return errors.ProviderError(event.text, provider=provider)
