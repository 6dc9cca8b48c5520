"""Text files from an untrusted folder.

Only regular files are read, up to a limit: a pipe, a device or a huge file does no harm.
"""

from pathlib import Path

from msgspec import Struct

from clew.files.safe_read import NotRegularFile, read_regular

_BAD = "\N{REPLACEMENT CHARACTER}"


class InstructionText(Struct, frozen=True, kw_only=True):
    """The text of a file."""

    text: str
    whole: bool = True
    """False when the text is truncated; it then ends with a whole line."""
    damaged: bool = False
    """True when bytes that are not UTF-8 were replaced."""


class UnreadableFile(Exception):
    """A file cannot be read; the message continues a sentence that begins with the path."""


def exists(path: Path) -> bool:
    """Return whether a path exists; False if that cannot be checked."""
    try:
        return path.exists()
    except OSError:  # a link to a name that is too long
        return False


def read_text(real: Path, limit: int) -> InstructionText:
    """Return at most `limit` bytes of the file at `real`, a path without links.

    Raises:
        UnreadableFile: It does not exist, is not a regular file, or is not text.
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
    return InstructionText(text=text.replace("\r\n", "\n"), whole=whole, damaged=damaged)


def read_bytes(real: Path, limit: int) -> bytes:
    """Return the first `limit` bytes of a regular file.

    Raises:
        UnreadableFile: It does not exist or is not a regular file.
    """
    try:
        return read_regular(real, limit=limit)
    except NotRegularFile as error:
        raise UnreadableFile("is not a regular file") from error
    except OSError as error:
        raise UnreadableFile(f"cannot be read ({error.strerror})") from error


def truncate_lines(data: bytes, limit: int) -> bytes:
    """Return the lines of `data` that fit in `limit` bytes; part of a line if none fits."""
    head = data[: max(limit, 0)]
    if len(head) == len(data):
        return head
    line = head.rfind(b"\n") + 1
    return head[:line] if line else head.decode("utf-8", "ignore").encode()
