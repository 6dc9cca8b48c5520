"""Validate a log: check that it is complete and consistent."""

from pathlib import Path

from msgspec import Struct

from clew.core.ids import CallId
from clew.log.events import (
    FORMAT,
    CallEvent,
    LogEvent,
    LogLevel,
    NativePayload,
    ProviderFailed,
    ProviderRequest,
    ResponseNormalized,
    ResponseRaw,
    SessionInit,
    ToolCommitted,
    ToolOutcome,
    ToolRequest,
)
from clew.log.reader import FaultCode, LogFault, LogLine, LogReader
from clew.log.replay_state import ReplayState


class ValidationReport(Struct, frozen=True, kw_only=True):
    """What a validation found."""

    lines: int
    calls: int
    entries: int
    payloads: int
    """The number of different payload files that the log refers to."""
    payload_bytes: int
    faults: tuple[LogFault, ...]

    @property
    def is_sound(self) -> bool:
        """True when every fault is tolerated."""
        return all(fault.code.is_tolerated for fault in self.faults)


def validate_log(path: Path) -> ValidationReport:
    """Check the log at `path` and its payload files.

    Raises:
        ConfigError: The file cannot be opened.
    """
    reader = LogReader(path)
    validator = _Validator(reader)
    for line in reader:
        validator.check(line)
    validator.close()
    return ValidationReport(
        lines=reader.lines,
        calls=validator.calls,
        entries=len(validator.state.entries),
        payloads=len(reader.payloads.files),
        payload_bytes=sum(reader.payloads.files.values()),
        faults=tuple(sorted(reader.faults, key=lambda fault: fault.line)),
    )


class _Validator:
    """Checks a log line by line; only its end shows what is missing."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._line: LogLine | None = None
        self.state = ReplayState(self._report)
        self.calls = 0
        self._seq = 0
        self._session_id = ""
        self._level: LogLevel | None = None
        self._executions: set[str] = set()
        self._tools: set[CallId] = set()
        self._committed: set[CallId] = set()
        self._expected: dict[tuple[FaultCode, str], tuple[LogLine, str]] = {}
        """Faults to report if the lines that would prevent them never come."""

    def check(self, line: LogLine) -> None:
        """Check one line against the lines before it."""
        self._line = line
        self._check_envelope(line)
        if line.event is None:
            return
        match line.event:
            case SessionInit(level=level, format=version):
                self._level = level
                if version > FORMAT:
                    text = f"the log has format {version}, this Clew reads {FORMAT}; update Clew"
                    self._report(FaultCode.FORMAT_UNKNOWN, text)
            case ToolRequest() | ToolOutcome() | ToolCommitted():
                self._check_tool(line.event, line)
            case _:
                self._check_call(line.event, line)
        self.state.apply(line.event, is_complete=line.is_complete)

    def close(self) -> None:
        """Report what never came."""
        for (code, _), (line, text) in self._expected.items():
            self._reader.report(code, text, line)

    def _check_envelope(self, line: LogLine) -> None:
        order = f"{line.seq} follows {self._seq}"
        if line.seq <= self._seq:
            self._report(FaultCode.SEQUENCE_DUPLICATE, order)
        elif line.seq != self._seq + 1:
            self._report(FaultCode.SEQUENCE_GAP, order)
        self._seq = max(self._seq, line.seq)
        self._session_id = self._session_id or line.session_id
        if line.session_id != self._session_id:
            text = f"the line belongs to {line.session_id!r:.60}, not {self._session_id!r:.60}"
            self._report(FaultCode.SESSION_MISMATCH, text)
        if self._level is None and line.name != "session_init":
            self._report(FaultCode.SESSION_INIT_MISSING, "the log does not start with session_init")
            self._level = LogLevel.EVENTS

    def _check_call(self, event: LogEvent, line: LogLine) -> None:
        match event:
            case ProviderRequest():
                self._expect_response(event, line)
            case CallEvent(execution_id=execution_id):
                if execution_id not in self._executions:
                    text = f"{line.name} belongs to {execution_id}, which has no request"
                    self._report(FaultCode.PROVIDER_REQUEST_MISSING, text)
                elif code := _find_prevented_fault(event):
                    self._clear_expected(code, execution_id)
            case _:
                pass

    def _expect_response(self, event: ProviderRequest, line: LogLine) -> None:
        execution_id = event.execution_id
        if execution_id in self._executions:
            self._report(FaultCode.EXECUTION_ID_DUPLICATE, f"{execution_id} was used before")
        self._executions.add(execution_id)
        self.calls += 1
        code = FaultCode.PROVIDER_RESPONSE_NORMALIZED_MISSING
        self._expect(
            code, execution_id, line, f"{execution_id} has neither a response nor an error"
        )
        if self._level is LogLevel.RAW:
            code = FaultCode.PROVIDER_RESPONSE_RAW_MISSING
            self._expect(code, execution_id, line, f"{execution_id} has no raw response")
            if event.native:
                code = FaultCode.PROVIDER_NATIVE_RAW_PAYLOAD_MISSING
                self._expect(code, execution_id, line, f"{execution_id} has no HTTP response body")

    def _check_tool(self, event: ToolRequest | ToolOutcome | ToolCommitted, line: LogLine) -> None:
        call_id = event.call_id
        match event:
            case ToolRequest():
                if call_id in self._tools:
                    self._report(FaultCode.TOOL_CALL_DUPLICATE, f"{call_id} started twice")
                self._tools.add(call_id)
                self._committed.discard(call_id)
                text = f"{call_id} has no result"
                self._expect(FaultCode.TOOL_RESULT_MISSING, call_id, line, text)
            case ToolCommitted():
                self._committed.add(call_id)
                self._clear_expected(FaultCode.TOOL_MESSAGE_MISSING, call_id)
            case ToolOutcome() if call_id not in self._tools:
                text = f"{call_id} has a result but no request"
                self._report(FaultCode.TOOL_REQUEST_MISSING, text)
            case ToolOutcome():
                self._clear_expected(FaultCode.TOOL_RESULT_MISSING, call_id)
                if call_id not in self._committed:
                    text = f"the result of {call_id} is not in the history"
                    self._expect(FaultCode.TOOL_MESSAGE_MISSING, call_id, line, text)

    def _expect(self, code: FaultCode, owner: str, line: LogLine, text: str) -> None:
        self._expected[code, owner] = (line, text)

    def _clear_expected(self, code: FaultCode, owner: str) -> None:
        self._expected.pop((code, owner), None)

    def _report(self, code: FaultCode, text: str) -> None:
        self._reader.report(code, text, self._line)


def _find_prevented_fault(event: LogEvent) -> FaultCode | None:
    """Return the fault that a part of a response prevents."""
    match event:
        case NativePayload(payload_kind="response" | "stream_event"):
            return FaultCode.PROVIDER_NATIVE_RAW_PAYLOAD_MISSING
        case ResponseRaw():
            return FaultCode.PROVIDER_RESPONSE_RAW_MISSING
        case ResponseNormalized() | ProviderFailed():
            return FaultCode.PROVIDER_RESPONSE_NORMALIZED_MISSING
        case _:
            return None
