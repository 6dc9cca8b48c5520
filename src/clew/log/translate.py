"""Translate a session's entries and events to log events."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, field

from clew.core.entries import Entry, MessageAdded, UnknownBody
from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    ContextUpdated,
    Event,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    ServerToolEnded,
    ServerToolStarted,
    ToolEnded,
    ToolResultsCleared,
    ToolStarted,
    Warned,
)
from clew.core.ids import CallId, EntryId
from clew.core.json_text import decode_json
from clew.core.messages import Role, ToolCall
from clew.log import events as log
from clew.log.content_store import content_hash

_MUTATIONS = {
    "message": "append",
    "compaction": "compact",
    "results_cleared": "clear_results",
}
"""Kinds of entries that have another name in a log."""


class LogTranslator(Struct, kw_only=True):
    """Translates to log events, and remembers what later events refer to."""

    run: int = 0
    round: int = 0
    execution_id: str = ""
    """The last model call of the conversation."""
    max_concurrency: int = 1
    answer: EntryId = EntryId(0)
    """The entry of the last response."""
    indexes: dict[CallId, int] = field(default_factory=dict)
    """The index of each running call in its batch."""
    results: dict[CallId, tuple[EntryId, str, str | None]] = field(default_factory=dict)
    """Results whose `ToolEnded` has not arrived: the entry, its short text and its full text."""

    def start_run(self) -> None:
        """Count another run."""
        self.run += 1
        self.round = 0

    def translate_entry(self, entry: Entry) -> list[log.LogEvent]:
        """Return the events that follow the `history_mutation` of an entry."""
        body = entry.body
        if not isinstance(body, MessageAdded):
            return []
        message = body.message
        if message.role is Role.ASSISTANT:
            self.answer = entry.id
            calls = message.calls
            return [self._batch(calls)] if calls and not message.interrupted else []
        events: list[log.LogEvent] = []
        for result in message.results:
            call_id = result.call_id
            self.results[call_id] = (entry.id, result.text, body.full_text)
            events.append(log.ToolCommitted(call_id=call_id, tool=result.name, entry_id=entry.id))
        return events

    def translate_event(self, event: Event, *, messages: int) -> log.LogEvent | None:
        """Return the log event of an event; None for one that only screens need."""
        match event:
            case ToolStarted():
                return log.ToolRequest(
                    run=self.run,
                    round=self.round,
                    call_id=event.call_id,
                    tool=event.name,
                    parameters=_parse_arguments(event.arguments),
                    index=self.indexes.get(event.call_id, 0),
                )
            case ToolEnded():
                return self._outcome(event)
            case RunFailed(message=text):
                return log.RunFailure(run=self.run, text=text)
            case RunInterrupted():
                return log.RunFailure(run=self.run, text="", interrupted=True)
            case RunCompleted(result=result):
                return log.Assistant(
                    run=self.run,
                    text=result.response,
                    stop_reason=result.stop_reason,
                    usage=result.last_call,
                    entry_id=self.answer,
                    messages=messages,
                )
            case _:
                return _translate_plain(event)

    def _batch(self, calls: tuple[ToolCall, ...]) -> log.ToolBatch:
        self.indexes = {call.call_id: index for index, call in enumerate(calls)}
        self.results.clear()
        return log.ToolBatch(
            run=self.run,
            round=self.round,
            execution_id=self.execution_id,
            max_concurrency=self.max_concurrency,
            count=len(calls),
            tools=tuple(call.name for call in calls),
            call_ids=tuple(call.call_id for call in calls),
        )

    def _outcome(self, event: ToolEnded) -> log.ToolOutcome:
        entry_id, *texts = self.results.pop(event.call_id, (EntryId(0),))
        return log.ToolOutcome(
            run=self.run,
            round=self.round,
            call_id=event.call_id,
            tool=event.name,
            success=not event.failed,
            denied=event.denied,
            error_code=event.error_code,
            display="" if event.display in texts else event.display,
            data=event.data,
            entry_id=entry_id,
            index=self.indexes.get(event.call_id, 0),
        )


def to_mutation(entry: Entry, redact: Callable[[Any], Any]) -> log.HistoryMutation:
    """Return the redacted `history_mutation` of an entry."""
    tree: dict[str, Any]
    if isinstance(entry.body, UnknownBody):
        body = decode_json(entry.body.raw)
        tree = {"id": entry.id, "at": entry.at, "schema": entry.schema, "body": body}
    else:
        tree = msgspec.to_builtins(entry)
    tree = redact(tree)
    body = tree["body"]
    kind = str(body.get("kind", "unknown"))
    return log.HistoryMutation(
        mutation=_MUTATIONS.get(kind, kind),
        entry_id=entry.id,
        sha256=content_hash(body["message"] if kind == "message" else body),
        entry=tree,
    )


def _translate_plain(event: Event) -> log.LogEvent | None:
    match event:
        case ServerToolStarted(call_id=call_id, name=name, arguments=query):
            return log.ServerToolUse(call_id=call_id, tool=name, query=query)
        case ServerToolEnded(call_id=call_id, name=name, text=text, failed=failed):
            return log.ServerToolUse(
                call_id=call_id, tool=name, ended=True, result=text, failed=failed
            )
        case ContextUpdated(state=state):
            return log.ContextReading(state=state)
        case CompactionEnded(trigger=trigger, before=before, after=after, report=report):
            return log.ContextCompact(
                trigger=trigger, before=before, after=after, author=report.author, why=report.why
            )
        case CompactionFailed(why=why, attempts=attempts):
            return log.CompactFailed(why=why, attempts=attempts)
        case ToolResultsCleared(trigger=trigger, before=before, after=after, report=report):
            cleared = len(report.cleared)
            return log.ContextClear(
                trigger=trigger, before=before, after=after, cleared=cleared, why=report.why
            )
        case Warned():
            return event
        case _:
            return None


def _parse_arguments(arguments: str) -> Any:
    try:
        return decode_json(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return arguments
