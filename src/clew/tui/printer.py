"""Prints finished blocks above the live area: each once, and never again."""

from typing import Any

from prompt_toolkit.application import Application

from clew.tui.blocks import Block
from clew.tui.rendering import render_block
from clew.tui.terminal import frame_of
from clew.tui.theme import Theme


class Printer:
    """Collects text and writes it above the live area, in one piece with the next update.

    Args:
        application: The application that draws the live area.
        theme: The colours of blocks.
    """

    def __init__(self, application: Application[Any], theme: Theme) -> None:
        self._application = application
        self._pending: list[str] = []
        self._last: Block | None = None
        self.theme = theme

    @property
    def is_pending(self) -> bool:
        """True when something was added that is not written yet."""
        return bool(self._pending)

    @property
    def width(self) -> int:
        """The width of the terminal, in columns."""
        return self._application.output.get_size().columns

    def add(self, block: Block, *, expanded: bool = False) -> None:
        """Add a block; `flush` writes it."""
        self._pending.append(
            render_block(
                block, width=self.width, theme=self.theme, expanded=expanded, after=self._last
            )
        )
        self._last = block

    def add_text(self, text: str) -> None:
        """Add text that is sanitized and ends with a line break."""
        self._pending.append(text)

    def flush(self) -> None:
        """Write what was added, and draw the live area again below it."""
        text = "".join(self._pending)
        application, output = self._application, self._application.output
        if not application.is_running or application._running_in_terminal:  # noqa: SLF001
            # The user's editor has the terminal, or the application starts soon.
            return
        if not text:
            application.invalidate()
            return
        self._pending.clear()
        with frame_of(output):
            application.renderer.erase()
            output.write_raw(text.replace("\r\n", "\n").replace("\n", "\r\n"))
            application._redraw()  # noqa: SLF001 - the only way to draw in the same frame
        output.flush()
