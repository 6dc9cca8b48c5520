"""A list on a terminal: arrows select a row, Enter or its key chooses it, / searches."""

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
        """The place among the rows that match."""
        self._search: str | None = None
        """What the rows must contain; None until the user searches."""
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

    def _list_places(self) -> list[int]:
        """Return the places of the rows that match."""
        words = (self._search or "").lower().split()
        return [
            place
            for place, (_, text) in enumerate(self._rows)
            if all(word in text.lower() for word in words)
        ]

    def _draw(self) -> StyleAndTextTuples:
        size, places = self._screen.get_size(), self._list_places()
        shown = max(1, min(_MAX_SHOWN, size.rows - 3))
        first = max(0, min(self._selected - shown // 2, len(places) - shown))
        lines: StyleAndTextTuples = [("bold", _cut(self._question, size.columns)), ("", "\n")]
        for index, place in enumerate(places[first : first + shown], first):
            is_selected = index == self._selected
            mark = self._theme.glyph("❯") if is_selected else " "
            key, text = self._rows[place]
            # A number of two digits would be two keys, and a search takes all of them.
            sign = key if len(key) == 1 and self._search is None else " "
            text = self._theme.clean(f"{mark} {sign}  {text}")
            lines += [("bold" if is_selected else "", _cut(text, size.columns)), ("", "\n")]
        return [*lines, ("dim", _cut(self._theme.encodable(self._hint(places)), size.columns))]

    def _hint(self, places: Sequence[int]) -> str:
        if self._search is not None:
            return f"search: {self._search}  ({len(places)} of {len(self._rows)}; Esc ends it)"
        more = f"; / searches all {len(self._rows)}" if self._can_search else ""
        return f"↑ ↓ and Enter, or a key{more}; Esc for none"

    @property
    def _can_search(self) -> bool:
        return len(self._rows) > _MAX_SHOWN

    def _make_keys(self) -> KeyBindings:
        keys = KeyBindings()
        for name, step in (("up", -1), ("down", 1)):
            keys.add(name, eager=True)(lambda _, step=step: self._select(step))
        keys.add("enter", eager=True)(self._choose)
        for name in ("c-c", "c-d", "<sigint>"):
            keys.add(name, eager=True)(lambda event: event.app.exit(result=None))
        keys.add("escape", eager=True)(self._escape)
        keys.add("backspace", eager=True)(lambda _: self._narrow((self._search or "")[:-1]))
        keys.add(Keys.Any)(self._press)
        return keys

    def _select(self, step: int) -> None:
        self._selected = (self._selected + step) % max(1, len(self._list_places()))

    def _choose(self, event: KeyPressEvent) -> None:
        if places := self._list_places():
            event.app.exit(result=places[self._selected])

    def _escape(self, event: KeyPressEvent) -> None:
        if self._search is None:
            event.app.exit(result=None)
        else:
            self._search, self._selected = None, 0

    def _narrow(self, search: str) -> None:
        if self._search is not None:
            self._search, self._selected = search, 0

    def _press(self, event: KeyPressEvent) -> None:
        if self._search is not None:
            if event.data.isprintable():
                self._narrow(self._search + event.data)
            return
        if event.data == "/" and self._can_search:
            self._search, self._selected = "", 0
            return
        for place, (key, _) in enumerate(self._rows):
            if event.data.lower() == key:
                event.app.exit(result=place)
                return


def _cut(text: str, width: int) -> str:
    return next(split_rows(sanitize(text), max(1, width - 1)))
