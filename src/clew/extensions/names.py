"""What skills and agents are called, and one line about each."""

import re

from clew.core.text import one_line

_NAME = re.compile(r"\w[\w.-]{0,63}")


def choose_name(wanted: str, file: str) -> tuple[str, tuple[str, ...]]:
    """Return the name that a thing is called by, and what is wrong with the one it wants.

    A name is one word of at most 64 letters, digits, `_`, `.` and `-`, so that it can be
    typed. A thing that wants another one is called what its file or folder is called.
    """
    if _NAME.fullmatch(wanted):
        return wanted, ()
    problem = (f"`{one_line(wanted)[:80]}` is no name to call it by",) if wanted else ()
    return as_word(file), problem


def as_word(name: str) -> str:
    """Return the name of a file or folder as one word."""
    return re.sub(r"[^\w.-]+", "-", name)[:64]
