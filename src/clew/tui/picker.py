"""Lists to choose from: which session to open, and whether to trust a folder."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clew.core.sanitize import sanitize
from clew.tui.standard_output import write_out
from clew.tui.theme import Theme


@dataclass(frozen=True, slots=True)
class Row:
    """One line to choose."""

    text: str
    key: str = ""
    """The key that chooses it; its number by default."""


def pick(
    question: str,
    rows: Sequence[Row],
    *,
    theme: Theme,
    live: bool,
    read: Callable[[str], str] = input,
) -> int | None:
    """Let the user choose a row; returns its place, or None for none of them.

    Keys that were pressed before the question was shown do not answer it.

    Args:
        question: What to choose.
        rows: The choices.
        theme: How text is shown.
        live: Draw a list to select from, with arrows, keys or numbers. Otherwise, the list is
            printed and an answer is read as a line.
        read: Shows a prompt and reads a line, if the list is not live.
    """
    if live:
        from clew.tui.picker_list import PickerList  # noqa: PLC0415 - prompt_toolkit is slow to load

        keyed = [(_key(place, row), row.text) for place, row in enumerate(rows)]
        return PickerList(question, keyed, theme).run()
    _write(theme, *(f"  {_key(place, row)}  {row.text}" for place, row in enumerate(rows)))
    keys = [_key(place, row) for place, row in enumerate(rows)]
    _write(theme, f"{question} Enter leaves it as it is.")
    while True:
        write_out("")
        try:
            typed = read("choose: ").strip().lower()
        except (EOFError, KeyboardInterrupt):
            write_out("\n")
            return None
        if not typed:
            return None
        for place, key in enumerate(keys):
            if typed in (key, rows[place].text.lower()) or (rows[place].key and typed[:1] == key):
                return place
        _write(theme, f"answer with one of: {', '.join(keys)}")


def _key(place: int, row: Row) -> str:
    return row.key or str(place + 1)


def _write(theme: Theme, *lines: str) -> None:
    write_out("".join(f"{theme.encodable(sanitize(line))}\n" for line in lines))


def can_draw(environ_term: str) -> bool:
    """Return whether standard input and output are a terminal that can erase lines."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and environ_term.lower() not in ("", "dumb", "unknown")
