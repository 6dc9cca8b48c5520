"""Reading a small text file that somebody else may have put there.

Nothing but a regular file is read, and never more than asked for: a pipe, a device or a file
of a hundred gigabytes costs no more than a line of text.
"""

from pathlib import Path

from msgspec import Struct

from clew.files.safe_read import NotRegularFile, read_regular

_BAD = "\N{REPLACEMENT CHARACTER}"


class TextFile(Struct, frozen=True, kw_only=True):
    """What was read."""

    text: str
    whole: bool = True
    """False when the file goes on; the text then ends with a line."""
    damaged: bool = False
    """True when bytes that are not UTF-8 were replaced."""


class UnreadableFile(Exception):
    """There is no text to be had; the message says why, in the middle of a sentence."""


def exists(path: Path) -> bool:
    """Say whether something is there; what cannot be asked for is not."""
    try:
        return path.exists()
    except OSError:  # a link to a name that is too long
        return False


def read_text(real: Path, limit: int) -> TextFile:
    """Return at most `limit` bytes of the file at `real`, a path without links.

    Raises:
        Unreadable: It is not there, not a regular file, or not text.
    """
    data = read_bytes(real, limit + 1)
    whole = len(data) <= limit
    if not whole:
        data = truncate_lines(data, limit)
    text = data.decode("utf-8-sig", "replace")
    bad = text.count(_BAD)
    if b"\0" in data or bad * 10 > len(text):
        raise UnreadableFile("is not text")
    damaged = bad > data.count(_BAD.encode())
    return TextFile(text=text.replace("\r\n", "\n"), whole=whole, damaged=damaged)


def read_bytes(real: Path, limit: int) -> bytes:
    """Return the first `limit` bytes of a regular file.

    Raises:
        Unreadable: It is not there or not a regular file.
    """
    try:
        return read_regular(real, limit=limit)
    except NotRegularFile as error:
        raise UnreadableFile("is not a file") from error
    except OSError as error:
        raise UnreadableFile(f"cannot be read ({error.strerror})") from error


def truncate_lines(data: bytes, limit: int) -> bytes:
    """Return the lines of `data` that fit in `limit` bytes; part of a line if none does."""
    head = data[: max(limit, 0)]
    if len(head) == len(data):
        return head
    line = head.rfind(b"\n") + 1
    return head[:line] if line else head.decode("utf-8", "ignore").encode()
