"""The three streams of the process: always there, and their end is noticed."""

import codecs
import contextlib
import errno
import io
import os
import stat
import sys
from pathlib import Path

import anyio

from clew.cli.sanitize import sanitize
from clew.core.errors import ClewError

_STAND_INS = dict(zip("█░→✓✗…│─", ("#", ".", "->", "+", "x", "...", "|", "-"), strict=True)) | {
    chr(0x2400 + code): f"^{chr(code + 64)}" for code in range(0x20)
}


class OutputLost(ClewError):
    """Nobody can read what is written any more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {error.strerror or error}")
        self.closed = error.errno == errno.EPIPE
        """True when the reader left, as `head` does: nothing that needs to be said."""


def prepare() -> bool:
    """Make reading and writing safe; returns False when there is no standard output.

    A stream that was closed (`>&-`) gets its number back, so that no file of ours takes it.
    What an encoding cannot show is replaced, and never an error.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - lasts as long as we
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error("clew", _stand_in)
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "clew"), (sys.stderr, "clew")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    return sys.stdout is not None


def write_out(text: str) -> None:
    """Write to standard output at once.

    Raises:
        OutputLost: It is closed or full. What follows is thrown away.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        discard_output()
        raise OutputLost(error) from error


async def reader_left() -> OutputLost:
    """Wait until nobody reads the pipe at standard output; for ever where it is no pipe."""
    if not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
        await anyio.sleep_forever()
    # The writing end of a pipe becomes "readable" only by the error that nobody reads it.
    await anyio.wait_readable(sys.stdout.fileno())
    discard_output()
    return OutputLost(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


def tell(text: str) -> None:
    """Say a sentence on standard error, whoever wrote its words; nothing when that is closed."""
    with contextlib.suppress(OSError):
        print(f"clew: {sanitize(text)}", file=sys.stderr, flush=True)


def discard_output() -> None:
    """Throw away what is still to be written, so that leaving does not fail over it."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_STAND_INS.get(sign, "?") for sign in signs), error.end
