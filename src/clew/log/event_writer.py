"""Write a session's entries, events and requests as log events."""

from collections.abc import Sequence
from typing import Any

import msgspec

from clew.core import events as core
from clew.core.entries import Entry, MessageAdded, UnknownBody
from clew.core.ids import CallId, EntryId
from clew.core.json_text import decode_json
from clew.core.messages import Message, Role, ToolCall
from clew.log import events as log
from clew.log.calls import CallLog
from clew.log.content_store import content_hash, count_shared_prefix
from clew.log.log_file import LogFile, LogTail
from clew.log.protocol import LoggedJournal
from clew.providers.protocol import Provider, Request, SearchesWeb
from clew.providers.recorded_calls import extra_fields

_MUTATIONS = {
    "message": "append",
    "compaction": "compact",
    "results_cleared": "clear_results",
}
"""Kinds of entries that have another name in a log."""
_SPELL_OUT = 32
"""The first request after a resume repeats a shorter history, and with it lost payloads."""


class EventWriter:
    """Writes every journal entry once and in order, and the events and requests between them.

    It remembers what later lines refer to.
    """

    def __init__(self, file: LogFile) -> None:
        self._file = file
        self.max_concurrency = 1
        self._run = 0
        self._round = 0
        self._execution_id = ""
        """The last model call of the conversation."""
        self._last_entry = EntryId(0)
        """The last journal entry in the log."""
        self._is_resumed = False
        """True until the first request after a resume."""
        self._answer = EntryId(0)
        """The entry of the last response."""
        self._indexes: dict[CallId, int] = {}
        """The index of each running call in its batch."""
        self._results: dict[CallId, tuple[EntryId, str, str | None]] = {}
        """Results whose `ToolEnded` has not arrived: the entry, its short text and full text."""

    def resume(self, tail: LogTail, entries: Sequence[Entry]) -> bool:
        """Continue after `tail`; returns False when the log ends with another history."""
        self._is_resumed = tail.seq > 0
        last = [entry for entry in entries if entry.id == tail.entry_id]
        is_same = bool(last) and self._to_mutation(last[0]).sha256 == tail.sha256
        self._last_entry = EntryId(tail.entry_id if is_same else 0)
        return self._last_entry == tail.entry_id

    def write_entries(self, entries: Sequence[Entry]) -> None:
        """Write the entries that the log does not contain yet.

        After an `OSError` the entry is tried again; one that cannot be encoded is skipped.
        """
        start = len(entries)
        while start and entries[start - 1].id > self._last_entry:
            start -= 1
        for entry in entries[start:]:
            before, self._last_entry = self._last_entry, entry.id
            try:
                self._file.write(self._to_mutation(entry), redacted=True)
            except OSError:
                self._last_entry = before
                raise

    def write_run(self, provider: Provider, prompt: Message, journal: LoggedJournal) -> None:
        """Count another run, and write its start."""
        self._run += 1
        self._round = 0
        web = provider.web_tools if isinstance(provider, SearchesWeb) else frozenset()
        self._file.write(
            log.PreRun(
                run=self._run,
                provider=provider.name,
                web_tools=tuple(sorted(web)),
                input=prompt,
                messages=len(journal.view.items),
                entry_id=self._last_entry,
            )
        )

    def write_request(
        self,
        call: CallLog,
        request: Request,
        *,
        purpose: str,
        history: Sequence[Message],
        native: bool,
    ) -> None:
        """Write a request as its difference from the history, which nearly always contains it."""
        contents = self._file.contents
        if purpose == log.TURN:
            self._round += 1
            self._execution_id = call.execution_id
        is_repeated = self._is_resumed and len(request.messages) <= _SPELL_OUT
        self._is_resumed = False
        same = 0 if is_repeated else count_shared_prefix(history, request.messages)
        messages = log.PrefixDelta(
            of=log.HISTORY if same else "",
            same=same,
            new=tuple(map(contents.add, request.messages[same:])),
        )
        event = log.ProviderRequest(
            execution_id=call.execution_id,
            run=self._run,
            round=self._round,
            purpose=purpose,
            provider=call.provider,
            model=request.model,
            messages=messages,
            system=contents.add(request.system, "system") if request.system else "",
            tools=contents.add(request.tools, "tools") if request.tools else "",
            head=self._file.redaction.value(extra_fields(request)),
            content=contents.take(),
            native=native,
        )
        self._file.write(event, redacted=True)

    def write_event(self, event: core.Event, journal: LoggedJournal) -> None:
        """Write an event, unless only screens need it."""
        if isinstance(event, core.EntryAdded):
            self.write_entries(journal.entries)
            self._write_message(event.entry)
        elif (translated := self._translate(event, len(journal.view.items))) is not None:
            self._file.write(translated)

    def _to_mutation(self, entry: Entry) -> log.HistoryMutation:
        """Return the redacted `history_mutation` of an entry."""
        tree: dict[str, Any] = msgspec.to_builtins(entry)
        if isinstance(entry.body, UnknownBody):
            tree["body"] = decode_json(entry.body.raw)
        tree = self._file.redaction.value(tree)
        body = tree["body"]
        kind = str(body.get("kind", "unknown"))
        return log.HistoryMutation(
            mutation=_MUTATIONS.get(kind, kind),
            entry_id=entry.id,
            sha256=content_hash(body["message"] if kind == "message" else body),
            entry=tree,
        )

    def _write_message(self, entry: Entry) -> None:
        """Write what follows the `history_mutation` of a message: its calls, or its results."""
        if not isinstance(entry.body, MessageAdded):
            return
        message = entry.body.message
        if message.role is Role.ASSISTANT:
            self._answer = entry.id
            if message.calls and not message.interrupted:
                self._write_batch(message.calls)
            return
        for result in message.results:
            call_id = result.call_id
            self._results[call_id] = (entry.id, result.text, entry.body.full_text)
            self._file.write(
                log.ToolCommitted(call_id=call_id, tool=result.name, entry_id=entry.id)
            )

    def _write_batch(self, calls: Sequence[ToolCall]) -> None:
        self._indexes = {call.call_id: index for index, call in enumerate(calls)}
        self._results.clear()
        self._file.write(
            log.ToolBatch(
                run=self._run,
                round=self._round,
                execution_id=self._execution_id,
                max_concurrency=self.max_concurrency,
                count=len(calls),
                tools=tuple(call.name for call in calls),
                call_ids=tuple(call.call_id for call in calls),
            )
        )

    def _translate(self, event: core.Event, messages: int) -> log.LogEvent | None:
        match event:
            case core.ToolStarted(call_id=call_id):
                return log.ToolRequest(
                    run=self._run,
                    round=self._round,
                    call_id=call_id,
                    tool=event.name,
                    parameters=_parse_arguments(event.arguments),
                    index=self._indexes.get(call_id, 0),
                )
            case core.ToolEnded(call_id=call_id):
                entry_id, *texts = self._results.pop(call_id, (EntryId(0),))
                return log.ToolOutcome(
                    run=self._run,
                    round=self._round,
                    call_id=call_id,
                    tool=event.name,
                    success=not event.failed,
                    denied=event.denied,
                    error_code=event.error_code,
                    display="" if event.display in texts else event.display,
                    data=event.data,
                    entry_id=entry_id,
                    index=self._indexes.get(call_id, 0),
                )
            case core.RunFailed(message=text):
                return log.RunFailure(run=self._run, text=text)
            case core.RunInterrupted():
                return log.RunFailure(run=self._run, interrupted=True)
            case core.RunCompleted(result=result):
                return log.Assistant(
                    run=self._run,
                    text=result.response,
                    stop_reason=result.stop_reason,
                    usage=result.last_call,
                    entry_id=self._answer,
                    messages=messages,
                )
            case _:
                return _translate_plain(event)


def _translate_plain(event: core.Event) -> log.LogEvent | None:
    match event:
        case core.ServerToolStarted(call_id=call_id, name=name, arguments=query):
            return log.ServerToolUse(call_id=call_id, tool=name, query=query)
        case core.ServerToolEnded(call_id=call_id, name=name, text=text, failed=failed):
            return log.ServerToolUse(
                call_id=call_id, tool=name, ended=True, result=text, failed=failed
            )
        case core.ContextUpdated(state=state):
            return log.ContextReading(state=state)
        case core.CompactionEnded(trigger=trigger, before=before, after=after, report=report):
            return log.ContextCompact(
                trigger=trigger, before=before, after=after, author=report.author, why=report.why
            )
        case core.CompactionFailed(why=why, attempts=attempts):
            return log.CompactFailed(why=why, attempts=attempts)
        case core.ToolResultsCleared(trigger=trigger, before=before, after=after, report=report):
            cleared = len(report.cleared)
            return log.ContextClear(
                trigger=trigger, before=before, after=after, cleared=cleared, why=report.why
            )
        case core.Warned():
            return event
        case _:
            return None


def _parse_arguments(arguments: str) -> Any:
    try:
        return decode_json(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return arguments
