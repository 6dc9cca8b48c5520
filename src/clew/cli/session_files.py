"""Sessions that come from files, and go into them."""

import gzip
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path

from clew.cli.sanitize import sanitize_json
from clew.cli.streams import OutputLost, discard_output, tell, write_out
from clew.core.errors import ConfigError
from clew.importers.journal import import_session
from clew.importers.reader import KNOWN_FORMATS, read_session
from clew.stores.protocol import Store
from clew.stores.record import StoredSession
from clew.stores.transfer import Exported, import_export, read_export

_GZIP = b"\x1f\x8b"


def write_lines(lines: Iterable[bytes]) -> None:
    """Write to standard output byte for byte; to a terminal, harmlessly.

    Raises:
        OutputLost: It is closed or full.
    """
    if sys.stdout.isatty():
        for line in lines:
            write_out(sanitize_json(line.decode(errors="replace")))
        return
    try:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
    except OSError as error:
        discard_output()
        raise OutputLost(error) from error


async def read_file(name: str, store: Store, *, cwd: str) -> StoredSession:
    """Put the session of a file into `store`; of Clew's own, or of any other known kind.

    Raises:
        ConfigError: The file cannot be read, or holds no session.
        StoreError: The store cannot be written to.
    """
    exported = read_export(_bytes(name).split(b"\n"))
    if exported is not None:
        _tell(name, exported.problems)
        _check_whole(name, exported)
        return await import_export(store, exported, cwd=cwd)
    if name == "-":
        raise ConfigError("what came through the pipe is no session that `clew` exported")
    recorded = read_session(name)
    _tell(name, recorded.problems)
    return await store.record(await import_session(store, recorded))


def _check_whole(name: str, exported: Exported) -> None:
    wanted, found = exported.record.entries if exported.record else 0, len(exported.entries)
    if wanted and not found:
        raise ConfigError(f"{name} breaks off before its first entry; nothing was taken in")
    if found < wanted:
        tell(f"{name}: {found:,} of {wanted:,} entries are in the file")


def _bytes(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        data = Path(name).read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP) else data
    except (EOFError, gzip.BadGzipFile, zlib.error):
        # The importers read a broken archive as far as it goes.
        return b""
    except OSError as error:
        raise ConfigError(
            f"{name} cannot be read: {error.strerror}; Clew reads {KNOWN_FORMATS}"
        ) from error


def _tell(name: str, problems: Iterable[str]) -> None:
    for problem in problems:
        tell(f"{name}: {problem}")
