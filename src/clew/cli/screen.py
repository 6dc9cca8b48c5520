"""Showing the events of a session on a plain terminal."""

import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

from clew.cli.diffs import Row, diff_rows
from clew.cli.markdown import MarkdownStream
from clew.cli.paint import Paint, gauge, is_dumb, loss_report, stop_note
from clew.cli.sanitize import one_line, sanitize
from clew.cli.streams import OutputLost, reader_left, write_out
from clew.core.context_state import ContextState
from clew.core.entries import Entry
from clew.core.events import (
    BackgroundTaskEvent,
    CompactionEnded,
    CompactionFailed,
    CompactionProgress,
    CompactionStarted,
    EntryAdded,
    Envelope,
    Event,
    ReasoningDelta,
    RunCompleted,
    ServerToolEnded,
    ServerToolStarted,
    TaskStage,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Warned,
)
from clew.core.text import pluralize
from clew.core.tool_states import first_argument

_SHOWN_ARGUMENTS = 100
_SHOWN_OUTCOME = 120
_SHOWN_FAILURE = 400
_SHOWN_AGENT = 30
_NARROWEST = 10
"""Columns below which a line is left to the terminal."""
WAITING = "…"
_FAILED = "✗"
_PATIENCE = 2
"""Seconds of a wait that need no words."""
_ToolEvent = ToolStarted | ToolEnded | ServerToolStarted | ServerToolEnded
_FIRST_COLUMN = re.compile(r" *+(?:\S++(?: \S++)*+ {2,}+(?=\S))?")
"""The indentation of a line, with the first column where it is a row of a table."""


class Screen:
    """Writes events as lines, from whichever thread.

    All text is made harmless on its way. When standard output is gone, writing does nothing
    and `on_lost` is called at the next event; `check` tells the main thread.
    """

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self.live = sys.stdout.isatty() and not is_dumb()
        """True where what was written can be erased."""
        self._words = MarkdownStream(paint, _width())
        self._open_line = False
        self._hinted = False
        self._waits_since: float | None = None
        """When the wait began that the hint tells of."""
        self._lock = threading.RLock()
        self._held: list[Envelope] | None = None
        self._lost: OutputLost | None = None
        self.on_lost: Callable[[], object] = lambda: None
        self.by_hand = False
        """True while a person runs a tool: its output is shown by other means."""
        self._entries: list[Entry] = []
        self._agents: dict[str, str] = {}
        """Names of the subagents that are running, by task id."""

    def __call__(self, envelope: Envelope) -> None:
        """Show one event, or keep it while a question is open."""
        with self._lock:
            if self._held is None:
                self._dispatch(envelope)
            else:
                self._held.append(envelope)
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
                for envelope in kept:
                    self._dispatch(envelope)

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
        clean = sanitize(text)
        with self._lock:
            self.end_line()
            self._put(f"{self._paint(clean, style) if style else clean}\n")

    def lines(self, *texts: str, style: str = "") -> None:
        """Write several lines."""
        for text in texts:
            self.line(text, style)

    def say(self, *texts: str, style: str = "") -> None:
        """Write sentences or rows of a table; on a terminal they are broken between words."""
        for line in (line for text in texts for line in text.split("\n")):
            rows = wrapped(sanitize(line), _width()) if self.live else [line]
            self.lines(*rows, style=style)

    def answer(self, text: str) -> None:
        """Write an answer that has come as a whole."""
        with self._lock:
            self.end_line()
            self._put_words(self._words.feed(text))
            self.end_line()

    def gauge(self, state: ContextState, note: str = "") -> None:
        """Draw how full the window is."""
        with self._lock:
            self.end_line()
            self._put(f"{gauge(state, self._paint, note)}\n")

    def hint(self, text: str = WAITING) -> None:
        """Show a word that the next output erases; on a terminal only."""
        with self._lock:
            if self.live and self._held is None:
                self.end_line()
                self._put(self._paint(one_line(text, 60), "dim"))
                self._hinted = True
                self._waits_since = time.monotonic() if text == WAITING else None

    async def tick(self) -> None:
        """Count the seconds of a wait, second by second, until it is cancelled."""
        while self.live:
            await anyio.sleep(1)
            with self._lock:
                since = self._waits_since if self._hinted else None
                seconds = 0 if since is None else round(time.monotonic() - since)
                if seconds >= _PATIENCE:
                    self.hint(f"{WAITING} {seconds:,} s, Ctrl-C aborts"[: _width() - 1])
                    self._waits_since = since

    def end_line(self) -> None:
        """End the line that streamed words left open; erase a hint."""
        with self._lock:
            self._put_words(self._words.end())
            if self._open_line:
                self._put("\n")
            self._unhint()

    def take_entries(self) -> list[Entry]:
        """Return the journal entries since the last call."""
        with self._lock:
            entries, self._entries = self._entries, []
        return entries

    def _dispatch(self, envelope: Envelope) -> None:
        event = envelope.event
        if envelope.task_id:
            self._show_agent(envelope.task_id, event)
        elif isinstance(event, BackgroundTaskEvent):
            if event.stage is TaskStage.STARTED:
                self._agents[event.task_id] = event.agent
            self._put_row(task_row(event, _width()))
        else:
            self._show(event)

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._put_words(self._words.feed(text))
            case ReasoningDelta(text=text):
                self._write(text, "dim")
            case ToolStarted() | ToolEnded() | ServerToolStarted() | ServerToolEnded():
                self._show_tool(event)
            case EntryAdded(entry=entry):
                self._entries.append(entry)
            case Warned(text=text):
                self.say(f"note: {text}", style="yellow")
            case RunCompleted(result=result):
                self.end_line()
                if note := stop_note(result.stop_reason, result.stop_detail):
                    self.say(f"note: {note}", style="yellow")
            case _:
                self._show_compaction(event)

    def _show_tool(self, event: _ToolEvent) -> None:
        if self.by_hand:
            return
        for row in tool_rows(event, _width()):
            say = self.say if row.text.startswith(_FAILED) else self.lines
            say(row.text, style=row.style)
        if isinstance(event, ToolEnded | ServerToolEnded):
            self.hint()

    def _show_compaction(self, event: Event) -> None:
        match event:
            case CompactionStarted(trigger=trigger):
                self.line(f"compacting ({trigger}) …", "yellow")
            case CompactionProgress(stage=stage, done=done, total=total):
                self.hint(f"{stage} {done:,}" + (f" of {total:,}" if total else " characters"))
            case CompactionFailed(why=why):
                self.say(f"the compaction failed, and the view is as it was: {why}", style="yellow")
            case CompactionEnded(report=report, after=after):
                self.say(*(f"  {line}" for line in loss_report(report)))
                self.gauge(after)
                self.hint()
            case _:
                pass

    def _show_agent(self, task_id: str, event: Event) -> None:
        """Show the tool calls and the warnings of a subagent."""
        agent = self._agents.get(task_id, task_id)
        match event:
            case ToolStarted(name=name, arguments=arguments):
                self._put_row(agent_tool_row(agent, name, arguments, _width()))
            case Warned(text=text):
                self.say(f"note: {one_line(agent, _SHOWN_AGENT)}: {text}", style="yellow")
            case _:
                pass

    def _put_row(self, row: Row) -> None:
        self.say(row.text, style=row.style)
        self.hint()

    def _put_words(self, text: str) -> None:
        """Write words of the answer, painted and harmless already."""
        if text:
            self._unhint()
            self._put(text)
            self._open_line = not text.endswith("\n")

    def _write(self, text: str, style: str = "") -> None:
        clean = sanitize(text)
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


def tool_rows(event: _ToolEvent, width: int) -> list[Row]:
    """Return the lines about a call that begins or has ended."""
    match event:
        case (
            ToolStarted(name=name, arguments=given) | ServerToolStarted(name=name, arguments=given)
        ):
            call = f"{name} {first_argument(given) or given}"
            return [Row(f"→ {_fitted(call, _SHOWN_ARGUMENTS, width - 2)}", "cyan")]
        case ToolEnded(name=name, failed=True, display=text):
            return [Row(f"{_FAILED} {name}: {one_line(text, _SHOWN_FAILURE)}", "red")]
        case ServerToolEnded(name=name, failed=True, text=text):
            return [Row(f"{_FAILED} {name}: {one_line(text, _SHOWN_FAILURE)}", "red")]
        case ToolEnded(name=name, display=display, data=data):
            rows = diff_rows(data, width=width - 2)
            title = rows[0].text if rows else outcome(display)
            changes = [Row(f"  {row.text}", row.style) for row in rows[1:]]
            return [Row(f"✓ {name}: {title}", "dim"), *changes]
        case ServerToolEnded(name=name, text=text):
            return [Row(f"✓ {name}: {outcome(text)}", "dim")]


def task_row(event: BackgroundTaskEvent, width: int) -> Row:
    """Return the line about a subagent that starts or has ended."""
    agent = f"  {one_line(event.agent, _SHOWN_AGENT)}"
    match event.stage:
        case TaskStage.STARTED:
            room = width - len(agent) - len(" starts: ")
            return Row(f"{agent} starts: {_fitted(event.text, _SHOWN_ARGUMENTS, room)}", "dim")
        case TaskStage.COMPLETED:
            return Row(f"{agent} is done", "dim")
        case TaskStage.FAILED:
            return Row(f"{agent} failed: {one_line(event.text, _SHOWN_FAILURE)}", "red")


def agent_tool_row(agent: str, name: str, arguments: str, width: int) -> Row:
    """Return the line about a tool call of a subagent."""
    who = f"  {one_line(agent, _SHOWN_AGENT)}"
    call = f"{name} {first_argument(arguments) or arguments}"
    return Row(f"{who} → {_fitted(call, _SHOWN_ARGUMENTS, width - len(who) - 3)}", "dim")


def wrapped(line: str, width: int) -> list[str]:
    """Break a line between words; what follows stands below the text that it goes on with."""
    if len(line) <= width or width < _NARROWEST:
        return [line]
    found = _FIRST_COLUMN.match(line)
    indent = len(found[0]) if found else 0
    if indent > width // 2:
        indent = len(line) - len(line.lstrip(" "))
    broken = textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * min(indent, width // 2),
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return broken or [""]


def outcome(display: str) -> str:
    """Say in one line what a tool call brought."""
    lines = display.strip().splitlines() or [""]
    more = f" (+{pluralize(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
    return one_line(lines[0], _SHOWN_OUTCOME) + more


def _fitted(text: str, most: int, room: int) -> str:
    return one_line(text, max(_NARROWEST, min(most, room)))


def _width() -> int:
    return shutil.get_terminal_size().columns
