"""The part of the index that a session begins with: never more than a fixed amount."""

from typing import Final

MAX_LINES: Final = 200
MAX_BYTES: Final = 25 * 1024
_NOTE_ROOM = 160
"""Bytes kept for the line that says that something is missing."""


def startup_text(text: str, *, goes_on: bool = False, name: str = "MEMORY.md") -> str:
    """Return the beginning of an index: at most 200 lines of it, and at most 25 KB in all.

    It is cut after a line; a first line that is too long by itself is cut after a character.
    When something is missing, a last line says so.

    Args:
        text: The index, or its beginning.
        goes_on: The index has more than `text`, which is then too long by itself.
        name: How the file is called in that last line.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")
    whole = "\n".join(lines)
    if not goes_on and len(lines) <= MAX_LINES and len(whole.encode()) <= MAX_BYTES:
        return whole
    kept = _first(lines[:MAX_LINES], MAX_BYTES - _NOTE_ROOM)
    if not kept:
        kept = [_first_characters(lines[0], MAX_BYTES - _NOTE_ROOM)]
    return "\n".join([*kept, f"[{name} goes on: of its lines the first {len(kept)} are shown]"])


def _first(lines: list[str], room: int) -> list[str]:
    kept = []
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    return kept


def _first_characters(line: str, room: int) -> str:
    return line.encode()[:room].decode("utf-8", "ignore")
