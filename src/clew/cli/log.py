"""`clew log`: look at a session log, check it, run it again."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec

from clew.cli.sanitize import one_line, sanitize, sanitize_json
from clew.cli.streams import tell, write_out
from clew.context.passages import render_text
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
from clew.log.validation import validate_log
from clew.providers.replay import ReplayProvider
from clew.sdk.replay import ReplayResult, replay_session
from clew.sdk.replay_script import read_replay_script

_SHOWN = 100


def run_log(arguments: Namespace) -> int:
    """Do what was asked; 1 when a log is not sound, or a replay departs from it."""
    match arguments.action:
        case "validate":
            return max([_validate(Path(name)) for name in arguments.files])
        case "replay":
            return _replay(Path(arguments.file), strict=arguments.strict)
        case _:
            return _show(Path(arguments.file), arguments)


def _validate(path: Path) -> int:
    report = validate_log(path)
    for fault in report.faults:
        write_out(f"{one_line(str(fault), 300)}\n")
    word = "sound" if report.is_sound else "not sound"
    megabytes = f"{report.payload_bytes / 1e6:.1f} MB"
    write_out(
        f"{sanitize(str(path))}: {word}: {report.lines:,} lines, {report.entries:,} entries, "
        f"{report.calls:,} calls, {report.payloads:,} payloads ({megabytes})\n"
    )
    return 0 if report.is_sound else 1


def _replay(path: Path, *, strict: bool) -> int:
    script = read_replay_script(path)
    _complain(script.faults)
    provider = ReplayProvider(script.recording.turns, strict=strict)
    done = anyio.run(replay_session, script, provider)
    first = provider.difference or done.difference
    summaries = len(script.recording.calls) - len(script.recording.turns.calls)
    write_out(_counts(done))
    if summaries:
        tell(f"{summaries} calls for summaries are not made again: their words are recorded")
    if not done.calls:
        tell("there is no call in it, so nothing was compared")
    if first is None:
        write_out("no difference: each request is what it was\n")
        return 0
    write_out(
        f"first difference: call {first.call}, {sanitize(first.where)}\n"
        f"  expected: {sanitize(first.expected)}\n"
        f"  found:    {sanitize(first.found)}\n"
    )
    if len(provider.differences) > 1:
        write_out(f"{len(provider.differences)} of {done.calls} calls differ\n")
    return 1


def _counts(done: ReplayResult) -> str:
    usage = done.usage
    return (
        f"{done.calls:,} calls, {done.tool_calls:,} tool calls; {usage.input_tokens:,} tokens in "
        f"({usage.cache_read_tokens:,} cached), {usage.output_tokens:,} out\n"
    )


def _show(path: Path, arguments: Namespace) -> int:
    if arguments.history:
        replayed = replay_log(path, until=arguments.until)
        _complain(replayed.faults)
        for item in replayed.view.items:
            text = render_text([item])
            write_out(f"#{item.entry_id} {item.message.role}: {one_line(text, _SHOWN)}\n")
        return 0
    reader = LogReader(path)
    for text in _lines(reader, arguments):
        write_out(f"{text}\n")
    _complain(tuple(reader.faults))
    return 0


def _lines(reader: LogReader, arguments: Namespace) -> Iterator[str]:
    for line in reader:
        if arguments.until is not None and line.seq > arguments.until:
            return
        if arguments.event and line.name not in arguments.event:
            continue
        if arguments.json:
            whole = {"seq": line.seq, "timestamp": line.timestamp, **line.fields}
            yield sanitize_json(msgspec.json.encode(whole).decode())
        else:
            yield _line(line)


def _line(line: LogLine) -> str:
    when = one_line(line.timestamp[11:23], 12)
    said = _said(line.event) if line.event is not None else ""
    words = said or msgspec.json.encode(
        {name: value for name, value in line.fields.items() if name != "event"}
    ).decode(errors="replace")
    return f"{line.seq:>6} {when} {one_line(line.name, 30):<28} {one_line(words, _SHOWN)}"


def _said(event: LogEvent) -> str:
    """Return the gist of an event; nothing where its fields say it best."""
    match event:
        case SessionInit(model=model, provider=provider, resumed=resumed):
            return f"{model} on {provider}{', resumed' if resumed else ''}, level {event.level}"
        case PreRun(run=run, input=message):
            return f"run {run}: {message.text}"
        case ProviderRequest(messages=outline, execution_id=execution_id):
            new = f"{outline.count} messages, {len(outline.new)} named"
            return f"{execution_id} {event.purpose} to {event.model}: {new}"
        case ResponseNormalized(message=message, execution_id=execution_id):
            calls = ", ".join(call.name for call in message.calls)
            return f"{execution_id} {event.stop_reason}: {message.text or calls}"
        case ProviderFailed(kind=kind, text=text, execution_id=execution_id):
            return f"{execution_id} {kind}: {text}"
        case HistoryMutation(mutation=mutation, entry_id=entry_id):
            return f"{mutation} #{entry_id}"
        case _:
            return _more(event)


def _more(event: LogEvent) -> str:
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


def _complain(faults: tuple[LogFault, ...]) -> None:
    for fault in faults[:10]:
        tell(str(fault))
    if len(faults) > 10:
        tell(f"and {len(faults) - 10} more faults; `clew log validate` lists them")
