"""Standard input, output and error: always open, with errors for closed pipes."""

import codecs
import contextlib
import errno
import io
import os
import stat
import sys
from pathlib import Path

import anyio
import msgspec

from clew.cli.paint import make_painter
from clew.core.errors import ClewError
from clew.core.sanitize import sanitize, sanitize_json
from clew.core.text import make_encodable

_REPLACEMENTS = dict(zip("█░→✓✗…│─", ("#", ".", "->", "+", "x", "...", "|", "-"), strict=True)) | {
    chr(0x2400 + code): f"^{chr(code + 64)}" for code in range(0x20)
}


class OutputLost(ClewError):
    """Standard output is closed or full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror or error}")
        self.closed = error.errno == errno.EPIPE
        """True when the reader has exited, as `head` does; not worth a message."""


def prepare_streams() -> bool:
    """Open closed streams and set their error handlers; returns False without standard output.

    A closed stream (`>&-`) is opened on the null device, so that no other file gets its number.
    Characters that an encoding lacks are replaced.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - stays open
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error("clew", _replace_characters)
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "clew"), (sys.stderr, "clew")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)
    return sys.stdout is not None


def write_out(text: str) -> None:
    """Write to standard output and flush it.

    Raises:
        OutputLost: It is closed or full; further output is discarded.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        discard_output()
        raise OutputLost(error) from error


def print_line(text: str, style: str = "") -> None:
    """Write sanitized text and a line break to standard output, in a style of `clew.cli.paint`.

    Raises:
        OutputLost: Standard output is closed or full.
    """
    shown = sanitize(text)
    write_out(f"{make_painter()(shown, style) if style else shown}\n")


def print_json(value: object, *, indent: bool = False) -> None:
    """Write a value to standard output as JSON without raw control characters.

    Raises:
        OutputLost: Standard output is closed or full.
    """
    data = msgspec.json.encode(make_encodable(value))
    text = (msgspec.json.format(data) if indent else data).decode()
    write_out(f"{sanitize_json(text)}\n")


async def wait_for_reader_exit() -> OutputLost:
    """Wait until the reader of standard output exits; forever if that is not a pipe."""
    if not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
        await anyio.sleep_forever()
    # The writing end of a pipe becomes "readable" only when its reader is gone.
    await anyio.wait_readable(sys.stdout.fileno())
    discard_output()
    return OutputLost(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


def write_err(text: str) -> None:
    """Write a sanitized message to standard error; does nothing if that is closed."""
    with contextlib.suppress(OSError):
        print(f"clew: {sanitize(text)}", file=sys.stderr, flush=True)


def discard_output() -> None:
    """Discard further output, so that flushing it at exit does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_characters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join(_REPLACEMENTS.get(character, "?") for character in characters), error.end
