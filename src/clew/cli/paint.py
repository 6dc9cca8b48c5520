"""How things look in a terminal: colours, the context gauge, the loss report."""

import os
import sys
from collections.abc import Callable
from typing import TextIO

from clew.cli.harmless import one_line
from clew.core.report import LossReport
from clew.core.spending import Spending
from clew.core.state import Basis, ContextState, Status

_CODES = {"green": 32, "yellow": 33, "red": 31, "dim": 2, "bold": 1, "cyan": 36}
_STATUS_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.CRITICAL: "red"}
_GAUGE_CELLS = 30
_SHOWN_DETAIL = 300
_STOPS = {
    "length": "the answer was cut off at the model's output limit; ask it to go on",
    "refused": "the model refused to answer",
}

Paint = Callable[[str, str], str]


def painter(stream: TextIO | None = None) -> Paint:
    """Return a function that colours text if `stream` (standard output) shows colours."""
    stream = stream or sys.stdout
    colours = "NO_COLOR" not in os.environ and (stream.isatty() or "FORCE_COLOR" in os.environ)

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


def breakdown(state: ContextState) -> list[str]:
    """List what the window is filled with, largest first."""
    counts = {name: getattr(state.breakdown, name) for name in state.breakdown.__struct_fields__}
    rows = sorted(((tokens, name) for name, tokens in counts.items() if tokens), reverse=True)
    return [
        f"  {name.replace('_', ' '):<13} {tokens:>8,}  {tokens / state.max_tokens:5.1%}"
        for tokens, name in rows
    ]


def cost_lines(spent: Spending) -> list[str]:
    """Tell what a session has cost: money as far as it is known, calls and tokens."""
    usage = spent.usage
    money = f"${spent.usd:.4f}"
    if spent.unpriced:
        known = f"{money} and " if spent.unpriced < spent.calls else ""
        money = f"{known}{spent.unpriced} of {spent.calls} calls at unknown prices"
    return [
        f"  cost    {money}",
        f"  calls   {spent.calls:,}",
        f"  tokens  {usage.input_tokens:,} in ({usage.cache_read_tokens:,} from the cache, "
        f"{usage.cache_write_tokens:,} into it), {usage.output_tokens:,} out",
    ]


def stop_note(reason: str, detail: str = "") -> str:
    """Return the sentence about an answer that did not end by itself; else nothing."""
    note = _STOPS.get(reason, "")
    return f"{note}: {one_line(detail, _SHOWN_DETAIL)}" if note and detail else note


def loss_report(report: LossReport) -> list[str]:
    """Tell what a compaction did to every entry."""
    author = "the model" if report.author == "model" else "rules, no model"
    lines = [
        f"tokens      {report.tokens_before:,} → {report.tokens_after:,}",
        f"kept        {_ids(report.kept)} word for word",
        f"summarised  {_ids(report.summarised)} (summary written by {author})",
    ]
    if report.cleared:
        lines.append(f"shortened   {_ids(report.cleared)}")
    if report.archived:
        lines.append(f"archived    {_ids(report.archived)}")
    lines.append("lost        nothing: all of it is in the journal; /undo brings it back")
    return lines


def _ids(ids: tuple[int, ...]) -> str:
    if not ids:
        return "nothing"
    runs: list[list[int]] = []
    for entry_id in sorted(ids):
        if runs and entry_id == runs[-1][1] + 1:
            runs[-1][1] = entry_id
        else:
            runs.append([entry_id, entry_id])
    shown = ", ".join(f"#{a}" if a == b else f"#{a}-#{b}" for a, b in runs)
    return f"{len(ids)} ({shown})"
