"""Read a log line by line; damage is reported as faults, never raised."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.files.safe_read import read_regular
from clew.log.content_store import PAYLOAD_KEY, payload_folder, sha256, unescape_key
from clew.log.events import ENVELOPE, EVENT_NAMES, LogEvent, parse_event

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
    is_complete: bool
    """False when a payload is missing."""


class _Envelope(Struct, frozen=True):
    seq: int
    timestamp: str
    session_id: str
    event: str


def is_log(path: Path) -> bool:
    """Return True when the first readable line of a file is a log line."""
    with suppress(OSError), path.open("rb") as file:
        for line in file:
            try:
                decode_json(line, type=_Envelope)
            except msgspec.ValidationError:
                return False
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            return True
    return False


class _Unresolved(Exception):
    """A payload that is not text is missing, so the event cannot be parsed."""


class LogReader:
    """Iterates over the lines of the log at `path` and collects faults.

    Raises:
        ConfigError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[LogFault] = []
        self.lines = 0
        """How many lines were read so far."""
        self.payloads: dict[str, int] = {}
        """The size of each payload file that was read."""
        self._seq = 0
        self._unreadable: LogFault | None = None
        """An unreadable line; the next one shows whether a crash explains it."""
        if not path.is_file() or not os.access(path, os.R_OK):
            raise ConfigError(f"cannot read the session log {path}")

    def __iter__(self) -> Iterator[LogLine]:
        with self.path.open("rb") as file:
            for line in file:
                self.lines += 1
                if not line.isspace() and (read := self._read(line)) is not None:
                    yield read
        self._judge_unreadable(is_torn=True)

    def report(self, code: FaultCode, text: str) -> None:
        """Add a fault in the line that was read last."""
        self.faults.append(LogFault(code=code, text=text, line=self.lines, seq=self._seq))

    def _read(self, data: bytes) -> LogLine | None:
        try:
            fields = decode_json(data, type=dict[str, Any])
            envelope = msgspec.convert(fields, _Envelope)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._judge_unreadable(is_torn=False)
            text = f"not a log line: {error}"
            self._unreadable = LogFault(code=FaultCode.LINE_INVALID, text=text, line=self.lines)
            return None
        name, self._seq = envelope.event, envelope.seq
        self._judge_unreadable(is_torn=name == "session_init")
        known_faults = len(self.faults)
        fields = {key: value for key, value in fields.items() if key not in ENVELOPE}
        event: LogEvent | None = None
        try:
            if name not in EVENT_NAMES:
                self.report(FaultCode.EVENT_UNKNOWN, f"unknown event {name!r:.60}")
            else:
                if PAYLOAD_KEY.encode() in data:
                    fields = self._resolve(fields)
                event = parse_event(fields)
        except _Unresolved:
            pass
        except msgspec.ValidationError as error:
            self.report(FaultCode.EVENT_INVALID, f"{name}: {error}")
        return LogLine(
            number=self.lines,
            seq=envelope.seq,
            timestamp=envelope.timestamp,
            session_id=envelope.session_id,
            name=name,
            event=event,
            fields=fields,
            is_complete=len(self.faults) == known_faults,
        )

    def _judge_unreadable(self, *, is_torn: bool) -> None:
        if fault := self._unreadable:
            self.faults.append(replace(fault, code=FaultCode.LINE_TORN) if is_torn else fault)
        self._unreadable = None

    def _resolve(self, value: Any) -> Any:
        """Return `value` with its payloads; a missing text is replaced by a note."""
        match value:
            case {"$payload": str(name), "bytes": int(size)} if _PAYLOAD_NAME.fullmatch(name):
                data = self._read_payload(name, size)
                if name.endswith(".txt"):
                    lost = f"[payload {name} is lost]"
                    return lost if data is None else data.decode(errors="replace")
                if data is None:
                    raise _Unresolved
                return self._resolve(decode_json(data))
            case {"$payload": _}:
                text = f"{value!r:.200} is not a payload reference"
                self.report(FaultCode.PAYLOAD_REFERENCE_INVALID, text)
                raise _Unresolved
            case dict():
                return {unescape_key(key): self._resolve(inner) for key, inner in value.items()}
            case list():
                return [self._resolve(inner) for inner in value]
            case _:
                return value

    def _read_payload(self, name: str, size: int) -> bytes | None:
        """Return the content of a payload file if its size and hash are right."""
        try:
            data = read_regular(payload_folder(self.path) / name)
        except OSError as error:
            self.report(FaultCode.PAYLOAD_MISSING, f"cannot read {name}: {error.strerror}")
            return None
        if len(data) != size:
            text = f"{name} has {len(data):,} bytes instead of {size:,}"
            self.report(FaultCode.PAYLOAD_SIZE_MISMATCH, text)
            return None
        if sha256(data) != name[:64]:
            self.report(FaultCode.PAYLOAD_SHA256_MISMATCH, f"the content of {name} has changed")
            return None
        self.payloads[name] = size
        return data
