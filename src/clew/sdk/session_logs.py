"""Session logs: read and validate them, rebuild the history, and replay the model calls.

`SessionSpec.log_level` and `clew --log` write such logs; see docs/session-log.md.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.context.digest.passages import render_text
from clew.core.text import pluralize
from clew.log.events import (
    Assistant,
    ContextReading,
    HistoryMutation,
    LogEvent,
    PreRun,
    ProviderFailed,
    ProviderRequest,
    ResponseNormalized,
    SessionInit,
    ToolBatch,
    ToolOutcome,
    ToolRequest,
)
from clew.log.reader import LogFault, LogLine, LogReader
from clew.log.replay_state import replay_log
from clew.log.validation import ValidationReport, validate_log
from clew.providers.replay import ReplayProvider
from clew.providers.request_diff import Difference
from clew.sdk.replay import ReplayResult, replay_session
from clew.sdk.replay_script import read_replay_script

__all__ = [
    "LogFault",
    "LogHistory",
    "LogLine",
    "LogReader",
    "ReplayReport",
    "ValidationReport",
    "describe_event",
    "read_history",
    "replay_file",
    "select_lines",
    "validate_log",
]


class LogHistory(Struct, frozen=True, kw_only=True):
    """The conversation that a log leads to."""

    messages: tuple[tuple[int, str, str], ...]
    """Entry id, role and text of each message."""
    faults: tuple[LogFault, ...]


class ReplayReport(Struct, frozen=True, kw_only=True):
    """The result of replaying a recording."""

    result: ReplayResult
    difference: Difference | None
    """The first difference from the recording; None when there is none."""
    differing_calls: int
    summaries: int
    """Recorded calls for summaries; the replay reuses their text and does not repeat them."""
    faults: tuple[LogFault, ...]
    """What is wrong with the log."""


def select_lines(
    reader: LogReader, *, events: Collection[str] = (), until: int | None = None
) -> Iterator[LogLine]:
    """Yield the lines of a log; faults are in `reader.faults` afterwards.

    Args:
        reader: The log.
        events: Only events with these names; all by default.
        until: The sequence number of the last line.
    """
    for line in reader:
        if until is not None and line.seq > until:
            return
        if not events or line.name in events:
            yield line


def read_history(path: Path, *, until: int | None = None) -> LogHistory:
    """Return the conversation as it was after the line `until`, or at the end of the log.

    Raises:
        ConfigError: The file cannot be read, or is not a log.
    """
    replayed = replay_log(path, until=until)
    messages = tuple(
        (item.entry_id, str(item.message.role), render_text([item])) for item in replayed.view.items
    )
    return LogHistory(messages=messages, faults=replayed.faults)


async def replay_file(path: Path, *, strict: bool = False) -> ReplayReport:
    """Repeat every model call of a recording offline, and compare the requests.

    Args:
        path: A session log, an exported session, or a session of another agent.
        strict: Reject requests that differ, instead of answering them.

    Raises:
        ConfigError: The file cannot be read, or has no session.
    """
    script = read_replay_script(path)
    provider = ReplayProvider(script.recording.turns, strict=strict)
    result = await replay_session(script, provider)
    return ReplayReport(
        result=result,
        difference=provider.difference or result.difference,
        differing_calls=len(provider.differences),
        summaries=len(script.recording.calls) - len(script.recording.turns.calls),
        faults=script.faults,
    )


def describe_event(event: LogEvent) -> str:
    """Return an event in a few words; empty where its fields say it best."""
    match event:
        case SessionInit(model=model, provider=provider, resumed=resumed):
            return f"{model} on {provider}{', resumed' if resumed else ''}, level {event.level}"
        case PreRun(run=run, input=message):
            return f"run {run}: {message.text}"
        case ProviderRequest(messages=outline, execution_id=execution_id):
            new = f", {len(outline.new)} new" if outline.new else ""
            count = pluralize(outline.count, "message")
            return f"{execution_id} {event.purpose} to {event.model}: {count}{new}"
        case ResponseNormalized(message=message, execution_id=execution_id):
            calls = ", ".join(call.name for call in message.calls)
            return f"{execution_id} {event.stop_reason}: {message.text or calls}"
        case ProviderFailed(kind=kind, text=text, execution_id=execution_id):
            return f"{execution_id} {kind}: {text}"
        case HistoryMutation(mutation=mutation, entry_id=entry_id):
            return f"{mutation} #{entry_id}"
        case _:
            return _describe_other(event)


def _describe_other(event: LogEvent) -> str:
    match event:
        case ContextReading(state=state):
            return f"{state.used_tokens:,} of {state.max_tokens:,} tokens, {state.status}"
        case ToolBatch(tools=tools):
            return ", ".join(tools)
        case ToolRequest(tool=tool, parameters=parameters):
            return f"{tool} {msgspec.json.encode(parameters).decode()}"
        case ToolOutcome(tool=tool, success=success):
            return f"{tool} {'done' if success else event.error_code or 'failed'}"
        case Assistant(text=text):
            return text
        case _:
            return ""
