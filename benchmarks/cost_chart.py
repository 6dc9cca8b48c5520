"""A chart of cost against quality, as SVG: one point for each way to manage the context."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 720, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 40, 50, 60
_INK, _FAINT, _PAPER, _POINT = "#24292f", "#d0d7de", "#ffffff", "#0072b2"
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One way to manage the context."""

    name: str
    cost: float
    """Relative to sending everything."""
    quality: float
    """Share of the identifiers needed next that stand in the view."""


def draw_points(points: Sequence[Point]) -> str:
    """Return the chart; the best place is the upper left corner."""
    points = sorted(points, key=lambda point: point.cost)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="system-ui, sans-serif" font-size="13" fill="{_INK}" role="img">',
        "<title>Cost and quality of each level of economy</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="{_PAPER}"/>',
        *_axes(),
        *(part for place, point in enumerate(points) for part in _mark(point, place)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axes() -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for share in _TICKS:
        yield f'<path d="M{_LEFT} {_y(share):g}H{right}" stroke="{_FAINT}"/>'
        yield _text(_LEFT - 8, _y(share) + 4, f"{share:.1f}", anchor="end")
        yield _text(_x(share), bottom + 20, f"{share:.1f}", anchor="middle")
    yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" stroke="{_INK}" fill="none"/>'
    yield _text((_LEFT + right) / 2, _HEIGHT - 16, "cost, relative to none", anchor="middle")
    yield _text(_LEFT, _TOP - 16, "identifiers needed next that stand in the view")


def _mark(point: Point, place: int) -> Iterator[str]:
    x, y = _x(point.cost), _y(point.quality)
    said = f"{point.name}: cost {point.cost:.2f}, in view {point.quality:.2f}"
    dot = f'<circle cx="{x:g}" cy="{y:g}" r="6" fill="{_POINT}">'
    yield f"{dot}<title>{escape(said)}</title></circle>"
    # Neighbours are close together, so their labels alternate.
    label = f"{point.name} ({point.cost:.2f}, {point.quality:.2f})"
    yield _text(x, y + (22 if place % 2 else 40), label, anchor="middle")


def _x(cost: float) -> float:
    return round(_LEFT + min(cost, 1.0) * (_WIDTH - _LEFT - _RIGHT - 60), 1)


def _y(quality: float) -> float:
    return round(_HEIGHT - _BOTTOM - quality * (_HEIGHT - _TOP - _BOTTOM), 1)


def _text(x: float, y: float, words: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'
