"""Shows the events of a session on a plain terminal."""

import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio

from clew.cli.diffs import StyledLine, diff_rows
from clew.cli.markdown import MarkdownStream
from clew.cli.paint import Paint, draw_gauge, is_dumb, stop_note
from clew.cli.streams import OutputLost, wait_for_reader_exit, write_out
from clew.core.context_state import ContextState
from clew.core.entries import Entry
from clew.core.events import (
    BackgroundSummary,
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
    SummaryStage,
    TaskStage,
    TextDelta,
    ToolEnded,
    ToolResultsCleared,
    ToolStarted,
    Warned,
)
from clew.core.sanitize import sanitize, sanitize_line
from clew.core.text import pluralize
from clew.core.tool_states import first_argument
from clew.sdk.entries import (
    format_cleared_results,
    format_compaction_failure,
    format_loss_report,
)

_MAX_ARGUMENTS = 100
_MAX_OUTCOME = 120
_MAX_FAILURE = 400
_MAX_AGENT = 30
_MIN_WIDTH = 10
"""Below this width, the terminal wraps lines itself."""
WAITING = "…"
_FAILED = "✗"
_SHOW_SECONDS_AFTER = 2
"""Seconds of a wait before its duration is shown."""
_ToolEvent = ToolStarted | ToolEnded | ServerToolStarted | ServerToolEnded
_FIRST_COLUMN = re.compile(r" *+(?:\S++(?: \S++)*+ {2,}+(?=\S))?")
"""The indentation of a line, with the first column where it is a row of a table."""


class Screen:
    """Writes events as lines; may be used from every thread.

    All text is sanitized. When standard output is closed, writing does nothing and the next event
    calls `on_lost`; the main thread learns it from `check`.
    """

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self.live = sys.stdout.isatty() and not is_dumb()
        """True when the terminal can erase text."""
        self._markdown = MarkdownStream(paint, _width())
        self._open_line = False
        self._hinted = False
        self._waits_since: float | None = None
        """When the wait began that the hint shows."""
        self._lock = threading.RLock()
        self._held: list[Envelope] | None = None
        self._lost: OutputLost | None = None
        self.on_lost: Callable[[], object] = lambda: None
        self.by_hand = False
        """True while the user runs a tool; its output is shown in another way."""
        self._entries: list[Entry] = []
        self._agents: dict[str, str] = {}
        """The names of running subagents, by task id."""

    def __call__(self, envelope: Envelope) -> None:
        """Show one event, or hold it while a question is open."""
        with self._lock:
            if self._held is None:
                self._dispatch(envelope)
            else:
                self._held.append(envelope)
        if self._lost is not None:
            self.on_lost()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold events in the `with` block, so that none comes between question and answer."""
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
        """Raise `OutputLost` if standard output is closed."""
        if self._lost is not None:
            raise self._lost

    async def watch(self) -> None:
        """Call `on_lost` when the reader of a pipe exits, even while there is nothing to write."""
        self._lost = await wait_for_reader_exit()
        self.on_lost()

    def line(self, text: str = "", style: str = "") -> None:
        """Write a line, sanitized."""
        clean = sanitize(text)
        with self._lock:
            self.end_line()
            self._put(f"{self._paint(clean, style) if style else clean}\n")

    def lines(self, *texts: str, style: str = "") -> None:
        """Write several lines."""
        for text in texts:
            self.line(text, style)

    def say(self, *texts: str, style: str = "") -> None:
        """Write sentences or table rows; on a terminal they are wrapped between words."""
        for line in (line for text in texts for line in text.split("\n")):
            rows = wrap_line(sanitize(line), _width()) if self.live else [line]
            self.lines(*rows, style=style)

    def answer(self, text: str) -> None:
        """Write a complete answer."""
        with self._lock:
            self.end_line()
            self._put_answer(self._markdown.feed(text))
            self.end_line()

    def draw_gauge(self, state: ContextState, note: str = "") -> None:
        """Draw how full the context window is."""
        with self._lock:
            self.end_line()
            self._put(f"{draw_gauge(state, self._paint, note)}\n")

    def hint(self, text: str = WAITING) -> None:
        """Show a text that the next output erases; only on a terminal."""
        with self._lock:
            if self.live and self._held is None:
                self.end_line()
                self._put(self._paint(sanitize_line(text, 60), "dim"))
                self._hinted = True
                self._waits_since = time.monotonic() if text == WAITING else None

    async def tick(self) -> None:
        """Show the seconds of a wait, once per second, until cancelled."""
        while self.live:
            await anyio.sleep(1)
            with self._lock:
                since = self._waits_since if self._hinted else None
                seconds = 0 if since is None else round(time.monotonic() - since)
                if seconds >= _SHOW_SECONDS_AFTER:
                    self.hint(f"{WAITING} {seconds:,} s, Ctrl-C aborts"[: _width() - 1])
                    self._waits_since = since

    def end_line(self) -> None:
        """End the line that streamed text left open; erase a hint."""
        with self._lock:
            self._put_answer(self._markdown.end())
            if self._open_line:
                self._put("\n")
            self._erase_hint()

    def take_entries(self) -> list[Entry]:
        """Return the journal entries since the last call."""
        with self._lock:
            entries, self._entries = self._entries, []
        return entries

    def _dispatch(self, envelope: Envelope) -> None:
        event = envelope.event
        if envelope.task_id:
            agent = self._agents.get(envelope.task_id, envelope.task_id)
            show_agent(self, agent, event)
        elif isinstance(event, BackgroundTaskEvent):
            if event.stage is TaskStage.STARTED:
                self._agents[event.task_id] = event.agent
            self.put_row(task_row(event, _width()))
        else:
            self._show(event)

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._put_answer(self._markdown.feed(text))
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
                show_compaction(self, event)

    def _show_tool(self, event: _ToolEvent) -> None:
        if self.by_hand:
            return
        for row in tool_rows(event, _width()):
            say = self.say if row.text.startswith(_FAILED) else self.lines
            say(row.text, style=row.style)
        if isinstance(event, ToolEnded | ServerToolEnded):
            self.hint()

    def put_row(self, row: StyledLine) -> None:
        """Write a line, and the hint that work continues."""
        self.say(row.text, style=row.style)
        self.hint()

    def _put_answer(self, text: str) -> None:
        """Write text of the answer, which is sanitized and coloured already."""
        if text:
            self._erase_hint()
            self._put(text)
            self._open_line = not text.endswith("\n")

    def _write(self, text: str, style: str = "") -> None:
        clean = sanitize(text)
        self._erase_hint()
        self._put(self._paint(clean, style) if style else clean)
        self._open_line = not text.endswith("\n")

    def _erase_hint(self) -> None:
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


def show_compaction(screen: Screen, event: Event) -> None:
    """Show the progress and the result of a compaction, and tool results that left the view."""
    match event:
        case CompactionStarted(trigger=trigger):
            screen.line(f"compacting ({trigger}) …", "yellow")
        case CompactionProgress(background=True):
            pass
        case CompactionProgress(stage=stage, done=done, total=total):
            screen.hint(f"{stage} {done:,}" + (f" of {total:,}" if total else " characters"))
        case CompactionFailed(why=why, attempts=attempts):
            screen.say(*format_compaction_failure(why, attempts), style="yellow")
        case CompactionEnded(report=report, after=after):
            screen.say(*(f"  {line}" for line in format_loss_report(report)))
            screen.draw_gauge(after)
            screen.hint()
        case BackgroundSummary():
            if text := describe_preparation(event):
                screen.say(f"note: {text}", style="dim")
        case ToolResultsCleared(report=report, trigger=trigger):
            screen.say(format_cleared_results(report, trigger), style="yellow")
            screen.hint()
        case _:
            pass


def describe_preparation(event: BackgroundSummary) -> str:
    """Return what happens to a summary in the background; empty if a warning says it already."""
    covered = pluralize(event.messages, "message")
    match event.stage:
        case SummaryStage.PREPARING:
            return f"preparing a summary of {covered} in the background"
        case SummaryStage.PREPARED:
            return f"the summary of {covered} is prepared; the next compaction uses it"
        case SummaryStage.DISCARDED:
            cost = f" (${event.cost:.4f})" if event.cost else ""
            return f"the summary of {covered} is discarded: {event.why}{cost}"
        case SummaryStage.FAILED:
            return ""


def show_agent(screen: Screen, agent: str, event: Event) -> None:
    """Show the tool calls and the warnings of a subagent."""
    match event:
        case ToolStarted(name=name, arguments=arguments):
            screen.put_row(agent_tool_row(agent, name, arguments, _width()))
        case Warned(text=text):
            screen.say(f"note: {sanitize_line(agent, _MAX_AGENT)}: {text}", style="yellow")
        case _:
            pass


def tool_rows(event: _ToolEvent, width: int) -> list[StyledLine]:
    """Return the lines for a tool call that started or ended."""
    match event:
        case (
            ToolStarted(name=name, arguments=given) | ServerToolStarted(name=name, arguments=given)
        ):
            call = f"{name} {first_argument(given) or given}"
            return [StyledLine(f"→ {_fit(call, _MAX_ARGUMENTS, width - 2)}", "cyan")]
        case ToolEnded(name=name, failed=True, display=text):
            return [StyledLine(f"{_FAILED} {name}: {sanitize_line(text, _MAX_FAILURE)}", "red")]
        case ServerToolEnded(name=name, failed=True, text=text):
            return [StyledLine(f"{_FAILED} {name}: {sanitize_line(text, _MAX_FAILURE)}", "red")]
        case ToolEnded(name=name, display=display, data=data):
            rows = diff_rows(data, width=width - 2)
            title = rows[0].text if rows else summarize_output(display)
            changes = [StyledLine(f"  {row.text}", row.style) for row in rows[1:]]
            return [StyledLine(f"✓ {name}: {title}", "dim"), *changes]
        case ServerToolEnded(name=name, text=text):
            return [StyledLine(f"✓ {name}: {summarize_output(text)}", "dim")]


def task_row(event: BackgroundTaskEvent, width: int) -> StyledLine:
    """Return the line for a subagent that started or ended."""
    agent = f"  {sanitize_line(event.agent, _MAX_AGENT)}"
    match event.stage:
        case TaskStage.STARTED:
            room = width - len(agent) - len(" starts: ")
            return StyledLine(f"{agent} starts: {_fit(event.text, _MAX_ARGUMENTS, room)}", "dim")
        case TaskStage.COMPLETED:
            return StyledLine(f"{agent} is done", "dim")
        case TaskStage.FAILED:
            return StyledLine(f"{agent} failed: {sanitize_line(event.text, _MAX_FAILURE)}", "red")


def agent_tool_row(agent: str, name: str, arguments: str, width: int) -> StyledLine:
    """Return the line for a tool call of a subagent."""
    who = f"  {sanitize_line(agent, _MAX_AGENT)}"
    call = f"{name} {first_argument(arguments) or arguments}"
    return StyledLine(f"{who} → {_fit(call, _MAX_ARGUMENTS, width - len(who) - 3)}", "dim")


def wrap_line(line: str, width: int) -> list[str]:
    """Wrap a line between words; continuation lines are indented like the text above them."""
    if len(line) <= width or width < _MIN_WIDTH:
        return [line]
    found = _FIRST_COLUMN.match(line)
    indent = len(found[0]) if found else 0
    if indent > width // 2:
        indent = len(line) - len(line.lstrip(" "))
    lines = textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * min(indent, width // 2),
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return lines or [""]


def summarize_output(display: str) -> str:
    """Return the output of a tool call on one line."""
    lines = display.strip().splitlines() or [""]
    more = f" (+{pluralize(len(lines) - 1, 'line')})" if len(lines) > 1 else ""
    return sanitize_line(lines[0], _MAX_OUTCOME) + more


def _fit(text: str, most: int, room: int) -> str:
    return sanitize_line(text, max(_MIN_WIDTH, min(most, room)))


def _width() -> int:
    return shutil.get_terminal_size().columns
