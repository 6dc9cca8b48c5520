"""Validate a log: check that it is complete and consistent.

`ReplayState` reports what does not fit together; the checks here find what is missing.
"""

from pathlib import Path

from msgspec import Struct

from clew.core.ids import CallId
from clew.log import events as log
from clew.log.reader import FaultCode, LogFault, LogLine
from clew.log.replay_state import ReplayState

_PREVENTED: dict[type, FaultCode] = {
    log.NativePayload: FaultCode.PROVIDER_NATIVE_RAW_PAYLOAD_MISSING,
    log.ResponseRaw: FaultCode.PROVIDER_RESPONSE_RAW_MISSING,
    log.ResponseNormalized: FaultCode.PROVIDER_RESPONSE_NORMALIZED_MISSING,
    log.ProviderFailed: FaultCode.PROVIDER_RESPONSE_NORMALIZED_MISSING,
}
"""The fault that each part of a response prevents."""


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
    state = ReplayState(path)
    validator = _Validator(state)
    for line in state.lines():
        validator.check(line)
    payloads = state.reader.payloads
    faults = (*state.faults, *validator.expected.values())
    return ValidationReport(
        lines=state.reader.lines,
        calls=validator.calls,
        entries=len(state.entries),
        payloads=len(payloads),
        payload_bytes=sum(payloads.values()),
        faults=tuple(sorted(faults, key=lambda fault: fault.line)),
    )


class _Validator:
    """Checks each line against the lines before it; only the end shows what is missing."""

    def __init__(self, state: ReplayState) -> None:
        self._state = state
        self._report = state.reader.report
        self.calls = 0
        self.expected: dict[tuple[FaultCode, str], LogFault] = {}
        """Faults of lines whose counterparts have not come yet, by code and id of the call."""
        self._seq = 0
        self._level: log.LogLevel | None = None
        self._executions: set[str] = set()
        self._tools: set[CallId] = set()
        self._committed: set[CallId] = set()

    def check(self, line: LogLine) -> None:
        """Check one line, after the state applied it."""
        self._check_envelope(line)
        match line.event:
            case log.SessionInit(level=level, format=version):
                self._level = level
                if version > log.FORMAT:
                    text = f"the log has format {version}, this Clew reads {log.FORMAT}"
                    self._report(FaultCode.FORMAT_UNKNOWN, f"{text}; update Clew")
            case log.ProviderRequest():
                self._check_request(line.event, line)
            case log.CallEvent():
                self._check_response(line.event)
            case log.ToolRequest(call_id=call_id):
                if call_id in self._tools:
                    self._report(FaultCode.TOOL_CALL_DUPLICATE, f"{call_id} started twice")
                self._tools.add(call_id)
                self._committed.discard(call_id)
                self._expect(FaultCode.TOOL_RESULT_MISSING, call_id, line, "has no result")
            case log.ToolCommitted(call_id=call_id):
                self._committed.add(call_id)
                self.expected.pop((FaultCode.TOOL_MESSAGE_MISSING, call_id), None)
            case log.ToolOutcome(call_id=call_id):
                self._check_tool_result(call_id, line)
            case _:
                pass

    def _check_envelope(self, line: LogLine) -> None:
        order = f"{line.seq} follows {self._seq}"
        if line.seq <= self._seq:
            self._report(FaultCode.SEQUENCE_DUPLICATE, order)
        elif line.seq != self._seq + 1:
            self._report(FaultCode.SEQUENCE_GAP, order)
        self._seq = max(self._seq, line.seq)
        expected = self._state.session_id
        if line.session_id != expected:
            text = f"the line belongs to {line.session_id!r:.60}, not {expected!r:.60}"
            self._report(FaultCode.SESSION_MISMATCH, text)
        if self._level is None and line.name != "session_init":
            self._report(FaultCode.SESSION_INIT_MISSING, "the log does not start with session_init")
            self._level = log.LogLevel.EVENTS

    def _check_request(self, event: log.ProviderRequest, line: LogLine) -> None:
        owner = event.execution_id
        if owner in self._executions:
            self._report(FaultCode.EXECUTION_ID_DUPLICATE, f"{owner} was used before")
        self._executions.add(owner)
        self.calls += 1
        code = FaultCode.PROVIDER_RESPONSE_NORMALIZED_MISSING
        self._expect(code, owner, line, "has neither a response nor an error")
        if self._level is log.LogLevel.RAW:
            code = FaultCode.PROVIDER_RESPONSE_RAW_MISSING
            self._expect(code, owner, line, "has no raw response")
            if event.native:
                code = FaultCode.PROVIDER_NATIVE_RAW_PAYLOAD_MISSING
                self._expect(code, owner, line, "has no HTTP response body")

    def _check_response(self, event: log.CallEvent) -> None:
        owner, code = event.execution_id, _PREVENTED.get(type(event))
        is_sent = isinstance(event, log.NativePayload) and event.payload_kind == "request"
        if owner not in self._executions:
            text = f"{event.__struct_config__.tag} belongs to {owner}, which has no request"
            self._report(FaultCode.PROVIDER_REQUEST_MISSING, text)
        elif code and not is_sent:
            self.expected.pop((code, owner), None)

    def _check_tool_result(self, call_id: CallId, line: LogLine) -> None:
        if call_id not in self._tools:
            text = f"{call_id} has a result but no request"
            self._report(FaultCode.TOOL_REQUEST_MISSING, text)
            return
        self.expected.pop((FaultCode.TOOL_RESULT_MISSING, call_id), None)
        if call_id not in self._committed:
            code = FaultCode.TOOL_MESSAGE_MISSING
            self._expect(code, call_id, line, "has a result that is not in the history")

    def _expect(self, code: FaultCode, owner: str, line: LogLine, text: str) -> None:
        """Prepare a fault, in case its counterpart never comes."""
        text = f"{owner} {text}"
        self.expected[code, owner] = LogFault(code=code, text=text, line=line.number, seq=line.seq)
