"""Reading a log: line by line, with what is wrong said and not raised."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.log.events import ENVELOPE, NAMES, LogEvent, typed
from clew.log.faults import Code, Fault
from clew.log.file import payload_folder
from clew.log.payloads import KEY, PayloadReader, Unresolved

OnFault = Callable[[Fault], None]


class LogLine(Struct, frozen=True, kw_only=True):
    """One line that could be read, its large fields put back."""

    number: int
    """Counted from 1."""
    seq: int
    timestamp: str
    session_id: str
    name: str
    """The name of the event."""
    event: LogEvent | None
    """None when this release does not know it, or cannot read it."""
    fields: dict[str, Any]
    is_whole: bool = True
    """False when a payload could not be put back."""


class _Envelope(Struct, frozen=True):
    seq: int
    timestamp: str
    session_id: str
    event: str


def is_log(path: Path) -> bool:
    """Say whether the first line of a file that can be read at all is one of a log."""
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
    """The lines of the log at `path`, and the faults that reading them finds.

    Raises:
        ConfigError: The file cannot be opened.
    """

    def __init__(self, path: Path, on_fault: OnFault | None = None) -> None:
        self.path = path
        self.payloads = PayloadReader(payload_folder(path))
        self.faults: list[Fault] = []
        self.lines = 0
        """How many lines were read so far."""
        self._on_fault = on_fault or self.faults.append
        self._torn: tuple[int, str] | None = None
        if not path.is_file() or not os.access(path, os.R_OK):
            raise ConfigError(f"{path} is no session log that can be read")

    def __iter__(self) -> Iterator[LogLine]:
        with self.path.open("rb") as file:
            for line in file:
                self.lines += 1
                if not line.isspace() and (read := self._line(line)) is not None:
                    yield read
        self._settle(is_tolerable=True)

    def fault(self, code: Code, text: str, line: LogLine | None = None) -> None:
        """Say that something is wrong, in `line` or where the reader is."""
        number = line.number if line else self.lines
        self._on_fault(Fault(code=code, text=text, line=number, seq=line.seq if line else 0))

    def _line(self, data: bytes) -> LogLine | None:
        try:
            fields = msgspec.json.decode(data, type=dict[str, Any])
            envelope = msgspec.convert(fields, _Envelope)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._settle(is_tolerable=False)
            self._torn = self.lines, f"it is no line of a log: {error}"
            return None
        self._settle(is_tolerable=envelope.event == "session_init")
        line = LogLine(
            number=self.lines,
            seq=envelope.seq,
            timestamp=envelope.timestamp,
            session_id=envelope.session_id,
            name=envelope.event,
            event=None,
            fields={key: value for key, value in fields.items() if key not in ENVELOPE},
        )
        if line.name not in NAMES:
            self.fault(Code.EVENT_UNKNOWN, f"the event {line.name!r:.60} is not known", line)
            return line
        return self._typed(line, data)

    def _typed(self, line: LogLine, data: bytes) -> LogLine:
        fields = line.fields
        lost: list[Code] = []

        def note(code: Code, text: str) -> None:
            lost.append(code)
            self.fault(code, text, line)

        try:
            if KEY.encode() in data:
                fields = self.payloads.resolved(fields, note)
            event = typed(fields)
        except Unresolved:
            return line
        except msgspec.ValidationError as error:
            self.fault(Code.EVENT_INVALID, f"{line.name}: {error}", line)
            return line
        return msgspec.structs.replace(line, fields=fields, event=event, is_whole=not lost)

    def _settle(self, *, is_tolerable: bool) -> None:
        """Judge a bad line by what follows it: a crash leaves one at the end."""
        if self._torn is None:
            return
        number, text = self._torn
        self._torn = None
        code = Code.LINE_TORN if is_tolerable else Code.LINE_INVALID
        self._on_fault(Fault(code=code, text=text, line=number))
