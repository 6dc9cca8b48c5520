"""Colours, the context gauge and times, as the terminal shows them."""

import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

from clew.cli.sanitize import sanitize_line
from clew.core.context_state import Basis, ContextState, Status

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


def format_time(at: float) -> str:
    """Return a time in the local time zone, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
