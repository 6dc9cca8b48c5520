"""Permission requests as lines of text, answered with a letter, a word, or a text for the model."""

from collections.abc import Callable
from typing import Final

from clew.core.events import PermissionRequest
from clew.core.permissions import Approval
from clew.core.sanitize import sanitize
from clew.core.text import pluralize
from clew.sdk.permission_requests import list_choices
from clew.tui.blocks import EXIT_PLAN_MODE
from clew.tui.questions import BAR, MAX_LINES, add_bars, format_target
from clew.tui.rendering import render_preview
from clew.tui.standard_output import write_out
from clew.tui.theme import Theme

_WORDS: Final = {
    **dict.fromkeys(("y", "yes", "o", "once"), "y"),
    **dict.fromkeys(("s", "session"), "s"),
    **dict.fromkeys(("p", "project"), "p"),
    **dict.fromkeys(("n", "no"), "n"),
    **dict.fromkeys(("v", "view"), "v"),
}


def ask_in_lines(
    request: PermissionRequest, *, theme: Theme, width: int, read: Callable[[str], str | None]
) -> tuple[Approval, str] | None:
    """Ask until there is an answer; returns it with a text for the model.

    Args:
        request: What is asked.
        theme: How text is shown.
        width: The columns of a line.
        read: Shows a prompt and reads a line; returns None when there is no more input, which
            ends the question without an answer.
    """

    def say(*lines: str) -> None:
        write_out("".join(f"{theme.encodable(sanitize(line))}\n" for line in lines))

    title, rows = _draw(request, theme=theme, width=width)
    hidden = len(rows) - MAX_LINES
    more = [f"{_bar(theme)}… {pluralize(hidden, 'more line')}"] if hidden > 0 else []
    is_plan = request.tool_name == EXIT_PLAN_MODE
    say("", title, *rows[:MAX_LINES], *more, *([] if is_plan else [f"({request.reason})"]))
    keys = {choice.key: choice for choice in list_choices(request)}
    words = [f"{choice.key}: {choice.label}" for choice in keys.values()]
    say(*words, *(["v: view all"] if hidden > 0 else []))
    while (typed := read("allow? ")) is not None:
        key = _WORDS.get(typed.strip().lower(), typed.strip().lower())
        if key == "v":
            say(*rows)
        elif key in keys:
            choice = keys[key]
            ask = "your answer: " if request.is_question else "tell the model: "
            ask = "the plan, in one line: " if choice.text else ask
            reply = read(ask) if choice.takes_text else ""
            if reply is None:
                return None
            if choice.approval is Approval.PROJECT:
                say(f"allowed in this folder: {', '.join(request.project_rules)}")
            return choice.approval, reply
        else:
            say(f"answer with one of: {', '.join(keys)}")
    return None


def _draw(request: PermissionRequest, *, theme: Theme, width: int) -> tuple[str, list[str]]:
    """Return the first line of the question, and what the call would do, behind bars.

    An edit is the same diff as after it was made.
    """
    title, target = format_target(request, width=width)
    rows = [row.replace(BAR, _bar(theme), 1) for row in add_bars(target, width=width)]
    return title, [*rows, *render_preview(request, width=width, theme=theme)]


def _bar(theme: Theme) -> str:
    return f"  {theme.glyph('│')} "
