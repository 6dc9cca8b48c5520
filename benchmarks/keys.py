"""How long a key press takes in the terminal application, in a long session that streams.

The application runs on a recording terminal: no process and no emulator. A time is that from the
arrival of the key to the end of the frame that shows it, while answers and tool calls arrive.
"""

import asyncio
import io
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from statistics import median, quantiles
from typing import Any, cast

import anyio
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input

from benchmarks.results import Section, judge, publish
from clew.core.context_state import Basis, Breakdown, ContextState, Status
from clew.core.events import Envelope, Event, TextDelta, ToolEnded, ToolStarted, UserMessage
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.permissions import PermissionMode
from clew.sdk.client import CommandInfo, SessionClient, SessionSnapshot
from clew.sdk.prompt_history import PromptHistory
from clew.tui.app import App, AppOptions
from clew.tui.terminal import FrameOutput
from clew.tui.theme import make_theme

MESSAGES = 2_000
KEYS = 300
LIMIT_MS = 60.0
_ANSWER = (
    "A paragraph with **bold** words, `code` and a list:\n\n- one\n- two\n\n```py\nx = 1\n```\n\n"
)


class _Session:
    async def commands(self) -> list[CommandInfo]:
        return [CommandInfo(name="context", description="show what fills the window")]


class _Screen(io.StringIO):
    """A terminal that notes when a frame arrives."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.last = 0.0
        self.frames = 0

    def write(self, text: str) -> int:
        self.last = time.perf_counter()
        self.frames += 1
        return len(text)


def _run_now(work: Callable[[], Awaitable[Any]]) -> "Future[Any]":
    future: Future[Any] = Future()
    try:
        cast("Coroutine[Any, Any, Any]", work()).send(None)
    except StopIteration as done:
        future.set_result(done.value)
    return future


def _events() -> list[Event]:
    """Return one turn: a prompt, a tool call, and an answer in pieces."""
    call = CallId("c1")
    pieces = [TextDelta(_ANSWER[start : start + 12]) for start in range(0, len(_ANSWER), 12)]
    return [
        UserMessage(text="a question"),
        ToolStarted(call_id=call, name="Read", arguments='{"file_path": "src/door.py"}'),
        ToolEnded(call_id=call, name="Read", failed=False, display="line\n" * 40),
        *pieces,
    ]


def _snapshot() -> SessionSnapshot:
    state = ContextState(
        max_tokens=200_000,
        used_tokens=90_000,
        status=Status.OK,
        basis=Basis.EXACT,
        breakdown=Breakdown(),
    )
    return SessionSnapshot(
        session_id=SessionId("s1"),
        name="long",
        model="m",
        mode=PermissionMode.DEFAULT,
        language="",
        cwd="/",
        context=state,
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


async def _measure(folder: Path, keys: PipeInput) -> list[tuple[float, float]]:
    screen = _Screen()
    size = Size(rows=40, columns=100)
    output = FrameOutput(screen, lambda: size, term="xterm-256color", enable_cpr=False)
    app = App(
        cast("SessionClient", _Session()),
        _run_now,
        history=PromptHistory(folder / "history"),
        folder=folder,
        terminal=(keys, output),
        options=AppOptions(theme=make_theme(), term="xterm-256color"),
    )
    app.start(_snapshot())
    found: list[tuple[float, float]] = []
    async with anyio.create_task_group() as group:
        group.start_soon(app.run)
        await anyio.sleep(0.1)
        seq = 0
        turn = _events()
        for _ in range(MESSAGES // 4):
            for event in turn:
                seq += 1
                app.receive(
                    Envelope(seq=seq, session_id=SessionId("s1"), at=float(seq), event=event)
                )
            app.parts.feed.flush()
        for number in range(KEYS):
            seq += 1
            app.receive(
                Envelope(
                    seq=seq, session_id=SessionId("s1"), at=1.0, event=turn[number % len(turn)]
                )
            )
            frames, started, used = screen.frames, time.perf_counter(), time.thread_time()
            keys.send_text("x" if number % 9 else "\x7f")
            while screen.frames == frames:  # noqa: ASYNC110 - a frame is no event
                await asyncio.sleep(0)
            spent = time.thread_time() - used
            found.append(((screen.last - started) * 1000, spent * 1000))
            await anyio.sleep(0.01)
        app.leave()
    return found


def main() -> None:
    """Measure and publish."""
    with tempfile.TemporaryDirectory() as folder, create_pipe_input() as keys:
        times = anyio.run(_measure, Path(folder), keys)
    waited = [wall for wall, _ in times]
    worked = [processor for _, processor in times]
    verdict = judge(_percentile(waited) <= LIMIT_MS)
    publish(
        Section(
            title="Key presses in the terminal",
            command="python -m benchmarks keys",
            columns=("", "median", "spread", "99 %", "slowest"),
            rows=(_row("time", waited), _row("processor time", worked)),
            notes=(
                f"{KEYS} keys after {MESSAGES:,} messages, while an answer streams; from the"
                " arrival of a key to the end of the frame that shows it",
                "spread is the interquartile range",
                f"99 % of the keys within {LIMIT_MS:.0f} ms: {verdict}",
            ),
        )
    )


def _row(name: str, times: list[float]) -> tuple[str, ...]:
    low, _, high = quantiles(times, n=4)
    values = (median(times), high - low, _percentile(times), max(times))
    return (name, *(f"{value:.1f} ms" for value in values))


def _percentile(times: list[float]) -> float:
    return quantiles(times, n=100)[98]
