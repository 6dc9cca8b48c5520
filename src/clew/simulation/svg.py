"""The frame and the text of an SVG chart.

The code writes SVG directly, so it needs no plotting library. It draws its own background, so a
chart looks the same on light and dark pages.
"""

from collections.abc import Iterable
from html import escape

from clew.core.sanitize import sanitize

INK, FAINT, PAPER = "#24292f", "#d0d7de", "#ffffff"


def make_svg(parts: Iterable[str], *, title: str, width: int, height: int) -> str:
    """Return a document with a background and these parts."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{INK}" role="img">',
        f"<title>{_escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def draw_text(
    x: float, y: float, words: str, *, anchor: str = "start", size: int = 13, fill: str = ""
) -> str:
    """Return a line of text at a place."""
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"'
    colour = f' fill="{fill}"' if fill else ""
    return f"<text {place}{colour}>{_escape(words)}</text>"


def _escape(text: str) -> str:
    return escape(sanitize(text))
