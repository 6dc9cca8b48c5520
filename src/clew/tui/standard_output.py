"""Writing to standard output, with an error when its reader has exited."""

import contextlib
import errno
import os
import stat
import sys

import anyio

from clew.core.errors import ClewError


class OutputLost(ClewError):
    """Standard output is closed or full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror or error}")
        self.closed = error.errno == errno.EPIPE
        """True when the reader has exited, as `head` does; not worth a message."""


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


async def wait_for_reader_exit() -> OutputLost:
    """Wait until the reader of standard output exits; forever if that is not a pipe."""
    if not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
        await anyio.sleep_forever()
    # The writing end of a pipe becomes "readable" only when its reader is gone.
    await anyio.wait_readable(sys.stdout.fileno())
    discard_output()
    return OutputLost(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


def discard_output() -> None:
    """Discard further output, so that flushing it at exit does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
