"""`clew demo`: a guided tour on the embedded model; see `clew.sdk.demo` for the session."""

from argparse import Namespace
from collections.abc import Callable

import anyio

from clew.cli.paint import draw_gauge, make_painter
from clew.core.context_state import Status
from clew.core.entries import Entry
from clew.core.errors import AbortError, ClewError
from clew.core.events import CompactionStarted, EntryAdded, Envelope
from clew.core.sanitize import sanitize
from clew.core.text import pluralize
from clew.sdk.demo import DEMO_MODEL, RULE, Demo, DemoSession, find_needle_line, prepare_demo
from clew.sdk.folders import working_folder
from clew.tui.blocks import Block, Notice, ToolCallBlock, UserPrompt
from clew.tui.program import line_width, terminal_theme
from clew.tui.rendering import render_block
from clew.tui.standard_output import OutputLost, write_out
from clew.tui.transcript import Transcript

_MAX_LOGS = 20


def run_demo(arguments: Namespace) -> int:
    """Play the scenes; raises a `ClewError` if one of them fails."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    async with prepare_demo(working_folder(), window=arguments.window, port=arguments.port) as demo:
        await _Tour(demo).play()
    return 0


class _Tour:
    """The scenes, in order; each leaves the session as the next one needs it."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo
        self._paint = make_painter()
        self._theme = terminal_theme(plain=False)
        self._transcript = Transcript()
        self._last: Block | None = None
        self._lost: OutputLost | None = None
        self._abort: Callable[[], object] = lambda: None
        self._scene = 0
        self._entries = 0

    async def play(self) -> None:
        """Play all scenes."""
        demo = self._demo
        self._say(
            f"Clew demo: {DEMO_MODEL} on this machine, a window of {demo.window:,} tokens, "
            f"session {demo.session_id}"
        )
        async with demo.open(self._on_envelope) as session:
            self._abort = session.abort
            await self._answer(session)
            await self._fill(session)
            needle = await self._compact(session)
            self._read_back(session, needle)
            await self._undo(session)
            before = session.view
        async with demo.open(self._on_envelope) as session:
            self._abort = session.abort
            self._title("Resume from disk")
            same = session.view == before
            self._say(f"the view is the same after reopening: {'yes' if same else 'NO'}")
            if not same:
                raise ClewError("the resumed view differs from the one before")
            await self._ask(session, "Thank you. Say goodbye.")
        self._say(f"continue this session yourself: clew --resume {demo.session_id}")

    def _on_envelope(self, envelope: Envelope) -> None:
        if isinstance(envelope.event, EntryAdded):
            self._entries = envelope.event.entry.id
        if isinstance(envelope.event, CompactionStarted):
            self._show(Notice(f"compacting ({envelope.event.trigger}) …"))
        for block in self._transcript.apply(envelope):
            if not isinstance(block, ToolCallBlock | UserPrompt):
                self._show(block)

    def _show(self, block: Block) -> None:
        """Print a block; when the output has no reader, abort the run, which then reports it."""
        text = render_block(block, width=line_width(), theme=self._theme, after=self._last)
        self._last = block
        try:
            write_out(text)
        except OutputLost as lost:
            self._lost = lost
            self._abort()

    async def _answer(self, session: DemoSession) -> None:
        self._title("A real model answers, word by word")
        await self._ask(session, "What is a ball of thread good for in a labyrinth?")
        await self._ask(session, RULE)

    async def _fill(self, session: DemoSession) -> None:
        self._title("Tool results fill the window: green, yellow, red")
        for number in range(1, _MAX_LOGS + 1):
            command, lines = await session.read_log(number)
            self._say(f"> !{command}", "bold")
            self._say(f"  {lines[0] if lines else ''} … ({pluralize(len(lines), 'line')})")
            self._show_context(session)
            if session.context.status is Status.CRITICAL:
                return

    async def _compact(self, session: DemoSession) -> Entry:
        self._title("The next question does not fit: Clew compacts first and reports the loss")
        needle = session.find_needle()
        await self._ask(session, "How are you today?")
        return needle

    def _read_back(self, session: DemoSession, needle: Entry) -> None:
        self._title("Nothing is lost: a line from before the compaction, read back")
        self._say(f"the user's rule is still in the view: {'yes' if session.keeps_rule else 'NO'}")
        self._say(f"journal entry #{needle.id} says: {find_needle_line(needle)}")

    async def _undo(self, session: DemoSession) -> None:
        self._title("Undo the compaction")
        undone = await session.undo()
        self._say(f"compaction #{undone} is undone; every message is in the view again")
        self._show_context(session)

    async def _ask(self, session: DemoSession, prompt: str) -> None:
        self._say(f"> {prompt}", "bold")
        try:
            await session.ask(prompt)
        except AbortError:
            if self._lost is not None:
                raise self._lost from None
            raise
        self._show_context(session)

    def _show_context(self, session: DemoSession) -> None:
        write_out(f"{draw_gauge(session.context, self._paint)}\n")
        self._say(f"{pluralize(self._entries, 'entry', 'entries')} on disk", "dim")

    def _title(self, text: str) -> None:
        self._scene += 1
        self._say("")
        self._say(f"── {self._scene}. {text}", "bold")

    def _say(self, text: str, style: str = "") -> None:
        shown = sanitize(text)
        write_out(f"{self._paint(shown, style) if style and shown else shown}\n")
        self._last = None
