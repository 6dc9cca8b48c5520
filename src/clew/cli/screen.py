"""Showing the events of a session on a plain terminal."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clew.cli.harmless import harmless, one_line
from clew.cli.paint import Paint, gauge, loss_report, stop_note
from clew.cli.streams import OutputLost, reader_left, write_out
from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    CompactionProgress,
    CompactionStarted,
    EntryAdded,
    Event,
    ReasoningDelta,
    RunEnded,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Warned,
)
from clew.core.state import ContextState

_SHOWN_ARGUMENTS = 100
_SHOWN_OUTCOME = 120
_SHOWN_FAILURE = 400
WAITING = "…"


class Screen:
    """Writes events as lines, from whichever thread.

    All text is made harmless on its way. When standard output is gone, writing does nothing
    and `on_lost` is called at the next event; `check` tells the main thread.
    """

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._open_line = False
        self._hinted = False
        self._lock = threading.RLock()
        self._held: list[Event] | None = None
        self._lost: OutputLost | None = None
        self.on_lost: Callable[[], object] = lambda: None
        self.by_hand = False
        """True while a person runs a tool: its output is shown by other means."""
        self.call: ToolStarted | None = None
        """The tool call that was taken up last."""
        self.entries = 0
        """How many entries are known to be on disk."""

    def __call__(self, event: Event) -> None:
        """Show one event, or keep it while a question is open."""
        with self._lock:
            if isinstance(event, ToolStarted):
                self.call = event
            if self._held is None:
                self._show(event)
            else:
                self._held.append(event)
        if self._lost is not None:
            self.on_lost()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Show no events in the `with` block, so that none stands between question and answer."""
        with self._lock:
            self._held = []
        try:
            yield
        finally:
            with self._lock:
                kept, self._held = self._held, None
                for event in kept:
                    self._show(event)

    def check(self) -> None:
        """Raise `OutputLost` if there is nobody to show anything to."""
        if self._lost is not None:
            raise self._lost

    async def watch(self) -> None:
        """Notice that the reader of a pipe left, also while there is nothing to write."""
        self._lost = await reader_left()
        self.on_lost()

    def line(self, text: str = "", style: str = "") -> None:
        """Write a line of its own, made harmless."""
        clean = harmless(text)
        with self._lock:
            self.end_line()
            self._put(f"{self._paint(clean, style) if style else clean}\n")

    def lines(self, *texts: str, style: str = "") -> None:
        """Write several lines."""
        for text in texts:
            self.line(text, style)

    def gauge(self, state: ContextState, note: str = "") -> None:
        """Draw how full the window is."""
        with self._lock:
            self.end_line()
            self._put(f"{gauge(state, self._paint, note)}\n")

    def hint(self, text: str = WAITING) -> None:
        """Show a word that the next output erases; on a terminal only."""
        with self._lock:
            if self._live and self._held is None:
                self.end_line()
                self._put(self._paint(one_line(text, 60), "dim"))
                self._hinted = True

    def end_line(self) -> None:
        """End the line that streamed words left open; erase a hint."""
        with self._lock:
            if self._open_line:
                self._put("\n")
            self._unhint()

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._write(text)
            case ReasoningDelta(text=text):
                self._write(text, "dim")
            case ToolStarted() | ToolEnded():
                self._show_tool(event)
            case EntryAdded(entry=entry):
                self.entries = entry.id
            case Warned(text=text):
                self.line(f"note: {text}", "yellow")
            case RunEnded(stop_reason=reason, detail=detail):
                self.end_line()
                if note := stop_note(reason, detail):
                    self.line(f"note: {note}", "yellow")
            case _:
                self._show_compaction(event)

    def _show_tool(self, event: ToolStarted | ToolEnded) -> None:
        if self.by_hand:
            return
        match event:
            case ToolStarted(name=name, arguments=arguments):
                self.line(f"→ {one_line(f'{name} {arguments}', _SHOWN_ARGUMENTS)}", "cyan")
            case ToolEnded(name=name, failed=True, display=display):
                self.line(f"✗ {name}: {one_line(display, _SHOWN_FAILURE)}", "red")
                self.hint()
            case ToolEnded(name=name, display=display):
                self.line(f"✓ {name}: {outcome(display)}", "dim")
                self.hint()

    def _show_compaction(self, event: Event) -> None:
        match event:
            case CompactionStarted(trigger=trigger):
                self.line(f"compacting ({trigger}) …", "yellow")
            case CompactionProgress(stage=stage, done=done, total=total):
                self.hint(f"{stage} {done:,}" + (f" of {total:,}" if total else " characters"))
            case CompactionFailed(why=why):
                self.line(f"the compaction failed, and the view is as it was: {why}", "yellow")
            case CompactionEnded(report=report, after=after):
                self.lines(*(f"  {line}" for line in loss_report(report)))
                self.gauge(after)
                self.hint()
            case _:
                pass

    def _write(self, text: str, style: str = "") -> None:
        clean = harmless(text)
        self._unhint()
        self._put(self._paint(clean, style) if style else clean)
        self._open_line = not text.endswith("\n")

    def _unhint(self) -> None:
        if self._hinted:
            self._put("\r\x1b[K")
            self._hinted = False

    def _put(self, text: str) -> None:
        if self._lost is None:
            try:
                write_out(text)
            except OutputLost as lost:
                self._lost = lost
        self._open_line = False


def outcome(display: str) -> str:
    """Say in one line what a tool call brought."""
    lines = display.strip().splitlines() or [""]
    more = f" (+{len(lines) - 1:,} lines)" if len(lines) > 1 else ""
    return one_line(lines[0], _SHOWN_OUTCOME) + more
