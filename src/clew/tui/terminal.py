"""The terminal that the application draws on: what it can do, and output in whole frames.

prompt_toolkit draws the live area. Its output is changed in three ways: everything that belongs
to one update is written at once; the live area is erased by moving up over its own lines only,
also after the window was resized; and the screen is never cleared.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer

QUERY_SYNCHRONIZED: Final = "\x1b[?2026$p"
"""DECRQM: asks whether the terminal knows synchronized updates."""
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_REPLY = re.compile(r"\x1b\[\?2026;([0-4])\$y")
_PARTIAL_REPLY = re.compile(r"\x1b\[\?[0-9;$]{0,8}\Z")
_KNOWN = ("1", "2")
"""The replies of a terminal that knows the mode: it is set, or reset."""
_QUERIED = ("xterm", "tmux", "alacritty", "foot", "ghostty", "wezterm", "rio", "contour")
"""The start of `TERM` where an unknown query prints nothing."""
_REFLOWING_PROGRAMS = frozenset(
    {"Apple_Terminal", "WezTerm", "ghostty", "iTerm.app", "rio", "tmux", "vscode"}
)
_REFLOWING_VARIABLES = (
    *("ALACRITTY_WINDOW_ID", "GHOSTTY_RESOURCES_DIR", "KITTY_WINDOW_ID", "KONSOLE_VERSION"),
    *("TMUX", "VTE_VERSION", "WT_SESSION"),
)


def can_query(term: str) -> bool:
    """Return whether a terminal of this type ignores queries that it does not know."""
    return term.startswith(_QUERIED)


def does_reflow(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to wrap lines again when its width changes."""
    if environ.get("TERM_PROGRAM") in _REFLOWING_PROGRAMS:
        return True
    return any(environ.get(name) for name in _REFLOWING_VARIABLES)


class FrameOutput(Vt100_Output):
    """Writes whole frames: inside `frame`, nothing reaches the terminal before its end."""

    synchronized = False
    """True once the terminal has confirmed synchronized updates."""
    _depth = 0

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Write everything that is written in the `with` block at once."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self.flush()

    def flush(self) -> None:
        """Write what is buffered, unless a frame is open."""
        if self._depth or not self._buffer:
            return
        text = "".join(self._buffer)
        self._buffer.clear()
        if self.synchronized and len(text) > len(_BEGIN):
            text = f"{_BEGIN}{text}{_END}"
        self.stdout.write(text)
        self.stdout.flush()

    def erase_screen(self) -> None:
        """Do nothing: what is on the screen belongs to the user."""

    def show_cursor(self) -> None:
        """Show the cursor, and leave its blinking as the user has configured it."""
        if self._cursor_visible is not True:
            self._cursor_visible = True
            self.write_raw("\x1b[?25h")


class ReplyFilter:
    """Takes the terminal's reply to `QUERY_SYNCHRONIZED` out of the keys."""

    def __init__(self) -> None:
        self.synchronized: bool | None = None
        """What the terminal replied; None while it has not."""
        self._held = ""

    def feed(self, data: str) -> str:
        """Return `data` without the reply; the start of a reply is held until the rest arrives."""
        data, self._held = self._held + data, ""
        if self.synchronized is None and (found := _REPLY.search(data)):
            self.synchronized = found[1] in _KNOWN
            data = data[: found.start()] + data[found.end() :]
        if self.synchronized is None and (partial := _PARTIAL_REPLY.search(data)):
            data, self._held = data[: partial.start()], partial[0]
        return data

    def release(self) -> str:
        """Return what is held, when nothing more arrives."""
        held, self._held = self._held, ""
        return held


if sys.platform == "win32":

    def open_terminal(environ: Mapping[str, str]) -> tuple[Input, Output]:  # noqa: ARG001
        """Return the keyboard and the screen of the console."""
        return create_input(sys.stdin), create_output(sys.stdout)

else:
    from prompt_toolkit.input.vt100 import Vt100Input

    class _FilteredInput(Vt100Input):
        """Reads keys, without the replies of the terminal."""

        def __init__(self, stdin: TextIO, output: FrameOutput) -> None:
            super().__init__(stdin)
            self._output = output
            self._filter = ReplyFilter()

        def read_keys(self) -> list[KeyPress]:
            self.vt100_parser.feed(self._filter.feed(self.stdin_reader.read()))
            self._output.synchronized = bool(self._filter.synchronized)
            keys, self._buffer = self._buffer, []
            return keys

        def flush_keys(self) -> list[KeyPress]:
            self.vt100_parser.feed(self._filter.release())
            return super().flush_keys()

    def open_terminal(environ: Mapping[str, str]) -> tuple[Input, Output]:
        """Return the keyboard and the screen of the terminal at standard input and output."""
        probe = Vt100_Output.from_pty(sys.stdout)
        term = environ.get("TERM", "")
        # No cursor position request: over a slow line the answer may come late, and would be
        # printed or read as keys.
        output = FrameOutput(sys.stdout, probe.get_size, term=term, enable_cpr=False)
        return _FilteredInput(sys.stdin, output), output


@contextmanager
def frame_of(output: Output) -> Iterator[None]:
    """Write everything in the `with` block at once, where the output can."""
    if isinstance(output, FrameOutput):
        with output.frame():
            yield
    else:
        yield


class LiveRenderer(Renderer):
    """Draws the live area, and erases exactly its own lines.

    Args:
        application: The application, whose renderer this becomes.
        reflows: True for a terminal that wraps lines again when its width changes: lines of the
            live area that no longer fit take more rows then.
    """

    def __init__(self, application: Application[Any], *, reflows: bool = False) -> None:
        super().__init__(application.renderer.style, application.output)
        self._reflows = reflows

    def render(self, app: Application[Any], layout: Layout, is_done: bool = False) -> None:  # noqa: FBT001, FBT002 - the signature of prompt_toolkit
        """Draw the live area; one that has become lower gives its rows back."""
        with frame_of(self.output):
            size = self.output.get_size()
            wanted = layout.container.preferred_height(size.columns, size.rows).preferred
            drawn = self._last_screen
            if drawn is not None and drawn.height > min(wanted, size.rows):
                self.erase()
            super().render(app, layout, is_done)

    def erase(self, leave_alternate_screen: bool = True) -> None:  # noqa: ARG002, FBT001, FBT002
        """Erase the live area; the cursor stands where it began."""
        output = self.output
        with frame_of(output):
            output.write_raw("\r")
            output.cursor_up(self._rows_above_cursor(output.get_size()))
            output.reset_attributes()
            output.erase_down()
            output.enable_autowrap()
        self._cursor_pos = Point(x=0, y=0)
        self._last_screen = self._last_size = self._last_style = None

    def _rows_above_cursor(self, size: Size) -> int:
        drawn, before, cursor = self._last_screen, self._last_size, self._cursor_pos
        if drawn is None or before is None:
            return cursor.y
        if not self._reflows or size.columns >= before.columns:
            return min(cursor.y, size.rows - 1)
        widths = (_count_columns(drawn, row) for row in range(cursor.y))
        rows = sum(max(1, -(-width // size.columns)) for width in widths)
        return min(rows + cursor.x // size.columns, size.rows - 1)


def _count_columns(screen: Screen, row: int) -> int:
    """Return how many columns of a row are used."""
    cells = screen.data_buffer[row]
    return max((x + 1 for x, cell in cells.items() if cell.char.strip()), default=0)
