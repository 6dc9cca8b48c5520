"""What a program wrote: bounded in memory, and put into text that can be read and stored."""

import re

from msgspec import Struct, field

MAX_BYTES = 10_000_000
"""Kept in memory of one call: the first and the last half of this."""

_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # device strings
    r"|[ -/]+[0-~]"  # character sets
    r"|[0-~]"
    r")"
)
_STRUCK_OVER = re.compile(r"[^\n\x08]\x08")
_UNPRINTABLE = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\ufffd]+")


class HeadTail(Struct):
    """Keeps the beginning and the end of a stream of bytes, and counts what it drops."""

    limit: int = MAX_BYTES
    dropped: int = 0
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        room = self.limit // 2 - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        excess = len(self.tail) - self.limit // 2
        if excess > 0:
            del self.tail[:excess]
            self.dropped += excess

    def text(self) -> str:
        """What was kept, made printable, with a line where something is missing."""
        if not self.dropped:
            return printable(bytes(self.head + self.tail))
        note = f"[{self.dropped:,} bytes left out: more than {self.limit:,} are not kept]"
        return f"{printable(bytes(self.head))}\n{note}\n{printable(bytes(self.tail))}"


def printable(data: bytes) -> str:
    """Return what a program wrote as text without control codes.

    Colours and cursor movements go, a carriage return begins a new line, and a run of bytes
    that are no text becomes one sign for an unreadable character.
    """
    text = data.decode(errors="replace")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\x08" in text:
        text = _STRUCK_OVER.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNPRINTABLE.sub("\ufffd", text)
