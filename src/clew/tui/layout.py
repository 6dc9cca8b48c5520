"""The live area: what is drawn below the printed blocks, from the state of the application."""

from collections.abc import Sequence
from typing import Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.layout import (
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.styles import Style

from clew.core.sanitize import sanitize_line
from clew.tui.input import InputArea
from clew.tui.questions import ANSI as COLOURED
from clew.tui.questions import Line, QuestionList, draw_questions
from clew.tui.status import StatusPart

STYLE = Style(
    [
        ("dim", "dim"),
        ("question", "bold ansiyellow"),
        ("selected", "bold"),
        ("green", "ansigreen"),
        ("yellow", "ansiyellow"),
        ("red", "ansired"),
        ("completion-menu", "noinherit"),
        ("completion-menu.completion", "noinherit"),
        ("completion-menu.completion.current", "noinherit reverse"),
        ("completion-menu.meta.completion", "noinherit dim"),
        ("completion-menu.meta.completion.current", "noinherit reverse"),
        ("scrollbar.background", "noinherit"),
        ("scrollbar.button", "noinherit reverse"),
    ]
)
_MAX_QUEUE = 3
_AIRY = 6
"""With as many free rows, an empty one separates the live area from what is printed."""
_STATUS_FROM = 3
"""A window with fewer rows shows no status line."""


class ScreenView(Protocol):
    """What the live area shows."""

    @property
    def input(self) -> InputArea:
        """The input."""
        ...

    @property
    def questions(self) -> QuestionList:
        """The questions that wait."""
        ...

    @property
    def hint(self) -> str:
        """A line about the last key."""
        ...

    @property
    def is_queue_held(self) -> bool:
        """True when the prompts wait for the user, not for the end of a run."""
        ...

    def encodable(self, text: str) -> str:
        """Return text with substitutes for characters that the terminal cannot show."""
        ...

    def list_queue(self) -> Sequence[str]:
        """Return the prompts that wait."""
        ...

    def draw_live(self, *, width: int, rows: int) -> list[str]:
        """Return the unfinished block, as lines with colours."""
        ...

    def draw_preview(self, width: int) -> list[str]:
        """Return what the call of the open question would do, as lines with colours."""
        ...

    def draw_status(self, width: int) -> tuple[StatusPart, ...]:
        """Return the status line."""
        ...


class LiveArea:
    """The layout of prompt_toolkit for a `ScreenView`."""

    def __init__(self, view: ScreenView) -> None:
        self._view = view
        self._drawn: tuple[int, list[StyleAndTextTuples]] = (-1, [])
        asking = Condition(lambda: view.questions.is_armed and not view.questions.is_writing)
        writing = Condition(lambda: view.questions.is_writing)
        view.input.window.always_hide_cursor = asking
        above = Window(
            FormattedTextControl(self._above, focusable=False), height=self._above_height
        )
        status = Window(FormattedTextControl(self._status, focusable=False), height=1)
        self.layout = Layout(
            HSplit(
                [
                    above,
                    ConditionalContainer(view.input.reply_window, filter=writing),
                    view.input.window,
                    view.input.search,
                    view.input.menu,
                    ConditionalContainer(status, filter=Condition(_has_status)),
                ]
            ),
            focused_element=view.input.window,
        )

    def _above_height(self) -> Dimension:
        rows = len(self._lines())
        return Dimension(min=0, preferred=rows, max=rows)

    def _above(self) -> StyleAndTextTuples:
        return [part for line in self._lines() for part in (*line, ("", "\n"))][:-1]

    def _lines(self) -> list[StyleAndTextTuples]:
        """Return the lines above the input, drawn once for each update."""
        counter = get_app().render_counter
        if self._drawn[0] != counter:
            self._drawn = (counter, self._draw())
        return self._drawn[1]

    def _draw(self) -> list[StyleAndTextTuples]:
        view, size = self._view, get_app().output.get_size()
        width, room = size.columns, size.rows
        room -= int(_has_status()) + view.input.window.preferred_height(width, room).preferred
        below = draw_queue(view.list_queue(), width=width, is_held=view.is_queue_held)
        if view.hint:
            below.append(("dim", sanitize_line(view.hint, max(2, width - 1))))
        below = below[: max(0, room)]
        room -= len(below)
        preview = view.draw_preview(width) if view.questions else []
        asked = draw_questions(view.questions, preview, width=width, rows=room) if room > 0 else []
        room -= len(asked)
        live = view.draw_live(width=width, rows=room) if room > 0 else []
        if room - len(live) >= _AIRY and (not live or live[0]):
            live = ["", *live]
        return [
            *(to_formatted_text(ANSI(line)) for line in live[-room:] if room > 0),
            *(_style_line(style, view.encodable(text)) for style, text in (*asked, *below)),
        ]

    def _status(self) -> StyleAndTextTuples:
        width = get_app().output.get_size().columns
        parts = self._view.draw_status(width)
        return [(f"class:{part.style}" if part.style else "", part.text) for part in parts]


def _style_line(style: str, text: str) -> StyleAndTextTuples:
    if style == COLOURED:
        return to_formatted_text(ANSI(text))
    return [(f"class:{style}" if style else "", text)]


def draw_queue(queue: Sequence[str], *, width: int, is_held: bool) -> list[Line]:
    """Return the lines about the prompts that wait."""
    hint = "  (Enter sends, ↑ edits)" if is_held else "  (↑ edits)"
    # The user must know what the prompts wait for, however long they are.
    room = max(8, width - 11 - (len(hint) if is_held else 0))
    lines = [f"queued: {sanitize_line(text, room)}" for text in queue[:_MAX_QUEUE]]
    if len(queue) > _MAX_QUEUE:
        lines.append(f"… and {len(queue) - _MAX_QUEUE} more")
    if lines and len(lines[-1]) + len(hint) < width:
        lines[-1] += hint
    return [("yellow", line) for line in lines]


def _has_status() -> bool:
    return get_app().output.get_size().rows >= _STATUS_FROM
