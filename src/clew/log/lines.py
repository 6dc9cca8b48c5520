"""Writing events as lines: numbered, dated, without secrets. A failure is reported once."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.text import make_encodable
from clew.log.events import LogEvent
from clew.log.file import LogFile, Tail, payload_folder
from clew.log.payloads import PayloadWriter
from clew.log.secrets import Redaction

logger = logging.getLogger(__name__)


class _Fields(Struct):
    fields: dict[str, Any]


class Lines:
    """The log of one session while it is written. Whatever goes wrong here breaks no run."""

    def __init__(
        self,
        *,
        redaction: Redaction,
        limit: int,
        clock: Callable[[], float],
        on_loss: Callable[[str | None], None],
    ) -> None:
        """Make a log that is not open yet.

        Args:
            redaction: Done to all that is written.
            limit: Bytes above which a field goes into a file of its own.
            clock: Seconds since the epoch.
            on_loss: Told that lines were lost; with words when that is worth a report.
        """
        self.redaction = redaction
        self._limit = limit
        self._clock = clock
        self._on_loss = on_loss
        self._session_id = ""
        self._path: Path | None = None
        self._file: LogFile | None = None
        self._payloads: PayloadWriter | None = None
        self._seq = 0
        self._told: set[str] = set()
        """The reasons for failures that were reported."""

    def open(self, path: Path, session_id: str) -> Tail:
        """Begin the log at `path`, or go on with it; returns where it ended.

        Raises:
            OSError: It cannot be opened.
        """
        self.close()
        self._path = path
        self._file = LogFile(path)
        self._payloads = PayloadWriter(payload_folder(path), limit=self._limit)
        self._session_id = session_id
        self._seq = self._file.tail.seq
        return self._file.tail

    @property
    def next_seq(self) -> int:
        """The number that the next line will have."""
        return self._seq + 1

    def write(self, event: LogEvent, *, is_clean: bool = False) -> None:
        """Write one event. With `is_clean`, its secrets were taken out before.

        Raises:
            OSError: The line may not be in the log; the next one will begin a new line.
        """
        fields: dict[str, Any] = msgspec.to_builtins(event, str_keys=True, enc_hook=str)
        self.write_fields(fields if is_clean else self.redaction.value(fields))

    def write_fields(self, fields: dict[str, Any]) -> None:
        """Write the fields of one event, from which secrets were taken out; raises as `write`."""
        if self._file is None or self._payloads is None:
            return
        self._seq += 1
        stamp = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        envelope = {"seq": self._seq, "timestamp": stamp, "session_id": self._session_id}
        try:
            line = self._payloads.encode({**envelope, **fields})
        except UnicodeEncodeError:
            line = self._payloads.encode({**envelope, **make_encodable(_Fields(fields)).fields})
        self._file.append(line)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Do something for the log; what it raises is reported, each reason once."""
        try:
            yield
        except Exception as error:
            reason = error.strerror if isinstance(error, OSError) else repr(error)
            text = None
            if str(reason) not in self._told:
                self._told.add(str(reason))
                text = f"the session log {self._path or ''} cannot be written: {reason}"
                logger.exception("the session log failed")
            self._on_loss(text)

    def close(self) -> None:
        """Let go of the file; harmless when called again."""
        if self._file is not None:
            self._file.close()
            self._file = None
