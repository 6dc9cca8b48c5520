"""The application without a process: keys through a pipe, output to an emulated terminal."""

import io
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pyte
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.key_binding import key_processor

from clew.core.context_state import Basis, Breakdown, ContextState, Status
from clew.core.errors import ClewError
from clew.core.events import Envelope, Event
from clew.core.ids import EntryId, RunId, SessionId
from clew.core.permissions import Approval, PermissionMode
from clew.sdk.client import CommandInfo, CommandOutcome, PathMatch, SessionClient, SessionSnapshot
from clew.sdk.prompt_history import PromptHistory
from clew.tui.app import App, AppOptions
from clew.tui.options import TerminalOptions
from clew.tui.terminal import FrameOutput
from clew.tui.theme import make_theme

STATE = ContextState(
    max_tokens=10_000, used_tokens=100, status=Status.OK, basis=Basis.EXACT, breakdown=Breakdown()
)
SNAPSHOT = SessionSnapshot(
    session_id=SessionId("s1"),
    name="maze",
    model="gpt-4o",
    mode=PermissionMode.DEFAULT,
    language="",
    cwd="/",
    context=STATE,
    history=(),
    executing=False,
    streaming_text="",
    active_tools=(),
    permission_requests=(),
    queue=None,
    tasks=(),
    last_entry=EntryId(0),
    seq=0,
)


class _Pause:
    """Waits until `Stage.release`."""

    def __await__(self) -> Generator[None]:
        yield


class FakeSession:
    """Accepts everything at once, and remembers it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.answers: list[tuple[str, Approval, str]] = []
        self.aborts = 0
        self.modes: list[PermissionMode] = []
        self.slow: set[str] = set()
        """Lines that take until `Stage.release`."""
        self.errors: dict[str, ClewError] = {}
        """Lines that fail."""
        self.skills: set[str] = set()
        """Commands that start a run."""

    async def execute(self, line: str) -> CommandOutcome:
        self.lines.append(line)
        number = len(self.lines)
        if line in self.slow:
            await _Pause()
        if line in self.errors:
            raise self.errors[line]
        if line in self.skills:
            return CommandOutcome(kind="skill", name="x", run_id=RunId(f"run{number}"))
        if line.startswith(("/", "!")):
            return CommandOutcome(kind="command", name="x", message="")
        return CommandOutcome(kind="prompt", run_id=RunId(f"run{number}"))

    async def answer(self, request_id: str, approval: Approval, *, reply: str = "") -> None:
        self.answers.append((request_id, approval, reply))

    async def commands(self) -> list[CommandInfo]:
        return [CommandInfo(name="context", description="show what fills the window")]

    async def complete_path(self, fragment: str, *, limit: int = 20) -> list[PathMatch]:
        return [PathMatch(text="notes.txt")]

    async def set_mode(self, mode: PermissionMode) -> None:
        self.modes.append(mode)

    def abort(self) -> None:
        self.aborts += 1


class Window(pyte.HistoryScreen):
    """A terminal that keeps lines in its history when it becomes lower, as real ones do.

    Args:
        reflows: Wrap lines again that no longer fit, as most terminals do.
    """

    def __init__(self, columns: int, rows: int, *, reflows: bool = False) -> None:
        super().__init__(columns, rows, history=100_000)
        self._reflows = reflows

    @property
    def lines_so_far(self) -> list[str]:
        """All lines, down to the last that is not empty."""
        rows = [*self.history.top, *(self.buffer[y] for y in range(self.lines))]
        return "\n".join(_text(row) for row in rows).rstrip().split("\n")

    def change(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        texts = [_text(self.buffer[y]) for y in range(self.lines)]
        wrapped: list[str] = []
        cursor = 0
        for y, text in enumerate(texts):
            if y == self.cursor.y:
                cursor = len(wrapped) + (self.cursor.x // columns if self._reflows else 0)
            pieces = [text[x : x + columns] for x in range(0, len(text), columns)] or [""]
            wrapped += pieces if self._reflows else [text]
        gone = max(0, cursor - rows + 1)
        for text in wrapped[:gone]:
            self.history.top.append(self._row(text))
        self.lines, self.columns = rows, columns
        self.buffer.clear()
        for y, text in enumerate(wrapped[gone : gone + rows]):
            self.buffer[y] = self._row(text)
        self.cursor.y, self.cursor.x = cursor - gone, min(self.cursor.x, columns - 1)
        self.margins = None

    def _row(self, text: str) -> Any:
        row: Any = pyte.screens.StaticDefaultDict(self.default_char)
        for x, character in enumerate(text):
            row[x] = self.default_char._replace(data=character)
        return row


def _text(row: Any) -> str:
    return "".join(row[x].data for x in range(max(row, default=-1) + 1)).rstrip()


class Stage:
    """A running application, its keys, its window and the session behind it."""

    app: App

    def __init__(self, keys: PipeInput, window: Window) -> None:
        self.session, self.window = FakeSession(), window
        self._keys = keys
        self._seq = 0
        self._waiting: list[tuple[Coroutine[Any, Any, Any], Future[Any]]] = []
        self.raw = ""
        self.stream = pyte.Stream(window)
        self.size = Size(rows=window.lines, columns=window.columns)

    def write(self, text: str) -> None:
        """Take what the application writes."""
        self.raw += text
        self.stream.feed(text)

    def start(self, work: Callable[[], Awaitable[Any]]) -> "Future[Any]":
        """Run a function of the session."""
        future: Future[Any] = Future()
        self._advance(cast("Coroutine[Any, Any, Any]", work()), future)
        return future

    async def release(self) -> None:
        """Let the slow lines go on."""
        waiting, self._waiting = self._waiting, []
        for work, future in waiting:
            self._advance(work, future)
        await self.settle()

    def _advance(self, work: Coroutine[Any, Any, Any], future: "Future[Any]") -> None:
        try:
            work.send(None)
        except StopIteration as done:
            future.set_result(done.value)
        except ClewError as error:
            future.set_exception(error)
        else:
            self._waiting.append((work, future))

    async def press(self, keys: str) -> None:
        """Press keys, and let the application handle them."""
        self._keys.send_text(keys)
        await self.settle()

    async def receive(self, *events: Event) -> None:
        """Deliver events of the session, and let the application show them."""
        for event in events:
            self._seq += 1
            self.app.receive(
                Envelope(
                    seq=self._seq, session_id=SessionId("s1"), at=float(self._seq), event=event
                )
            )
        await self.settle()

    async def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window; the application learns it a moment later."""
        self.size = Size(rows=rows, columns=columns)
        self.window.change(columns, rows)
        self.app.application._on_resize()

    async def settle(self) -> None:
        """Let the application do all that it can do without waiting."""
        for _ in range(6):
            await anyio.lowlevel.checkpoint()
        self.app.parts.feed.flush()
        for _ in range(6):
            await anyio.lowlevel.checkpoint()
        # prompt_toolkit may postpone an update by some milliseconds.
        self.app.application._redraw()

    def flush_escape(self) -> None:
        """Let time pass, so that Esc is a key of its own."""
        processor = self.app.application.key_processor
        processor.feed_multiple(self._keys.flush_keys())
        processor.process_keys()
        processor.feed(key_processor._Flush)
        processor.process_keys()

    def arm(self) -> None:
        """Let time pass, so that keys answer the open question."""
        self.app.parts.questions.is_armed = bool(self.app.parts.questions)


class _Stdout(io.StringIO):
    encoding = "utf-8"

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def write(self, text: str) -> int:
        self._write(text)
        return len(text)

    def isatty(self) -> bool:
        return True


def run_now(work: Callable[[], Awaitable[Any]]) -> "Future[Any]":
    """Run a function that never waits."""
    future: Future[Any] = Future()
    try:
        cast("Coroutine[Any, Any, Any]", work()).send(None)
    except StopIteration as done:
        future.set_result(done.value)
    return future


@asynccontextmanager
async def stage(
    folder: Path,
    *,
    columns: int = 60,
    rows: int = 20,
    reflows: bool = False,
    options: TerminalOptions | None = None,
    encoding: str = "utf-8",
) -> AsyncIterator[Stage]:
    """Run the application on an emulated terminal in the `with` block."""
    with create_pipe_input() as keys:
        play = Stage(keys, Window(columns, rows, reflows=reflows))
        output = FrameOutput(_Stdout(play.write), lambda: play.size, term="xterm", enable_cpr=False)
        play.app = app = App(
            cast("SessionClient", play.session),
            play.start,
            history=PromptHistory(folder / "history"),
            folder=folder,
            terminal=(keys, output),
            options=AppOptions(
                theme=make_theme(encoding=encoding),
                terminal=options or TerminalOptions(),
                reflows=reflows,
                term="xterm",
            ),
        )
        app.start(SNAPSHOT)
        async with anyio.create_task_group() as group:
            group.start_soon(app.run)
            await play.settle()
            yield play
            await play.settle()
            app.leave()


def draw(text: str, *, columns: int, rows: int = 20) -> list[str]:
    """Return what a terminal shows of a text."""
    window = Window(columns, rows)
    pyte.Stream(window).feed(text.replace("\n", "\r\n"))
    return window.lines_so_far


def join_events(events: Sequence[Event]) -> list[Envelope]:
    """Return events as `Stage.receive` delivers them."""
    return [
        Envelope(seq=seq, session_id=SessionId("s1"), at=float(seq), event=event)
        for seq, event in enumerate(events, start=1)
    ]
