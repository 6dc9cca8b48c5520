"""Showing the events of a session on a plain terminal."""

import sys

from clew.cli.paint import Paint, gauge, loss_report
from clew.core.events import (
    CompactionEnded,
    CompactionStarted,
    ContextUpdated,
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


class Screen:
    """Writes events as lines; keeps only what it needs to end a line cleanly."""

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._open_line = False
        self.state: ContextState | None = None
        """The last reading of the window."""
        self.entries = 0
        """How many entries are known to be on disk."""

    def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case ContextUpdated(state=state):
                self.state = state
            case EntryAdded(entry=entry):
                self.entries = entry.id
            case CompactionStarted() | CompactionEnded():
                self._show_compaction(event)
            case _:
                self._show(event)

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._write(text)
            case ReasoningDelta(text=text):
                self._write(self._paint(text, "dim"))
            case ToolStarted(name=name, arguments=arguments):
                self.line(self._paint(f"→ {name} {arguments[:_SHOWN_ARGUMENTS]}", "cyan"))
            case ToolEnded(name=name, failed=True, display=display):
                self.line(self._paint(f"✗ {name}: {display.strip()[:400]}", "red"))
            case Warned(text=text):
                self.line(self._paint(f"note: {text}", "yellow"))
            case RunEnded():
                self.end_line()
            case _:
                pass

    def _show_compaction(self, event: CompactionStarted | CompactionEnded) -> None:
        match event:
            case CompactionStarted(trigger=trigger):
                self.line(self._paint(f"compacting ({trigger}) …", "yellow"))
            case CompactionEnded(report=report, after=after):
                self.lines(*(f"  {line}" for line in loss_report(report)))
                self.line(gauge(after, self._paint))

    def line(self, text: str = "") -> None:
        """Write a line of its own."""
        self.end_line()
        print(text, flush=True)

    def lines(self, *texts: str) -> None:
        """Write several lines."""
        for text in texts:
            self.line(text)

    def end_line(self) -> None:
        """End the line that streamed words left open."""
        if self._open_line:
            print(flush=True)
            self._open_line = False

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._open_line = not text.endswith("\n")
