"""From what a screen is told to what a log says."""

from typing import Any

import msgspec
from msgspec import Struct, field

from clew.core.entries import Entry, MessageAdded
from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    ContextUpdated,
    Event,
    RunCompleted,
    RunInterrupted,
    ServerToolEnded,
    ServerToolStarted,
    ToolEnded,
    ToolStarted,
    Warned,
)
from clew.core.events import RunFailed as RunFailedEvent
from clew.core.ids import CallId, EntryId
from clew.core.messages import Role
from clew.log.events import (
    Assistant,
    CompactFailed,
    ContextCompact,
    ContextReading,
    LogEvent,
    Notice,
    RunFailed,
    ServerTool,
    ToolBatch,
    ToolCommitted,
    ToolOutcome,
    ToolRequest,
)


class _Result(Struct, frozen=True):
    entry_id: EntryId
    texts: tuple[str | None, ...]
    """What the model reads, and what it was cut from: no need to write either again."""


class Teller(Struct, kw_only=True):
    """Knows what must be remembered from one event to the next."""

    run: int = 0
    round: int = 0
    execution_id: str = ""
    """The last call that the conversation made."""
    max_concurrency: int = 1
    answer: EntryId = EntryId(0)
    """The last answer's entry."""
    indexes: dict[CallId, int] = field(default_factory=dict)
    """Where in its batch each running call stands."""
    results: dict[CallId, _Result] = field(default_factory=dict)
    """Results that are committed and not announced yet."""

    def begin(self) -> None:
        """Count another run."""
        self.run += 1
        self.round = 0

    def entry(self, entry: Entry) -> list[LogEvent]:
        """Return what follows from an entry, beside the change to the history."""
        body = entry.body
        if not isinstance(body, MessageAdded):
            return []
        message = body.message
        if message.role is Role.ASSISTANT:
            self.answer = entry.id
            return [self._batch(entry)] if message.calls and not message.interrupted else []
        told: list[LogEvent] = []
        for result in message.results:
            self.results[result.call_id] = _Result(entry.id, (result.text, body.full_text))
            told.append(ToolCommitted(call_id=result.call_id, tool=result.name, entry_id=entry.id))
        return told

    def event(self, event: Event, *, messages: int) -> LogEvent | None:
        """Return what to say of an event; None for one that is for screens alone."""
        match event:
            case ToolStarted() | ToolEnded():
                return self._tool(event)
            case ServerToolStarted(call_id=call_id, name=name, arguments=query):
                return ServerTool(call_id=call_id, tool=name, query=query)
            case ServerToolEnded(call_id=call_id, name=name, text=text, failed=failed):
                return ServerTool(
                    call_id=call_id, tool=name, ended=True, result=text, failed=failed
                )
            case RunCompleted(result=result):
                return Assistant(
                    run=self.run,
                    text=result.response,
                    stop_reason=result.stop_reason,
                    usage=result.last_call,
                    entry_id=self.answer,
                    messages=messages,
                )
            case RunInterrupted():
                return RunFailed(run=self.run, text="", interrupted=True)
            case RunFailedEvent(message=message):
                return RunFailed(run=self.run, text=message)
            case _:
                return _plain(event)

    def _batch(self, entry: Entry) -> ToolBatch:
        assert isinstance(entry.body, MessageAdded)  # noqa: S101 - see `entry`
        calls = entry.body.message.calls
        self.indexes = {call.call_id: place for place, call in enumerate(calls)}
        self.results.clear()
        return ToolBatch(
            run=self.run,
            round=self.round,
            execution_id=self.execution_id,
            max_concurrency=self.max_concurrency,
            count=len(calls),
            tools=tuple(call.name for call in calls),
            call_ids=tuple(call.call_id for call in calls),
        )

    def _tool(self, event: ToolStarted | ToolEnded) -> LogEvent:
        index = self.indexes.get(event.call_id, 0)
        if isinstance(event, ToolStarted):
            return ToolRequest(
                run=self.run,
                round=self.round,
                call_id=event.call_id,
                tool=event.name,
                parameters=_parameters(event.arguments),
                index=index,
            )
        known = self.results.pop(event.call_id, _Result(EntryId(0), ()))
        return ToolOutcome(
            run=self.run,
            round=self.round,
            call_id=event.call_id,
            tool=event.name,
            success=not event.failed,
            denied=event.denied,
            error_code=event.error_code,
            display="" if event.display in known.texts else event.display,
            data=event.data,
            entry_id=known.entry_id,
            index=index,
        )


def _plain(event: Event) -> LogEvent | None:
    match event:
        case ContextUpdated(state=state):
            return ContextReading(state=state)
        case CompactionEnded(trigger=trigger, before=before, after=after, report=report):
            return ContextCompact(
                trigger=trigger, before=before, after=after, author=report.author, why=report.why
            )
        case CompactionFailed(why=why):
            return CompactFailed(why=why)
        case Warned(text=text):
            return Notice(text=text)
        case _:
            return None


def _parameters(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return arguments
