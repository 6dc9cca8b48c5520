"""A list on a terminal: arrows select a row; Enter, its key or its number chooses it."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import ColorDepth

from clew.core.sanitize import sanitize, split_rows
from clew.tui.keys import drop_typeahead
from clew.tui.terminal import LiveRenderer, open_terminal
from clew.tui.theme import Theme

_MAX_SHOWN: Final = 12
_ESCAPE_WAITS: Final = 0.05


class PickerList:
    """Rows to choose from, drawn below the cursor and erased afterwards.

    Args:
        question: What to choose.
        rows: The choices: the key and the text of each.
        theme: How text is shown.
    """

    def __init__(self, question: str, rows: Sequence[tuple[str, str]], theme: Theme) -> None:
        self._question, self._rows, self._theme = question, rows, theme
        self._selected = 0
        keyboard, self._screen = open_terminal({})
        self._application: Application[int | None] = Application(
            layout=Layout(Window(FormattedTextControl(self._draw), wrap_lines=False)),
            key_bindings=self._make_keys(),
            include_default_pygments_style=False,
            color_depth=None if theme.has_colours else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            input=keyboard,
            output=self._screen,
        )
        self._application.renderer = LiveRenderer(self._application)
        self._application.ttimeoutlen = _ESCAPE_WAITS

    def run(self) -> int | None:
        """Return the place of the row that the user chooses; None for none of them."""
        drop_typeahead()
        with suppress(EOFError):
            return self._application.run()
        return None

    def _draw(self) -> StyleAndTextTuples:
        size, rows = self._screen.get_size(), self._rows
        shown = max(1, min(_MAX_SHOWN, size.rows - 3))
        first = max(0, min(self._selected - shown // 2, len(rows) - shown))
        lines: StyleAndTextTuples = [("bold", _cut(self._question, size.columns)), ("", "\n")]
        for place in range(first, min(len(rows), first + shown)):
            is_selected = place == self._selected
            mark = self._theme.glyph("❯") if is_selected else " "
            key, text = rows[place]
            # A number of two digits would be two keys.
            text = self._theme.clean(f"{mark} {key if len(key) == 1 else ' '}  {text}")
            lines += [("bold" if is_selected else "", _cut(text, size.columns)), ("", "\n")]
        hint = self._theme.encodable("↑ ↓ and Enter, or a key; Esc for none")
        return [*lines, ("dim", _cut(hint, size.columns))]

    def _make_keys(self) -> KeyBindings:
        keys = KeyBindings()
        for name, step in (("up", -1), ("down", 1)):
            keys.add(name, eager=True)(lambda _, step=step: self._select(step))
        keys.add("enter", eager=True)(lambda event: event.app.exit(result=self._selected))
        for name in ("escape", "c-c", "c-d", "<sigint>"):
            keys.add(name, eager=True)(lambda event: event.app.exit(result=None))
        keys.add(Keys.Any)(self._press)
        return keys

    def _select(self, step: int) -> None:
        self._selected = (self._selected + step) % len(self._rows)

    def _press(self, event: KeyPressEvent) -> None:
        for place, (key, _) in enumerate(self._rows):
            if event.data.lower() == key:
                event.app.exit(result=place)
                return


def _cut(text: str, width: int) -> str:
    return next(split_rows(sanitize(text), max(1, width - 1)))
