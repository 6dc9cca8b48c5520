"""Draws lines of a terminal as SVG. The same lines give the same bytes."""

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape

from scripts.pictures.recorder import COLUMNS, Run

_CELL, _ROW, _MARGIN, _TOP = 8.4, 18, 14, 48
_PAPER, _INK = "#16181d", "#d7dae0"
_COLOURS = {
    "dim": "#868c98",
    "black": "#16181d",
    "red": "#f07178",
    "green": "#9ccc65",
    "brown": "#e5c07b",
    "blue": "#6cb2eb",
    "magenta": "#c792ea",
    "cyan": "#56c5d0",
    "white": "#d7dae0",
    "brightblack": "#868c98",
    "brightred": "#ff8b92",
    "brightgreen": "#b5e07f",
    "brightbrown": "#ffdd8f",
    "brightblue": "#8ecbff",
    "brightmagenta": "#dcb0ff",
    "brightcyan": "#7fe3ec",
    "brightwhite": "#ffffff",
}
_LINE = re.compile(r'<text class="line"[^>]*>(.*?)</text>', re.DOTALL)
_RUN = re.compile(r'<tspan x="([\d.]+)"[^>]*>([^<]*)</tspan>')


def draw_terminal(lines: Sequence[Sequence[Run]], *, title: str) -> str:
    """Return a terminal window with these lines."""
    width = round(COLUMNS * _CELL + 2 * _MARGIN)
    height = _TOP + len(lines) * _ROW + _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14"'
            f' fill="{_INK}" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{_PAPER}"/>',
            *(
                f'<circle cx="{18 + 16 * at}" cy="16" r="5" fill="{colour}"/>'
                for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
            ),
            *(part for row, line in enumerate(lines) for part in _draw_line(row, line)),
            "</svg>",
            "",
        ]
    )


def read_lines(picture: str) -> list[str]:
    """Return the text of a picture, line by line."""
    lines = []
    for line in _LINE.findall(picture):
        text = ""
        for place, words in _RUN.findall(line):
            text = text.ljust(round((float(place) - _MARGIN) / _CELL)) + unescape(words)
        lines.append(text)
    return lines


def _draw_line(row: int, line: Sequence[Run]) -> Iterator[str]:
    y = _TOP + row * _ROW
    for run in line:
        if run.background:
            x, wide = _MARGIN + run.column * _CELL, len(run.text) * _CELL
            colour = _find_colour(run.background)
            yield (
                f'<rect x="{x:.1f}" y="{y - 13}" width="{wide:.1f}" height="{_ROW}"'
                f' fill="{colour}"/>'
            )
    runs = "".join(map(_draw_run, line))
    yield f'<text class="line" y="{y}" xml:space="preserve">{runs}</text>'


def _draw_run(run: Run) -> str:
    looks = {
        "fill": _find_colour(run.colour) if run.colour else "",
        "font-weight": "bold" if run.bold else "",
        "font-style": "italic" if run.italic else "",
        "text-decoration": "underline" if run.underline else "line-through" if run.strike else "",
    }
    shown = "".join(f' {name}="{value}"' for name, value in looks.items() if value)
    # Fonts differ: the length keeps columns in place.
    size = f' textLength="{len(run.text) * _CELL:.1f}"' if len(run.text) > 1 else ""
    x = _MARGIN + run.column * _CELL
    return f'<tspan x="{x:.1f}"{size}{shown}>{escape(run.text)}</tspan>'


def _find_colour(name: str) -> str:
    return _COLOURS.get(name) or f"#{name}"
