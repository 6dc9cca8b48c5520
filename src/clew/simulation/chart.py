"""A picture of a simulation: how full the context was at each call, as SVG text.

Written by hand, so that no plotting library is needed. The background is drawn, so it reads
the same on a light page and on a dark one.
"""

from collections.abc import Iterator, Sequence
from html import escape

from clew.simulation.runs import Run

_WIDTH, _HEIGHT = 960, 540
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 196, 64, 60
_INK, _FAINT, _PAPER = "#24292f", "#d0d7de", "#ffffff"
_COLOURS = ("#57606a", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7048a8")
"""Tell apart on paper, and for most who see colours differently; the first is for `none`."""
_STEPS = (1, 2, 5)


def chart(runs: Sequence[Run], *, title: str, window: int) -> str:
    """Return an SVG with a line for each of `runs`; a dot marks a compaction.

    The dashed line is the window, where the contexts come near it.
    """
    calls = max((run.calls for run in runs), default=1)
    highest = max((run.peak_tokens for run in runs), default=1)
    frame = _Frame(calls=max(calls, 2), tokens=max(highest, 1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{_INK}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="{_PAPER}"/>',
        _text(_LEFT, 32, title, size=16),
        *_axes(frame),
        *_window_line(frame, window),
        *(part for place, run in enumerate(runs) for part in _line(frame, run, _colour(place))),
        *_legend(runs),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Frame:
    """Turns calls and tokens into places on the picture."""

    def __init__(self, *, calls: int, tokens: int) -> None:
        self.calls = calls
        self.tokens = tokens * 1.05

    def x(self, call: float) -> float:
        """Return how far to the right a call stands."""
        inner = _WIDTH - _LEFT - _RIGHT
        return round(_LEFT + (call - 1) / (self.calls - 1) * inner, 1)

    def y(self, tokens: float) -> float:
        """Return how far down a number of tokens stands."""
        inner = _HEIGHT - _TOP - _BOTTOM
        return round(_HEIGHT - _BOTTOM - tokens / self.tokens * inner, 1)


def _axes(frame: _Frame) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for tokens in _ticks(frame.tokens):
        y = frame.y(tokens)
        yield f'<path d="M{_LEFT} {y}H{right}" stroke="{_FAINT}"/>'
        yield _text(_LEFT - 8, y + 4, f"{tokens:,}", anchor="end")
    for call in _ticks(frame.calls):
        if call:
            yield _text(frame.x(call), bottom + 20, f"{call:,}", anchor="middle")
    yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" stroke="{_INK}" fill="none"/>'
    yield _text((_LEFT + right) / 2, _HEIGHT - 16, "call", anchor="middle")
    yield _text(_LEFT, _TOP - 12, "tokens in the request")


def _window_line(frame: _Frame, window: int) -> Iterator[str]:
    if window <= frame.tokens:
        y, right = frame.y(window), _WIDTH - _RIGHT
        yield f'<path d="M{_LEFT} {y}H{right}" stroke="{_INK}" stroke-dasharray="6 5"/>'
        yield _text(_LEFT + 8, y - 6, f"window: {window:,} tokens")


def _line(frame: _Frame, run: Run, colour: str) -> Iterator[str]:
    places = [(frame.x(point.call), frame.y(point.tokens)) for point in run.timeline]
    if not places:
        return
    path = " ".join(f"{x},{y}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
    for point, (x, y) in zip(run.timeline, places, strict=True):
        if point.compacted:
            said = f"{run.strategy}: compaction before call {point.call}"
            yield _ring(x, y, colour, f"<title>{escape(said)}</title>")


def _legend(runs: Sequence[Run]) -> Iterator[str]:
    left, y = _WIDTH - _RIGHT + 16, _HEIGHT - _BOTTOM - 24 * len(runs) - 20
    for place, run in enumerate(runs):
        y += 24
        stroke = f'stroke="{_colour(place)}" stroke-width="3"'
        yield f'<path d="M{left} {y - 4}h24" {stroke}/>'
        yield _text(left + 32, y, run.strategy)
    yield _ring(left + 12, y + 20, _INK)
    yield _text(left + 32, y + 24, "a compaction")


def _ring(x: float, y: float, colour: str, inside: str = "") -> str:
    look = f'fill="{_PAPER}" stroke="{colour}" stroke-width="2"'
    return f'<circle cx="{x:g}" cy="{y:g}" r="4.5" {look}>{inside}</circle>'


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def _ticks(highest: float) -> list[int]:
    """Return about five round numbers from 0 up to `highest`."""
    size = 1
    while True:
        for step in _STEPS:
            if highest / (step * size) <= 6:
                return list(range(0, int(highest) + 1, step * size))
        size *= 10


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 13) -> str:
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"'
    return f"<text {place}>{escape(words)}</text>"
