"""Writes a run of print mode to standard output: as text, as one JSON object, or as a stream."""

import time
from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from clew.cli.paint import stop_note
from clew.cli.replies import LineReply
from clew.cli.streams import OutputLost, wait_for_reader_exit, write_err, write_out
from clew.cli.wait_note import WaitNote
from clew.core.context_state import ContextState
from clew.core.entries import Entry, MessageAdded, spending_of
from clew.core.events import (
    CompactionEnded,
    EntryAdded,
    Envelope,
    Event,
    PermissionDenied,
    RunCompleted,
    RunInterrupted,
    TextDelta,
    ToolResultsCleared,
    ToolStarted,
    Warned,
)
from clew.core.messages import Role
from clew.core.results import ExecutionResult
from clew.core.sanitize import sanitize, sanitize_json, sanitize_line
from clew.core.text import make_encodable
from clew.core.usage import Spending, Usage
from clew.sdk.client import SessionClient

_MAX_TARGET = 200


class StreamStart(Struct, frozen=True, kw_only=True, tag_field="event", tag="session"):
    """The first event of `stream-json`."""

    session_id: str
    model: str
    cwd: str
    mode: str


class Denial(Struct, frozen=True, kw_only=True):
    """A tool call that was denied."""

    tool: str
    target: str
    reason: str
    remedy: str


class TokenCounts(Struct, frozen=True, kw_only=True):
    """The tokens of all model calls of a run."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int = 0


class PrintResult(Struct, frozen=True, kw_only=True, tag_field="event", tag="result"):
    """What `--output-format json` prints, and the last event of each prompt in `stream-json`."""

    session_id: str
    model: str
    text: str
    structured: Any = msgspec.UNSET
    """The answer as JSON; only with `--json-schema`."""
    stop_reason: str
    turns: int
    """Model calls."""
    duration_ms: int
    cost_usd: float | None
    """None when a price is unknown."""
    tokens: TokenCounts
    usage: Usage | None
    """The tokens of the last call."""
    denials: tuple[Denial, ...]
    cleared: int
    """Tool results that left the view."""
    compacted: int
    """Compactions."""
    context: ContextState
    used_percentage: float
    error: str = ""
    error_type: str = ""
    """The class of the error."""
    data: Mapping[str, object] | msgspec.UnsetType = msgspec.UNSET
    """The result of a command as data; only after a command."""


class StreamLine(Struct, frozen=True, kw_only=True):
    """A line of `stream-json` that is not an event of the session; has the shape of an envelope."""

    seq: int
    session_id: str
    task_id: str = ""
    at: float
    event: StreamStart | PrintResult


class RunCounts:
    """Counts what happens during a prompt."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.turns = self.cleared = self.compacted = 0
        self.denials: list[Denial] = []
        self._spent = Spending()

    def add(self, event: Event) -> None:
        """Count an event of the session itself."""
        match event:
            case EntryAdded(entry=Entry(body=body)):
                self._spent += spending_of(body)
                if isinstance(body, MessageAdded):
                    self.turns += body.message.role is Role.ASSISTANT
            case ToolResultsCleared(report=report):
                self.cleared += len(report.cleared)
            case CompactionEnded():
                self.compacted += 1
            case PermissionDenied():
                self.denials.append(
                    Denial(
                        tool=event.tool_name,
                        target=event.target,
                        reason=event.reason,
                        remedy=event.remedy,
                    )
                )
            case _:
                pass

    @property
    def cost_usd(self) -> float | None:
        """The cost of all calls, those for summaries included; None when a price is unknown."""
        return None if self._spent.unpriced else self._spent.usd

    @property
    def tokens(self) -> TokenCounts:
        """The tokens of all calls."""
        used = self._spent.usage
        return TokenCounts(
            input=used.input_tokens,
            output=used.output_tokens,
            cache_read=used.cache_read_tokens,
            cache_write=used.cache_write_tokens,
            total=used.input_tokens + used.output_tokens,
        )


class EventPrinter:
    """Writes events in an output format; aborts the session when the reader exits.

    Args:
        style: The output format.
        structured: Text output waits for the JSON value instead of streaming.
    """

    def __init__(self, style: str, *, structured: bool = False) -> None:
        self.style = style
        self._structured = structured
        self._session: SessionClient | None = None
        self.session_id = ""
        """Empty before the session is open."""
        self._early: list[Envelope] = []
        self._counts = RunCounts()
        self._text = ""
        self._value: Any = msgspec.UNSET
        self._result: ExecutionResult | None = None
        self._data: Mapping[str, object] | msgspec.UnsetType = msgspec.UNSET
        self._open_line = False
        self._lost: OutputLost | None = None
        self.note = WaitNote()
        """Says that the model has not answered yet."""
        self.left_by = 0
        """The signal that ended the program; 0 for none."""
        self.stopped = anyio.Event()
        """Set when the program is to end: by a signal, or because its output is closed."""

    @property
    def how_to_resume(self) -> str:
        """The command that resumes this session, if there is one."""
        return f" (clew --resume {self.session_id})" if self.session_id else ""

    async def start(self, session: SessionClient) -> None:
        """Write what the session is, and the events of its opening."""
        now = await session.snapshot()
        self._session, self.session_id = session, now.session_id
        if self.style == "stream-json":
            start = StreamStart(
                session_id=now.session_id, model=now.model, cwd=now.cwd, mode=now.mode
            )
            self._write_line(start, seq=self._early[0].seq - 1 if self._early else now.seq)
        for envelope in self._early:
            self._show(envelope)

    def __call__(self, envelope: Envelope) -> None:
        """Show one event."""
        if self._session is None:
            self._early.append(envelope)
        else:
            self._show(envelope)

    async def watch(self) -> None:
        """Abort when the reader of a pipe exits, even while there is nothing to write."""
        self._stop(await wait_for_reader_exit())

    @property
    def is_lost(self) -> bool:
        """True when standard output is closed."""
        return self._lost is not None

    def check(self) -> None:
        """Raise `OutputLost` if standard output is closed."""
        if self._lost is not None:
            raise self._lost

    def begin_prompt(self) -> None:
        """Count from here: a new prompt starts."""
        self._counts = RunCounts()
        self._text, self._result = "", None
        self._value = self._data = msgspec.UNSET

    def show_reply(self, reply: LineReply) -> None:
        """Write the result of a command."""
        text = reply.text
        if text:
            self._text = text
            if self.style == "text":
                self._write(sanitize(text))
                self._open_line = not text.endswith("\n")
        if reply.data is not None:
            self._data = reply.data

    def show_value(self, value: Any) -> None:
        """Write a structured answer."""
        self._value = value
        self._text = msgspec.json.encode(value).decode()
        if self.style == "text":
            self._write(f"{sanitize_json(self._text)}\n")

    def end_line(self) -> None:
        """End the line that streamed text left open."""
        if self._open_line:
            self._write("\n")
            self._open_line = False

    async def end_prompt(self, error: Exception | None = None) -> int:
        """Write the result of a prompt; returns the exit code."""
        if self.style == "text":
            self.end_line()
        else:
            await self._write_result(error)
        if self.is_lost:
            return 1
        result = self._result
        note = stop_note(result.stop_reason, result.stop_detail) if result is not None else ""
        if note:
            write_err(note)
        if self.style != "text" or self._text.strip():
            return 1 if error else 0
        if not note:
            self.note.restart()
            write_err("the answer is empty")
        return 1

    def _show(self, envelope: Envelope) -> None:
        event = envelope.event
        if not envelope.task_id:
            self._counts.add(event)
            if isinstance(event, RunCompleted | RunInterrupted):
                self._result, self._text = event.result, event.result.response
        if self.style == "stream-json":
            self._write_json(envelope)
        elif not envelope.task_id:
            self._show_text(event)

    def _show_text(self, event: Event) -> None:
        if isinstance(event, Warned | PermissionDenied):
            self.note.restart()
        match event:
            case TextDelta(text=text) if self.style == "text" and not self._structured:
                self._write(sanitize(text))
                self._open_line = not text.endswith("\n")
            case ToolStarted() if self.style == "text":
                self.end_line()
            case Warned(text=text):
                write_err(text)
            case PermissionDenied():
                _report_denied(event)
            case _:
                pass

    async def _write_result(self, error: Exception | None) -> None:
        assert self._session is not None  # noqa: S101 - started before it ends
        now = await self._session.snapshot()
        result, counts = self._result, self._counts
        printed = PrintResult(
            session_id=self.session_id,
            model=now.model,
            text=self._text,
            structured=self._value,
            stop_reason=result.stop_reason if result is not None else "",
            turns=counts.turns,
            duration_ms=round((time.monotonic() - counts.started) * 1000),
            cost_usd=counts.cost_usd,
            tokens=counts.tokens,
            usage=result.last_call if result is not None else None,
            denials=tuple(counts.denials),
            cleared=counts.cleared,
            compacted=counts.compacted,
            context=now.context,
            used_percentage=now.context.used_percentage,
            error="" if error is None else str(error),
            error_type="" if error is None else getattr(error, "error_type", type(error).__name__),
            data=self._data,
        )
        if self.style == "stream-json":
            self._write_line(printed, seq=now.seq)
        else:
            self._write_json(printed)

    def _write_line(self, event: StreamStart | PrintResult, *, seq: int) -> None:
        self._write_json(
            StreamLine(seq=seq, session_id=self.session_id, at=time.time(), event=event)
        )

    def _write_json(self, value: Struct) -> None:
        text = msgspec.json.encode(make_encodable(value)).decode()
        self._write(f"{sanitize_json(text)}\n")

    def _write(self, text: str) -> None:
        self.note.end()
        if self._lost is not None:
            return
        try:
            write_out(text)
        except OutputLost as lost:
            self._stop(lost)

    def _stop(self, lost: OutputLost) -> None:
        self._lost = lost
        self.stopped.set()
        if self._session is not None:
            self._session.abort()


def _report_denied(event: PermissionDenied) -> None:
    target = sanitize_line(event.target, _MAX_TARGET)
    reason = event.reason.replace(".;", ";").rstrip(".")
    remedy = f"; {event.remedy}" if event.remedy else ""
    write_err(f"denied: {event.tool_name} {target} ({reason}){remedy}")
