"""How things look in a terminal: colours, the context gauge, the loss report."""

import os
import sys
from collections.abc import Callable
from typing import TextIO

from clew.cli.sanitize import one_line
from clew.core.context_state import Basis, ContextState, LossReport, Status
from clew.extensions.commands.entries import format_loss

_CODES = {"green": 32, "yellow": 33, "red": 31, "dim": 2, "bold": 1, "cyan": 36}
_STATUS_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.CRITICAL: "red"}
_GAUGE_CELLS = 30
_SHOWN_DETAIL = 300
_STOPS = {
    "length": "the answer was cut off at the model's output limit; ask it to go on",
    "refused": "the model refused to answer",
}

_DUMB = frozenset({"", "dumb", "unknown"})

Paint = Callable[[str, str], str]


def is_dumb() -> bool:
    """Is the terminal one that only writes line after line, or of which nothing is known?"""
    return os.name == "posix" and os.environ.get("TERM", "").lower() in _DUMB


def painter(stream: TextIO | None = None) -> Paint:
    """Return a function that colours text if `stream` (standard output) shows colours."""
    stream = stream or sys.stdout
    shows = (stream.isatty() and not is_dumb()) or "FORCE_COLOR" in os.environ
    colours = "NO_COLOR" not in os.environ and shows

    def paint(text: str, style: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colours else text

    return paint


def gauge(state: ContextState, paint: Paint, note: str = "") -> str:
    """Draw how full the window is, in the colour of its status; `note` follows it, dimmed."""
    share = min(1.0, state.used_tokens / state.max_tokens)
    filled = round(share * _GAUGE_CELLS)
    bar = "█" * filled + "░" * (_GAUGE_CELLS - filled)
    about = "" if state.basis is Basis.EXACT else "~"
    text = (
        f"context [{bar}] {state.used_percentage:.0f}%  "
        f"{about}{state.used_tokens:,}/{state.max_tokens:,} tokens  {state.status}"
    )
    shown = paint(text, _STATUS_COLOURS[state.status])
    return f"{shown}  {paint(note, 'dim')}" if note else shown


def stop_note(reason: str, detail: str = "") -> str:
    """Return the sentence about an answer that did not end by itself; else nothing."""
    note = _STOPS.get(reason, "")
    return f"{note}: {one_line(detail, _SHOWN_DETAIL)}" if note and detail else note


def loss_report(report: LossReport) -> list[str]:
    """Tell what a compaction did to every entry."""
    kept = "lost        nothing: all of it is in the journal; /undo brings it back"
    return [*format_loss(report), kept]
