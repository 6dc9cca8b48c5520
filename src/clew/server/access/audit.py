"""The audit log: who asked for what, when, and what came of it.

One JSON line per request, in a file that only its owner may read. Lines hold the pattern of a
route and the id of a session, never a query, a header or a body; unknown paths are redacted.
"""

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.redaction.redactor import Redactor

AUDIT_FILE = "server-audit.jsonl"
"""In the user's folder."""
MAX_SIZE = 10 << 20
KEEP = 5
"""Files that are kept besides the current one."""
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_LONGEST = 200
_REMEMBERED = 512
_REPEAT_SECONDS = 60.0
_MAX_REPEATED = 1_000

logger = logging.getLogger(__name__)


class AuditLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the audit log."""

    time: str
    user: str = ""
    """Empty if the request was refused before the user was known, or needs no user."""
    address: str = ""
    method: str
    route: str
    """The pattern of the route, as `/api/v1/sessions/{id}`; a path if no route matches."""
    session: str = ""
    status: int
    outcome: str
    """`ok`, `opened` for a stream that begins, `failed`, or the type of the error."""
    milliseconds: int = 0
    repeated: int = 0
    """How many requests like this one were refused since the line before, within a minute."""


class AuditLog:
    """Appends to the audit log; when the file is full, it is renamed and a new one begins."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float],
        secrets: tuple[str, ...] = (),
        max_size: int = MAX_SIZE,
    ) -> None:
        """Open the log.

        Args:
            path: The file; others are beside it, with a number.
            clock: Tells the time in seconds since 1970.
            secrets: Texts that no line may hold.
            max_size: Bytes after which a new file begins.

        Raises:
            ConfigError: The file cannot be written.
        """
        self._path = path
        self._clock = clock
        redactor = Redactor(extra_values=secrets)
        self._clean = lru_cache(_REMEMBERED)(lambda text: _clean(redactor, text))
        """Redacts a text; routes, users and sessions repeat."""
        self._max_size = max_size
        self._repeated: dict[tuple[str, str, str], tuple[float, int]] = {}
        self._failed = False
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file, self._size = self._open(path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from error

    def write(self, line: AuditLine) -> None:
        """Append a line. A full disk stops the log, not the server: the error is logged once."""
        data = msgspec.json.encode(self._redact(line)) + b"\n"
        try:
            try:
                if self._size + len(data) > self._max_size:
                    self._rotate()
            finally:
                # Where no new file can begin, the full one grows.
                self._size += os.write(self._file, data)
            self._failed = False
        except OSError as error:
            if not self._failed:
                logger.error("the audit log %s cannot be written: %s", self._path, error)  # noqa: TRY400
            self._failed = True

    def write_refusal(self, line: AuditLine) -> None:
        """Append a refusal; equal ones within a minute are counted, and the next line says so."""
        key = (line.address, line.user, line.outcome)
        now = self._clock()
        begun, count = self._repeated.get(key, (now - _REPEAT_SECONDS, 0))
        if now - begun < _REPEAT_SECONDS:
            self._repeated[key] = (begun, count + 1)
            return
        self._repeated.pop(key, None)
        while len(self._repeated) >= _MAX_REPEATED:
            del self._repeated[next(iter(self._repeated))]
        self._repeated[key] = (now, 0)
        self.write(msgspec.structs.replace(line, repeated=count))

    def format_time(self) -> str:
        """Return the time of a line."""
        moment = datetime.fromtimestamp(self._clock(), UTC)
        return moment.isoformat(timespec="milliseconds")

    def close(self) -> None:
        """Close the file; call it once, at the end."""
        os.close(self._file)

    def _open(self, path: Path) -> tuple[int, int]:
        """Return the open file and its size."""
        file = os.open(path, _FLAGS, 0o600)
        try:
            os.fchmod(file, 0o600)
            return file, os.fstat(file).st_size
        except OSError:
            os.close(file)
            raise

    def _rotate(self) -> None:
        fresh = self._path.with_name(f"{self._path.name}.new")
        # The full file stays open until there is another: its number could become a database's.
        full, (self._file, self._size) = self._file, self._open(fresh)
        os.close(full)
        for number in range(KEEP - 1, -1, -1):
            older = self._get_path(number)
            if older.exists():
                older.replace(self._get_path(number + 1))
        fresh.replace(self._path)

    def _get_path(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _redact(self, line: AuditLine) -> AuditLine:
        return msgspec.structs.replace(
            line,
            user=self._clean(line.user),
            address=self._clean(line.address),
            method=self._clean(line.method),
            route=self._clean(line.route),
            session=self._clean(line.session),
        )


def _clean(redactor: Redactor, text: str) -> str:
    printable = text.encode("utf-8", "replace").decode()
    return redactor.text(printable)[:_LONGEST]
