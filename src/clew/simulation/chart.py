"""Draw a simulation as SVG: the size of the context at each call."""

from collections.abc import Iterator, Sequence
from html import escape

from clew.simulation.scenario import SimulationRun
from clew.simulation.svg import FAINT, INK, PAPER, draw_text, make_svg

_WIDTH, _HEIGHT = 960, 540
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 196, 64, 60
_COLOURS = ("#57606a", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#7048a8")
"""Colour-blind friendly; the first is for `none`."""
_STEPS = (1, 2, 5)


def draw_chart(runs: Sequence[SimulationRun], *, title: str, window: int) -> str:
    """Return an SVG with a line for each of `runs`.

    A ring marks a compaction, a bar tool results that were cleared. A dashed line shows the window
    when the contexts come near it.
    """
    calls = max((run.calls for run in runs), default=1)
    highest = max((run.peak_tokens for run in runs), default=1)
    frame = _Frame(calls=max(calls, 2), tokens=max(highest, 1))
    parts = [
        draw_text(_LEFT, 32, title, size=16),
        *_axes(frame),
        *_window_line(frame, window),
        *(part for index, run in enumerate(runs) for part in _line(frame, run, _colour(index))),
        *_legend(runs),
    ]
    return make_svg(parts, title=title, width=_WIDTH, height=_HEIGHT)


class _Frame:
    """Converts calls and tokens to coordinates."""

    def __init__(self, *, calls: int, tokens: int) -> None:
        self.calls = calls
        self.tokens = tokens * 1.05

    def x(self, call: float) -> float:
        """Return the x coordinate of a call."""
        inner = _WIDTH - _LEFT - _RIGHT
        return round(_LEFT + (call - 1) / (self.calls - 1) * inner, 1)

    def y(self, tokens: float) -> float:
        """Return the y coordinate of a number of tokens."""
        inner = _HEIGHT - _TOP - _BOTTOM
        return round(_HEIGHT - _BOTTOM - tokens / self.tokens * inner, 1)


def _axes(frame: _Frame) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for tokens in _ticks(frame.tokens):
        y = frame.y(tokens)
        yield f'<path d="M{_LEFT} {y}H{right}" stroke="{FAINT}"/>'
        yield draw_text(_LEFT - 8, y + 4, f"{tokens:,}", anchor="end")
    for call in _ticks(frame.calls):
        if call:
            yield draw_text(frame.x(call), bottom + 20, f"{call:,}", anchor="middle")
    yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" stroke="{INK}" fill="none"/>'
    yield draw_text((_LEFT + right) / 2, _HEIGHT - 16, "call", anchor="middle")
    yield draw_text(_LEFT, _TOP - 12, "tokens in the request")


def _window_line(frame: _Frame, window: int) -> Iterator[str]:
    if window <= frame.tokens:
        y, right = frame.y(window), _WIDTH - _RIGHT
        yield f'<path d="M{_LEFT} {y}H{right}" stroke="{INK}" stroke-dasharray="6 5"/>'
        yield draw_text(_LEFT + 8, y - 6, f"window: {window:,} tokens")


def _line(frame: _Frame, run: SimulationRun, colour: str) -> Iterator[str]:
    points = [(frame.x(point.call), frame.y(point.tokens)) for point in run.timeline]
    if not points:
        return
    path = " ".join(f"{x},{y}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>'
    for point, (x, y) in zip(run.timeline, points, strict=True):
        if point.compacted:
            said = f"{run.strategy}: compaction before call {point.call}"
            yield _ring(x, y, colour, f"<title>{escape(said)}</title>")
        elif point.cleared:
            said = f"{run.strategy}: tool results cleared before call {point.call}"
            yield _bar(x, y, colour, f"<title>{escape(said)}</title>")


def _legend(runs: Sequence[SimulationRun]) -> Iterator[str]:
    left, y = _WIDTH - _RIGHT + 16, _HEIGHT - _BOTTOM - 24 * len(runs) - 44
    for index, run in enumerate(runs):
        y += 24
        stroke = f'stroke="{_colour(index)}" stroke-width="3"'
        yield f'<path d="M{left} {y - 4}h24" {stroke}/>'
        yield draw_text(left + 32, y, run.strategy)
    yield _ring(left + 12, y + 20, INK)
    yield draw_text(left + 32, y + 24, "a compaction")
    yield _bar(left + 12, y + 44, INK)
    yield draw_text(left + 32, y + 48, "results cleared")


def _ring(x: float, y: float, colour: str, inside: str = "") -> str:
    look = f'fill="{PAPER}" stroke="{colour}" stroke-width="2"'
    return f'<circle cx="{x:g}" cy="{y:g}" r="4.5" {look}>{inside}</circle>'


def _bar(x: float, y: float, colour: str, inside: str = "") -> str:
    return (
        f'<rect x="{x - 2:g}" y="{y - 8:g}" width="4" height="16" fill="{colour}">{inside}</rect>'
    )


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _ticks(highest: float) -> list[int]:
    """Return about five round numbers from 0 up to `highest`."""
    size = 1
    while True:
        for step in _STEPS:
            if highest / (step * size) <= 6:
                return list(range(0, int(highest) + 1, step * size))
        size *= 10
