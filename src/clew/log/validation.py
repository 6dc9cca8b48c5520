"""Checking a log: whether all that it should hold is there and fits together."""

from pathlib import Path

from msgspec import Struct

from clew.core.ids import CallId
from clew.log.events import (
    FORMAT,
    LogEvent,
    LogLevel,
    NativePayload,
    ProviderFailed,
    ProviderRequest,
    ResponseNormalized,
    ResponseRaw,
    SessionInit,
    StreamDelta,
    ToolCommitted,
    ToolOutcome,
    ToolRequest,
)
from clew.log.faults import Code, Fault
from clew.log.reading import LogLine, LogReader
from clew.log.walking import Walk


class Report(Struct, frozen=True, kw_only=True):
    """What was found in a log."""

    lines: int
    calls: int
    entries: int
    payloads: int
    """Files beside the log that it refers to, each counted once."""
    payload_bytes: int
    faults: tuple[Fault, ...]

    @property
    def is_sound(self) -> bool:
        """True when nothing is wrong but what a crash leaves behind."""
        return all(fault.code.is_tolerated for fault in self.faults)


def validate(path: Path) -> Report:
    """Check the log at `path`, and the files beside it.

    Raises:
        ConfigError: There is no such log.
    """
    reader = LogReader(path)
    check = _Check(reader)
    for line in reader:
        check.take(line)
    check.close()
    return Report(
        lines=reader.lines,
        calls=check.calls,
        entries=len(check.walk.entries),
        payloads=len(reader.payloads.files),
        payload_bytes=sum(reader.payloads.files.values()),
        faults=tuple(sorted(reader.faults, key=lambda fault: fault.line)),
    )


class _Call(Struct):
    """A model call, and what the log holds of its answer."""

    line: LogLine
    wants_raw: bool
    wants_native: bool
    native: bool = False
    raw: bool = False
    normalized: bool = False
    failed: bool = False


class _Tool(Struct):
    line: LogLine
    result: LogLine | None = None
    committed: bool = False


class _Check:
    """Takes a log line by line; what is missing is known only at its end."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._line: LogLine | None = None
        self.walk = Walk(self._fault)
        self.calls = 0
        self._numbers = _Numbers()
        self._level: LogLevel | None = None
        self._calls: dict[str, _Call] = {}
        self._tools: dict[CallId, _Tool] = {}

    def take(self, line: LogLine) -> None:
        """Check one line against those before it."""
        self._line = line
        for code, text in self._numbers.take(line):
            self._fault(code, text)
        event = line.event
        if self._level is None and line.name != "session_init":
            self._fault(Code.SESSION_INIT_MISSING, "the log does not begin with session_init")
            self._level = LogLevel.EVENTS
        if event is None:
            return
        self._session(event)
        self._provider(event, line)
        self._tool(event, line)
        self.walk.take(event, is_whole=line.is_whole)

    def close(self) -> None:
        """Look for what never came."""
        for execution_id, call in self._calls.items():
            self._answer(execution_id, call)
        for call_id, tool in self._tools.items():
            if tool.result is None:
                self._miss(Code.TOOL_RESULT_MISSING, f"{call_id} has no result", tool.line)
            elif not tool.committed:
                text = f"the result of {call_id} is not in the history"
                self._miss(Code.TOOL_MESSAGE_MISSING, text, tool.result)

    def _session(self, event: LogEvent) -> None:
        if not isinstance(event, SessionInit):
            return
        self._level = event.level
        if event.format > FORMAT:
            text = f"the log is of format {event.format}, and {FORMAT} is known; update Clew"
            self._fault(Code.FORMAT_UNKNOWN, text)

    def _provider(self, event: LogEvent, line: LogLine) -> None:
        match event:
            case ProviderRequest(execution_id=execution_id):
                if execution_id in self._calls:
                    self._fault(Code.EXECUTION_ID_DUPLICATE, f"{execution_id} was used before")
                self.calls += 1
                is_raw = self._level is LogLevel.RAW
                self._calls[execution_id] = _Call(
                    line=line, wants_raw=is_raw, wants_native=is_raw and event.native
                )
            case (
                NativePayload(execution_id=execution_id)
                | StreamDelta(execution_id=execution_id)
                | ResponseRaw(execution_id=execution_id)
                | ResponseNormalized(execution_id=execution_id)
                | ProviderFailed(execution_id=execution_id)
            ):
                call = self._calls.get(execution_id)
                if call is None:
                    text = f"{line.name} belongs to {execution_id}, which is not there"
                    self._fault(Code.PROVIDER_REQUEST_MISSING, text)
                else:
                    _note(call, event)
            case _:
                pass

    def _answer(self, execution_id: str, call: _Call) -> None:
        if call.wants_native and not call.native:
            text = f"what {execution_id} brought over the wire is not there"
            self._miss(Code.PROVIDER_NATIVE_RAW_PAYLOAD_MISSING, text, call.line)
        if call.wants_raw and not call.raw:
            text = f"{execution_id} has no raw response"
            self._miss(Code.PROVIDER_RESPONSE_RAW_MISSING, text, call.line)
        if not call.normalized and not call.failed:
            text = f"{execution_id} has neither an answer nor an error"
            self._miss(Code.PROVIDER_RESPONSE_NORMALIZED_MISSING, text, call.line)

    def _tool(self, event: LogEvent, line: LogLine) -> None:
        match event:
            case ToolRequest(call_id=call_id):
                if call_id in self._tools:
                    self._fault(Code.TOOL_CALL_DUPLICATE, f"{call_id} was taken up before")
                self._tools[call_id] = _Tool(line=line)
            case ToolOutcome(call_id=call_id):
                if call_id in self._tools:
                    self._tools[call_id].result = line
                else:
                    text = f"{call_id} has a result and was never taken up"
                    self._fault(Code.TOOL_REQUEST_MISSING, text)
            case ToolCommitted(call_id=call_id) if call_id in self._tools:
                self._tools[call_id].committed = True
            case _:
                pass

    def _fault(self, code: Code, text: str) -> None:
        self._reader.fault(code, text, self._line)

    def _miss(self, code: Code, text: str, line: LogLine) -> None:
        self._reader.fault(code, text, line)


class _Numbers(Struct):
    """Whether lines are numbered without a gap, and all of one session."""

    last: int = 0
    session_id: str = ""

    def take(self, line: LogLine) -> list[tuple[Code, str]]:
        """Return what is wrong with the number of a line, and with whose it is."""
        found = []
        if line.seq <= self.last:
            found.append((Code.SEQUENCE_DUPLICATE, f"{line.seq} stands after {self.last}"))
        elif line.seq != self.last + 1:
            found.append((Code.SEQUENCE_GAP, f"{line.seq} stands after {self.last}"))
        self.last = max(self.last, line.seq)
        self.session_id = self.session_id or line.session_id
        if line.session_id != self.session_id:
            text = f"the line is of session {line.session_id!r:.60}, not {self.session_id!r:.60}"
            found.append((Code.SESSION_MISMATCH, text))
        return found


def _note(call: _Call, event: LogEvent) -> None:
    match event:
        case NativePayload(payload_kind=kind):
            call.native = call.native or kind in {"response", "stream_event"}
        case ResponseRaw():
            call.raw = True
        case ResponseNormalized():
            call.normalized = True
        case ProviderFailed():
            call.failed = True
        case _:
            pass
