"""`clew log`: show a session log, validate it, replay it."""

from argparse import Namespace
from pathlib import Path

import anyio
import msgspec

from clew.cli.streams import write_err, write_out
from clew.core.sanitize import sanitize, sanitize_json, sanitize_line
from clew.core.text import make_encodable, pluralize
from clew.sdk.session_logs import (
    LogFault,
    LogLine,
    LogReader,
    ReplayReport,
    describe_event,
    read_history,
    replay_file,
    select_lines,
    validate_log,
)

_MAX_TEXT = 100
_MAX_FAULT = 300
_MAX_FAULTS = 10


def run_log(arguments: Namespace) -> int:
    """Run one action; returns 1 when a log is invalid, or a replay differs from it."""
    match arguments.action:
        case "validate":
            return max([_validate(Path(name)) for name in arguments.files])
        case "replay":
            return _replay(Path(arguments.file), strict=arguments.strict)
        case _ if arguments.history:
            return _show_history(Path(arguments.file), until=arguments.until)
        case _:
            return _show(Path(arguments.file), arguments)


def _validate(path: Path) -> int:
    report = validate_log(path)
    for fault in report.faults:
        write_out(f"{sanitize_line(str(fault), _MAX_FAULT)}\n")
    verdict = "valid" if report.is_sound else "invalid"
    megabytes = f"{report.payload_bytes / 1e6:.1f} MB"
    write_out(
        f"{sanitize(str(path))}: {verdict}: {pluralize(report.lines, 'line')}, "
        f"{pluralize(report.entries, 'entry', 'entries')}, {pluralize(report.calls, 'call')}, "
        f"{pluralize(report.payloads, 'payload')} ({megabytes})\n"
    )
    return 0 if report.is_sound else 1


def _replay(path: Path, *, strict: bool) -> int:
    report = anyio.run(lambda: replay_file(path, strict=strict))
    _report_faults(report.faults)
    write_out(_format_counts(report))
    if report.summaries:
        calls = pluralize(report.summaries, "call")
        write_err(f"{calls} for summaries not repeated; the recorded summaries are used")
    if not report.result.calls:
        write_err("the file has no model calls, so there is nothing to compare")
    difference = report.difference
    if difference is None:
        write_out("no difference: every request matches the recording\n")
        return 0
    write_out(
        f"first difference: call {difference.call}, {sanitize(difference.where)}\n"
        f"  expected: {sanitize(difference.expected)}\n"
        f"  found:    {sanitize(difference.found)}\n"
    )
    if report.differing_calls > 1:
        write_out(f"{report.differing_calls} of {report.result.calls} calls differ\n")
    return 1


def _format_counts(report: ReplayReport) -> str:
    result, usage = report.result, report.result.usage
    return (
        f"{pluralize(result.calls, 'call')}, {pluralize(result.tool_calls, 'tool call')}; "
        f"{usage.input_tokens:,} tokens in ({usage.cache_read_tokens:,} cached), "
        f"{usage.output_tokens:,} out\n"
    )


def _show_history(path: Path, *, until: int | None) -> int:
    history = read_history(path, until=until)
    _report_faults(history.faults)
    for entry_id, role, text in history.messages:
        write_out(f"#{entry_id} {role}: {sanitize_line(text, _MAX_TEXT)}\n")
    return 0


def _show(path: Path, arguments: Namespace) -> int:
    reader = LogReader(path)
    for line in select_lines(reader, events=arguments.event or (), until=arguments.until):
        write_out(f"{_format_json(line) if arguments.json else _format_line(line)}\n")
    _report_faults(tuple(reader.faults))
    return 0


def _format_json(line: LogLine) -> str:
    whole = {"seq": line.seq, "timestamp": line.timestamp, **line.fields}
    return sanitize_json(msgspec.json.encode(make_encodable(whole)).decode())


def _format_line(line: LogLine) -> str:
    time = sanitize_line(line.timestamp[11:23], 12)
    text = describe_event(line.event) if line.event is not None else ""
    others = {name: value for name, value in line.fields.items() if name != "event"}
    text = text or msgspec.json.encode(make_encodable(others)).decode()
    return (
        f"{line.seq:>6} {time} {sanitize_line(line.name, 30):<28} {sanitize_line(text, _MAX_TEXT)}"
    )


def _report_faults(faults: tuple[LogFault, ...]) -> None:
    for fault in faults[:_MAX_FAULTS]:
        write_err(str(fault))
    if len(faults) > _MAX_FAULTS:
        write_err(f"{len(faults) - _MAX_FAULTS} more faults; `clew log validate` lists them")
