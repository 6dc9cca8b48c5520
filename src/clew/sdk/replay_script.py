"""Read a recorded session as a script: calls to repeat, and the entries between them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.context.render import render
from clew.context.view import View, advance
from clew.core import errors
from clew.core.entries import Entry, MessageAdded, SetupChanged, decode
from clew.core.messages import Message, Reasoning, Role
from clew.core.models import ToolSpec
from clew.importers.journal import build_journal
from clew.importers.reader import read_session
from clew.log.events import (
    ABORTED,
    TURN,
    LogEvent,
    ProviderFailed,
    ProviderRequest,
    ResponseNormalized,
    ResponseRaw,
)
from clew.log.reader import LogFault, is_log
from clew.log.replay_state import ReplayState
from clew.providers.protocol import Finished, StopReason
from clew.providers.recorded_calls import RecordedCall, RecordedRequest, Recording, to_chunks

_UNFINISHED = "the recording ends during this call"
_INTERRUPTED = "the response was interrupted here when it was recorded"


class AppendEntry(Struct, frozen=True):
    """Append an entry that no call produced."""

    entry: Entry


class RepeatCall(Struct, frozen=True):
    """Repeat a call of the conversation."""

    call: int
    """Its index among the calls of the conversation."""
    answer: Entry | None = None
    """The entry that it produced, if any."""


ReplayStep: TypeAlias = AppendEntry | RepeatCall


class ReplayScript(Struct, frozen=True, kw_only=True):
    """A recorded session that `clew.sdk.replay.replay_session` can run."""

    session_id: str = ""
    recording: Recording
    steps: tuple[ReplayStep, ...]
    entries: tuple[Entry, ...]
    faults: tuple[LogFault, ...] = ()


def read_replay_script(path: Path) -> ReplayScript:
    """Read a session log, an exported journal, or a recording of another tool.

    Raises:
        ConfigError: The file cannot be read, or has an unknown format.
    """
    if is_log(path):
        return script_from_log(path)
    entries = _read_journal(path)
    if entries:
        return script_from_journal(entries, session_id=path.stem)
    session = read_session(path)
    return script_from_journal(build_journal(session), session_id=session.id or path.stem)


def script_from_log(path: Path) -> ReplayScript:
    """Read the log at `path`; a log without model calls is used as a journal.

    Raises:
        ConfigError: The file cannot be opened.
    """
    state = ReplayState(path)
    builder = _ScriptBuilder(state)
    for line in state.lines():
        builder.add(line.event)
    entries, faults, session_id = tuple(state.entries), state.faults, state.session_id
    if not builder.calls:
        return replace(script_from_journal(entries, session_id=session_id), faults=faults)
    calls = tuple(call.to_recorded() for call in builder.calls.values())
    return ReplayScript(
        session_id=session_id,
        recording=Recording(calls=calls, models=_models(entries)),
        steps=tuple(builder.steps),
        entries=entries,
        faults=faults,
    )


def script_from_journal(entries: Iterable[Entry], *, session_id: str = "") -> ReplayScript:
    """Use a journal: each response in it counts as one call.

    The setup entries are all that is known about the other fields of a request. Failed calls and
    calls for summaries are missing. A response that was interrupted during its tool calls is
    appended unchanged, because each tool decided for itself how to end.
    """
    entries = tuple(entries)
    calls: list[RecordedCall] = []
    steps: list[ReplayStep] = []
    view = View()
    last: tuple[Message, ...] = ()
    seen: list[Entry] = []
    for entry in entries:
        body = entry.body
        if isinstance(body, MessageAdded) and _is_complete_answer(body.message):
            sent = render(view)
            steps.append(RepeatCall(len(calls), entry))
            calls.append(_call_from_entry(body, view.setup, sent, last))
            last = sent
        else:
            steps.append(AppendEntry(entry))
        seen.append(entry)
        view = advance(view, seen)
    return ReplayScript(
        session_id=session_id,
        recording=Recording(calls=tuple(calls), models=_models(entries)),
        steps=tuple(steps),
        entries=entries,
    )


def _call_from_entry(
    body: MessageAdded, setup: SetupChanged, sent: Sequence[Message], last: Sequence[Message]
) -> RecordedCall:
    keep = len(last) if sent[: len(last)] == last else 0
    message = body.message
    reason = StopReason.TOOL_CALLS if message.calls else StopReason.DONE
    finished = Finished(reason=reason, usage=body.usage, cost=body.cost)
    provider = _provider_of(message)
    error = errors.StreamBroken(_INTERRUPTED, provider=provider)
    return RecordedCall(
        request=RecordedRequest(
            keep=keep,
            new=tuple(sent[keep:]),
            model=setup.model.name,
            system=setup.system or None,
            tools=setup.tools or None,
        ),
        chunks=to_chunks(message, None if message.interrupted else finished),
        error=error if message.interrupted else None,
        provider=provider,
    )


def _is_complete_answer(message: Message) -> bool:
    return message.role is Role.ASSISTANT and not (message.interrupted and message.calls)


def _provider_of(message: Message) -> str:
    """Return the provider that wrote a message, if the message shows it."""
    marks = (part.provenance for part in message.parts if isinstance(part, Reasoning))
    return message.provenance or next((mark for mark in marks if mark), "replay")


def _models(entries: Iterable[Entry]) -> dict[str, Any]:
    bodies = (entry.body for entry in entries)
    return {body.model.name: body.model for body in bodies if isinstance(body, SetupChanged)}


class _LoggedCall(Struct, kw_only=True):
    provider: str
    request: RecordedRequest | None
    index: int | None
    """Among the calls of the conversation; None for a call beside it."""
    message: Message | None = None
    finished: Finished | None = None
    error: errors.ProviderError | None = None

    @property
    def is_over(self) -> bool:
        return self.error is not None or (self.message is not None and self.finished is not None)

    def add(self, event: ResponseRaw | ResponseNormalized | ProviderFailed) -> None:
        match event:
            case ResponseRaw(finished=finished):
                if finished is not None:
                    self.finished = msgspec.convert(finished, Finished)
            case ResponseNormalized():
                self.message = event.message
                if event.stop_reason and self.finished is None:
                    reason = StopReason(event.stop_reason)
                    self.finished = Finished(reason=reason, usage=event.usage, cost=event.cost)
            case ProviderFailed():
                self.error = _to_error(event, self.provider)

    def to_recorded(self) -> RecordedCall:
        error = self.error
        if not self.is_over:
            error = errors.StreamBroken(_UNFINISHED, provider=self.provider)
        finished = None if error is not None else self.finished
        return RecordedCall(
            request=self.request,
            chunks=to_chunks(self.message, finished) if self.message else (),
            error=error,
            provider=self.provider,
            is_turn=self.index is not None,
        )


class _ScriptBuilder:
    """Builds a script from the events of a log."""

    def __init__(self, state: ReplayState) -> None:
        self._state = state
        self.calls: dict[str, _LoggedCall] = {}
        self.steps: list[ReplayStep] = []
        self._turns = 0
        self._waiting: _LoggedCall | None = None
        """A call whose response is not in the history yet."""
        self._is_known = True
        """False while the messages of requests cannot be rebuilt."""

    def add(self, event: LogEvent | None) -> None:
        """Add the event that the state applied last."""
        if self._state.added is not None:
            self._add_entry(self._state.added)
        if isinstance(event, ProviderRequest):
            self._add_request(event)
        elif isinstance(event, ResponseRaw | ResponseNormalized | ProviderFailed):
            call = self.calls.get(event.execution_id)
            if call is not None:
                call.add(event)
                has_answer = call.message is not None and call.message.parts
                if call is self._waiting and call.is_over and not has_answer:
                    self._settle()

    def _add_request(self, event: ProviderRequest) -> None:
        sent = self._state.sent
        is_turn = event.purpose == TURN
        request = None
        if is_turn:
            self._is_known = sent is not None and (self._is_known or not sent.keep)
        if sent is not None and (self._is_known or not is_turn):
            request = replace(
                sent,
                model=event.model,
                system=self._content(event.system, str, ""),
                tools=self._content(event.tools, tuple[ToolSpec, ...], ()),
                head=event.head,
            )
        index = self._turns if is_turn else None
        call = _LoggedCall(provider=event.provider, request=request, index=index)
        self.calls[event.execution_id] = call
        if is_turn:
            self._turns += 1
            self._settle()
            self._waiting = call

    def _content(self, name: str, kind: Any, empty: Any) -> Any:
        if not name:
            return empty
        found = self._state.contents.get(name)
        return None if found is None else msgspec.convert(found, kind)

    def _add_entry(self, entry: Entry) -> None:
        body = entry.body
        is_answer = isinstance(body, MessageAdded) and body.message.role is Role.ASSISTANT
        if is_answer and self._waiting is not None and self._waiting.index is not None:
            self.steps.append(RepeatCall(self._waiting.index, entry))
            self._waiting = None
        else:
            self.steps.append(AppendEntry(entry))

    def _settle(self) -> None:
        """Add a call that produced no entry."""
        if self._waiting is not None and self._waiting.index is not None:
            self.steps.append(RepeatCall(self._waiting.index))
        self._waiting = None


def _to_error(event: ProviderFailed, provider: str) -> errors.ProviderError:
    """Restore the error that ended a call."""
    if event.kind == ABORTED:
        return errors.StreamBroken(_INTERRUPTED, provider=provider)
    kind = getattr(errors, event.kind, errors.ProviderError)
    if not (isinstance(kind, type) and issubclass(kind, errors.ProviderError)):
        kind = errors.ProviderError
    try:
        return kind(event.text, provider=provider, **event.fields)
    except TypeError:
        return errors.ProviderError(event.text, provider=provider)


def _read_journal(path: Path) -> list[Entry]:
    """Read an exported journal; returns nothing for any other file."""
    try:
        lines = path.read_bytes().splitlines()
        return [decode(line) for line in lines if line.strip()]
    except (errors.StoreDamaged, OSError):
        return []
