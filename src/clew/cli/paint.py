"""Colours, the context gauge and times, as the terminal shows them."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from clew.core.context_state import Basis, ContextState, Status
from clew.core.sanitize import sanitize_line

_CODES = {"green": 32, "yellow": 33, "red": 31, "dim": 2, "bold": 1, "cyan": 36}
_STATUS_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.CRITICAL: "red"}
_GAUGE_CELLS = 30
_MAX_DETAIL = 300
_STOP_NOTES = {
    "length": "the answer was cut off at the model's output limit; ask the model to continue",
    "refused": "the model refused to answer",
}

_DUMB = frozenset({"", "dumb", "unknown"})

Paint = Callable[[str, str], str]


def is_dumb() -> bool:
    """Return whether the terminal can only append lines, or is unknown."""
    return os.name == "posix" and os.environ.get("TERM", "").lower() in _DUMB


def make_painter(stream: TextIO | None = None) -> Paint:
    """Return a function that colours text if `stream` (standard output) supports colours."""
    stream = stream or sys.stdout
    supported = (stream.isatty() and not is_dumb()) or "FORCE_COLOR" in os.environ
    colours = "NO_COLOR" not in os.environ and supported

    def paint(text: str, style: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colours else text

    return paint


def draw_gauge(state: ContextState, paint: Paint, note: str = "") -> str:
    """Draw how full the context window is, in the colour of its status, then `note` dimmed."""
    share = min(1.0, state.used_tokens / state.max_tokens)
    filled = round(share * _GAUGE_CELLS)
    bar = "█" * filled + "░" * (_GAUGE_CELLS - filled)
    approximately = "" if state.basis is Basis.EXACT else "~"
    text = (
        f"context [{bar}] {state.used_percentage:.0f}%  "
        f"{approximately}{state.used_tokens:,}/{state.max_tokens:,} tokens  {state.status}"
    )
    shown = paint(text, _STATUS_COLOURS[state.status])
    return f"{shown}  {paint(note, 'dim')}" if note else shown


def stop_note(reason: str, detail: str = "") -> str:
    """Return a sentence about an answer that stopped early; empty for one that is complete."""
    note = _STOP_NOTES.get(reason, "")
    return f"{note}: {sanitize_line(detail, _MAX_DETAIL)}" if note and detail else note


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines: the first column to the left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def format_time(at: float) -> str:
    """Return a time in the local time zone, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


class ProgressBar:
    """Draws a bar on standard error if that is a terminal, and erases it at the end."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def show(self, done: int, total: int, text: str) -> None:
        """Draw how much is done, and of what."""
        if self._live:
            filled = done * _GAUGE_CELLS // max(1, total)
            bar = "█" * filled + "░" * (_GAUGE_CELLS - filled)
            line = f"[{bar}] {done}/{total} {sanitize_line(text, _MAX_DETAIL)}"
            print(f"\r\x1b[K{line[:100]}", end="", file=sys.stderr, flush=True)
