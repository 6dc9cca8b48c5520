"""Draw the scores of a blind test as SVG: a bar for each view, a cell for each kind of question."""

from collections.abc import Iterator, Sequence

from clew.simulation.blind_test.questions import KINDS
from clew.simulation.blind_test.scores import KindScore, ViewScore
from clew.simulation.svg import FAINT, INK, PAPER, draw_text, make_svg

_WIDTH, _TOP, _ROW = 960, 108, 40
_NAMES, _BARS, _CELLS = 24, 220, 500
_BAR_WIDTH, _CELL_WIDTH, _CELL_HEIGHT = 220, 62, 30
_BLUE = (0x00, 0x72, 0xB2)
_DARK = 0.55
"""Cells with a higher score get white text."""


def draw_scores(views: Sequence[ViewScore], *, title: str, note: str = "") -> str:
    """Return an SVG with a row for each view."""
    height = _TOP + _ROW * len(views) + 40
    parts = [draw_text(_NAMES, 32, title, size=16), *_draw_heading()]
    for number, view in enumerate(views):
        parts += _draw_row(view, _TOP + number * _ROW)
    parts.append(draw_text(_NAMES, height - 14, note, size=12))
    return make_svg(parts, title=title, width=_WIDTH, height=height)


def _draw_heading() -> Iterator[str]:
    y = _TOP - 16
    yield draw_text(_NAMES, y, "the reader has")
    yield draw_text(_BARS, y, "score")
    for number, kind in enumerate(KINDS):
        x = _CELLS + number * _CELL_WIDTH + _CELL_WIDTH / 2
        yield draw_text(x, y, kind, anchor="middle", size=12)


def _draw_row(view: ViewScore, y: float) -> Iterator[str]:
    middle = y + _CELL_HEIGHT / 2 + 4
    yield draw_text(_NAMES, middle - 7, view.view)
    detail = f"{view.tokens:,} tokens"
    if view.lookups_per_question:
        detail += f", {view.lookups_per_question:.1f} look-ups"
    yield draw_text(_NAMES, middle + 9, detail, size=11, fill="#57606a")
    size = f'width="{_BAR_WIDTH}" height="{_CELL_HEIGHT}"'
    yield f'<rect x="{_BARS}" y="{y:g}" {size} fill="{PAPER}" stroke="{FAINT}"/>'
    if view.score is not None:
        width = round(_BAR_WIDTH * view.score, 1)
        size = f'width="{width:g}" height="{_CELL_HEIGHT}"'
        yield f'<rect x="{_BARS}" y="{y:g}" {size} fill="{_shade(1.0)}"/>'
    yield draw_text(_BARS + _BAR_WIDTH + 8, middle, _format(view.score))
    for number, kind in enumerate(KINDS):
        yield from _draw_cell(view.kinds.get(kind), _CELLS + number * _CELL_WIDTH, y)


def _draw_cell(found: KindScore | None, x: float, y: float) -> Iterator[str]:
    score = found.score if found is not None else None
    fill = PAPER if score is None else _shade(score)
    size = f'width="{_CELL_WIDTH - 4}" height="{_CELL_HEIGHT}"'
    yield f'<rect x="{x + 2:g}" y="{y:g}" {size} fill="{fill}" stroke="{FAINT}"/>'
    ink = PAPER if score is not None and score > _DARK else INK
    place = (x + _CELL_WIDTH / 2, y + _CELL_HEIGHT / 2 + 4)
    yield draw_text(*place, _format(score), anchor="middle", fill=ink)


def _shade(score: float) -> str:
    """Return a colour between white and blue."""
    mixed = (round(255 + (part - 255) * score) for part in _BLUE)
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _format(score: float | None) -> str:
    return "–" if score is None else f"{score:.2f}"
