"""Read a log line by line; damage is reported as faults, never raised."""

import os
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.files.safe_read import read_regular
from clew.log.content_store import PAYLOAD_KEY, sha256, unescape
from clew.log.events import ENVELOPE, EVENT_NAMES, LogEvent, parse_event
from clew.log.log_file import payload_folder

_PAYLOAD_NAME = re.compile(r"[0-9a-f]{64}\.(?:txt|json)")


class FaultCode(StrEnum):
    """What can be wrong with a log."""

    LINE_TORN = "LINE_TORN"
    """The last line of the file, or the last one before a resume, is incomplete."""
    LINE_INVALID = "LINE_INVALID"
    """Another line is not a log line."""
    EVENT_UNKNOWN = "EVENT_UNKNOWN"
    """A newer Clew wrote the event."""
    EVENT_INVALID = "EVENT_INVALID"
    """The fields do not belong to the event."""
    FORMAT_UNKNOWN = "FORMAT_UNKNOWN"
    """The log has a newer format."""
    SESSION_INIT_MISSING = "SESSION_INIT_MISSING"
    SESSION_MISMATCH = "SESSION_MISMATCH"
    """A line belongs to another session."""
    SEQUENCE_GAP = "SEQUENCE_GAP"
    SEQUENCE_DUPLICATE = "SEQUENCE_DUPLICATE"
    """A number is repeated or out of order."""
    PAYLOAD_REFERENCE_INVALID = "PAYLOAD_REFERENCE_INVALID"
    PAYLOAD_MISSING = "PAYLOAD_MISSING"
    PAYLOAD_SIZE_MISMATCH = "PAYLOAD_SIZE_MISMATCH"
    PAYLOAD_SHA256_MISMATCH = "PAYLOAD_SHA256_MISMATCH"
    PROVIDER_NATIVE_RAW_PAYLOAD_MISSING = "PROVIDER_NATIVE_RAW_PAYLOAD_MISSING"
    PROVIDER_RESPONSE_RAW_MISSING = "PROVIDER_RESPONSE_RAW_MISSING"
    PROVIDER_RESPONSE_NORMALIZED_MISSING = "PROVIDER_RESPONSE_NORMALIZED_MISSING"
    PROVIDER_REQUEST_MISSING = "PROVIDER_REQUEST_MISSING"
    """A response has no request."""
    EXECUTION_ID_DUPLICATE = "EXECUTION_ID_DUPLICATE"
    CONTENT_MISSING = "CONTENT_MISSING"
    """A request refers to a content that no earlier line contains."""
    CONTENT_SHA256_MISMATCH = "CONTENT_SHA256_MISMATCH"
    REQUEST_BASE_INVALID = "REQUEST_BASE_INVALID"
    """A request continues one that is missing or too short."""
    REQUEST_HISTORY_MISMATCH = "REQUEST_HISTORY_MISMATCH"
    """A request differs from the history at that point."""
    TOOL_RESULT_MISSING = "TOOL_RESULT_MISSING"
    TOOL_REQUEST_MISSING = "TOOL_REQUEST_MISSING"
    """A tool result has no request."""
    TOOL_MESSAGE_MISSING = "TOOL_MESSAGE_MISSING"
    """A tool result is not in the history."""
    TOOL_CALL_DUPLICATE = "TOOL_CALL_DUPLICATE"
    HISTORY_ENTRY_INVALID = "HISTORY_ENTRY_INVALID"
    HISTORY_ENTRY_GAP = "HISTORY_ENTRY_GAP"
    HISTORY_ENTRY_DUPLICATE = "HISTORY_ENTRY_DUPLICATE"
    HISTORY_TARGET_UNKNOWN = "HISTORY_TARGET_UNKNOWN"
    """An entry changes another entry that is missing."""

    @property
    def is_tolerated(self) -> bool:
        """True for the traces of a crash or of a newer Clew; the rest of the log is reliable."""
        return self in {FaultCode.LINE_TORN, FaultCode.EVENT_UNKNOWN}


class LogFault(Struct, frozen=True, kw_only=True):
    """One fault and its place."""

    code: FaultCode
    text: str
    line: int
    """Counted from 1; the last line for something that is missing altogether."""
    seq: int = 0
    """The number of the event; 0 when it has none."""

    def __str__(self) -> str:
        place = f"line {self.line}" + (f" (seq {self.seq})" if self.seq else "")
        return f"{self.code} {place}: {self.text}"


class LogLine(Struct, frozen=True, kw_only=True):
    """One readable line, with its large fields restored."""

    number: int
    """Counted from 1."""
    seq: int
    timestamp: str
    session_id: str
    name: str
    """The name of the event."""
    event: LogEvent | None
    """None when this version cannot read the event."""
    fields: dict[str, Any]
    is_complete: bool = True
    """False when a payload is missing."""


class _Envelope(Struct, frozen=True):
    seq: int
    timestamp: str
    session_id: str
    event: str


def is_log(path: Path) -> bool:
    """Return True when the first readable line of a file is a log line."""
    try:
        with path.open("rb") as file:
            for line in file:
                try:
                    msgspec.json.decode(line, type=_Envelope)
                except msgspec.ValidationError:
                    return False
                except (msgspec.DecodeError, UnicodeDecodeError):
                    continue
                return True
    except OSError:
        return False
    return False


class LogReader:
    """Iterates over the lines of the log at `path` and collects faults.

    Raises:
        ConfigError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.payloads = PayloadReader(payload_folder(path))
        self.faults: list[LogFault] = []
        self.lines = 0
        """How many lines were read so far."""
        self._torn: tuple[int, str] | None = None
        if not path.is_file() or not os.access(path, os.R_OK):
            raise ConfigError(f"cannot read the session log {path}")

    def __iter__(self) -> Iterator[LogLine]:
        with self.path.open("rb") as file:
            for line in file:
                self.lines += 1
                if not line.isspace() and (read := self._read(line)) is not None:
                    yield read
        self._judge_torn(is_tolerated=True)

    def report(self, code: FaultCode, text: str, line: LogLine | None = None) -> None:
        """Add a fault in `line`, or in the line that was read last."""
        number, seq = (line.number, line.seq) if line else (self.lines, 0)
        self.faults.append(LogFault(code=code, text=text, line=number, seq=seq))

    def _read(self, data: bytes) -> LogLine | None:
        try:
            fields = msgspec.json.decode(data, type=dict[str, Any])
            envelope = msgspec.convert(fields, _Envelope)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._judge_torn(is_tolerated=False)
            self._torn = self.lines, f"not a log line: {error}"
            return None
        self._judge_torn(is_tolerated=envelope.event == "session_init")
        line = LogLine(
            number=self.lines,
            seq=envelope.seq,
            timestamp=envelope.timestamp,
            session_id=envelope.session_id,
            name=envelope.event,
            event=None,
            fields={key: value for key, value in fields.items() if key not in ENVELOPE},
        )
        if line.name not in EVENT_NAMES:
            self.report(FaultCode.EVENT_UNKNOWN, f"unknown event {line.name!r:.60}", line)
            return line
        return self._parse(line, data)

    def _parse(self, line: LogLine, data: bytes) -> LogLine:
        fields = line.fields
        before = len(self.faults)
        try:
            if PAYLOAD_KEY.encode() in data:
                fields = self.payloads.resolve(
                    fields, lambda code, text: self.report(code, text, line)
                )
            event = parse_event(fields)
        except _Unresolved:
            return line
        except msgspec.ValidationError as error:
            self.report(FaultCode.EVENT_INVALID, f"{line.name}: {error}", line)
            return line
        is_complete = len(self.faults) == before
        return msgspec.structs.replace(line, fields=fields, event=event, is_complete=is_complete)

    def _judge_torn(self, *, is_tolerated: bool) -> None:
        """Report an unreadable line; what follows shows whether a crash explains it."""
        if self._torn is not None:
            number, text = self._torn
            self._torn = None
            code = FaultCode.LINE_TORN if is_tolerated else FaultCode.LINE_INVALID
            self.faults.append(LogFault(code=code, text=text, line=number))


ReportFault: TypeAlias = Callable[[FaultCode, str], None]


class _Unresolved(Exception):
    """A payload that is not text is missing, so the event cannot be parsed."""


class PayloadReader:
    """Replaces references by the contents of their files, after checking size and hash."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files: dict[str, int] = {}
        """The size of each file that was read."""

    def resolve(self, value: Any, report: ReportFault) -> Any:
        """Return `value` with its contents; a missing text is replaced by a note.

        Raises:
            _Unresolved: Something other than a text is missing.
        """
        match value:
            case dict() if PAYLOAD_KEY in value:
                return self._content(value, report)
            case dict():
                return {unescape(k): self.resolve(v, report) for k, v in value.items()}
            case list():
                return [self.resolve(v, report) for v in value]
            case _:
                return value

    def _content(self, reference: dict[str, Any], report: ReportFault) -> Any:
        name, size = reference.get(PAYLOAD_KEY), reference.get("bytes")
        if (
            not isinstance(name, str)
            or not isinstance(size, int)
            or not _PAYLOAD_NAME.fullmatch(name)
        ):
            text = f"{reference!r:.200} is not a payload reference"
            report(FaultCode.PAYLOAD_REFERENCE_INVALID, text)
            raise _Unresolved
        data = self._read(name, size, report)
        if name.endswith(".txt"):
            return f"[payload {name} is lost]" if data is None else data.decode(errors="replace")
        if data is None:
            raise _Unresolved
        return self.resolve(msgspec.json.decode(data), report)

    def _read(self, name: str, size: int, report: ReportFault) -> bytes | None:
        try:
            data = read_regular(self._folder / name)
        except OSError as error:
            report(FaultCode.PAYLOAD_MISSING, f"cannot read {name}: {error.strerror}")
        else:
            if len(data) != size:
                text = f"{name} has {len(data):,} bytes instead of {size:,}"
                report(FaultCode.PAYLOAD_SIZE_MISMATCH, text)
            elif sha256(data) != name[:64]:
                report(FaultCode.PAYLOAD_SHA256_MISMATCH, f"the content of {name} has changed")
            else:
                self.files[name] = size
                return data
        return None
