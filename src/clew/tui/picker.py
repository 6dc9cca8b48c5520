"""Lists to choose from: which session to open, and whether to trust a folder."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from clew.core.sanitize import sanitize, split_rows
from clew.tui.standard_output import write_out
from clew.tui.theme import Theme

_MAX_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Row:
    """One line to choose."""

    text: str
    key: str = ""
    """The key that chooses it; its number by default."""


def pick(question: str, rows: Sequence[Row], *, theme: Theme, live: bool) -> int | None:
    """Let the user choose a row; returns its place, or None for none of them.

    Keys that were pressed before the question was shown do not answer it.

    Args:
        question: What to choose.
        rows: The choices.
        theme: How text is shown.
        live: Draw a list to select from, with arrows, keys or numbers. Otherwise, the list is
            printed and an answer is read as a line.
    """
    if live:
        return _pick_live(question, rows, theme)
    _write(theme, *(f"  {_key(place, row)}  {row.text}" for place, row in enumerate(rows)))
    keys = [_key(place, row) for place, row in enumerate(rows)]
    _write(theme, f"{question} Enter leaves it as it is.")
    while True:
        write_out("")
        try:
            typed = input("choose: ").strip().lower()
        except (EOFError, KeyboardInterrupt):
            write_out("\n")
            return None
        if not typed:
            return None
        for place, key in enumerate(keys):
            if typed in (key, rows[place].text.lower()) or (rows[place].key and typed[:1] == key):
                return place
        _write(theme, f"answer with one of: {', '.join(keys)}")


def _key(place: int, row: Row) -> str:
    return row.key or str(place + 1)


def _write(theme: Theme, *lines: str) -> None:
    write_out("".join(f"{theme.encodable(sanitize(line))}\n" for line in lines))


def _pick_live(question: str, rows: Sequence[Row], theme: Theme) -> int | None:
    # Slow to load: only for a question on a terminal.
    from prompt_toolkit.application import Application  # noqa: PLC0415
    from prompt_toolkit.formatted_text import StyleAndTextTuples  # noqa: PLC0415
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent  # noqa: PLC0415
    from prompt_toolkit.keys import Keys  # noqa: PLC0415
    from prompt_toolkit.layout import FormattedTextControl, Layout, Window  # noqa: PLC0415
    from prompt_toolkit.output import ColorDepth  # noqa: PLC0415

    from clew.tui.keys import drop_typeahead  # noqa: PLC0415
    from clew.tui.terminal import LiveRenderer, open_terminal  # noqa: PLC0415

    selected = 0
    keyboard, screen = open_terminal({})

    def draw() -> StyleAndTextTuples:
        size = screen.get_size()
        shown = max(1, min(_MAX_SHOWN, size.rows - 3))
        first = max(0, min(selected - shown // 2, len(rows) - shown))
        lines: StyleAndTextTuples = [("bold", _cut(question, size.columns)), ("", "\n")]
        for place in range(first, min(len(rows), first + shown)):
            mark = theme.glyph("❯") if place == selected else " "
            text = f"{mark} {_key(place, rows[place])}  {rows[place].text}"
            style = "bold" if place == selected else ""
            lines += [(style, _cut(theme.clean(text), size.columns)), ("", "\n")]
        hint = theme.encodable("↑ ↓ and Enter, or a key; Esc for none")
        return [*lines, ("dim", _cut(hint, size.columns))]

    keys = KeyBindings()

    @keys.add("up", eager=True)
    @keys.add("down", eager=True)
    def _select(event: KeyPressEvent) -> None:
        nonlocal selected
        step = -1 if event.key_sequence[0].key == Keys.Up else 1
        selected = (selected + step) % len(rows)

    @keys.add("enter", eager=True)
    def _take(event: KeyPressEvent) -> None:
        event.app.exit(result=selected)

    @keys.add("escape", eager=True)
    @keys.add("c-c", eager=True)
    @keys.add("c-d", eager=True)
    @keys.add("<sigint>", eager=True)
    def _none(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    @keys.add(Keys.Any)
    def _press(event: KeyPressEvent) -> None:
        for place, row in enumerate(rows):
            if event.data.lower() == _key(place, row):
                event.app.exit(result=place)

    application: Application[int | None] = Application(
        layout=Layout(Window(FormattedTextControl(draw), wrap_lines=False)),
        key_bindings=keys,
        include_default_pygments_style=False,
        color_depth=None if theme.has_colours else ColorDepth.DEPTH_1_BIT,
        erase_when_done=True,
        input=keyboard,
        output=screen,
    )
    application.renderer = LiveRenderer(application)
    application.ttimeoutlen = 0.05
    drop_typeahead()
    with suppress(EOFError):
        return application.run()
    return None


def _cut(text: str, width: int) -> str:
    return next(split_rows(sanitize(text), max(1, width - 1)))


def can_draw(environ_term: str) -> bool:
    """Return whether standard input and output are a terminal that can erase lines."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and environ_term.lower() not in ("", "dumb", "unknown")
