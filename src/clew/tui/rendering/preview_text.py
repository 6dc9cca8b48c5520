"""What a tool call would do, as text for the question before it runs.

Every line of a model or a file stands behind a bar, so that it cannot imitate Clew.
"""

from clew.core.events import PermissionRequest
from clew.core.text import pluralize
from clew.sdk.permission_preview import preview_change, preview_request
from clew.tui.blocks import EXIT_PLAN_MODE
from clew.tui.rendering.block_text import MIN_WIDTH
from clew.tui.rendering.diff_text import render_diff
from clew.tui.rendering.lines import Line, Span, chop_line, count_line, truncate_line, write_line
from clew.tui.rendering.notes import split_text
from clew.tui.theme import Theme

_STYLES = {"+": "added", "-": "removed"}


def render_preview(
    request: PermissionRequest,
    *,
    width: int,
    theme: Theme,
    most: int | None = None,
    cwd: str = "",
) -> list[str]:
    """Return what a call would do beyond its target, as ANSI lines without line breaks.

    An edit is shown as the same diff as after it was made; a command has no preview.

    Args:
        request: The request. The file that an edit would change is read here.
        width: The columns of the terminal; no line is wider.
        theme: Colours and characters.
        most: The maximum number of lines; a last line counts the others.
        cwd: The folder in which the session works; by default that of this process.
    """
    bar: Line = (Span(f"  {theme.glyph('│')} ", theme.sgr("dim")),)
    room = max(width, MIN_WIDTH) - count_line(bar)
    change = preview_change(request, cwd=cwd)
    if change is not None:
        lines = render_diff(change, width=room, theme=theme, most=most)
    else:
        lines = _render_rest(request, room, theme, most)
    return [write_line((*bar, *line)) for line in lines]


def _render_rest(
    request: PermissionRequest, width: int, theme: Theme, most: int | None
) -> list[Line]:
    if request.tool_name == EXIT_PLAN_MODE:
        return []  # The plan is printed above the question.
    texts = split_text("\n".join(preview_request(request)), theme)
    if texts == [""]:
        return []
    is_change = request.tool_name in {"Edit", "Write"}
    lines = [
        row
        for text in texts
        for row in chop_line(
            (Span(text, theme.sgr(_STYLES.get(text[:1], "") if is_change else "")),), width
        )
    ]
    if most is None or len(lines) <= most:
        return lines
    more = f"{theme.glyph('…')} {pluralize(len(lines) - most + 1, 'more line')}"
    return [*lines[: most - 1], truncate_line((Span(more, theme.sgr("dim")),), width)]
