"""Permission requests as lines of text, answered with a letter, a word, or a text for the model."""

from collections.abc import Callable
from typing import Final

from clew.core.events import PermissionRequest
from clew.core.permissions import Approval
from clew.core.sanitize import sanitize
from clew.sdk.permission_requests import list_choices
from clew.tui.questions import MAX_LINES, add_bars, format_request
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

    title, lines = format_request(request, width=width)
    say("", title, *add_bars(lines, width=width), f"({request.reason})")
    keys = {choice.key: choice for choice in list_choices(request)}
    words = [f"{choice.key}: {choice.label}" for choice in keys.values()]
    say(*words, *(["v: view all"] if len(lines) > MAX_LINES else []))
    while (typed := read("allow? ")) is not None:
        key = _WORDS.get(typed.strip().lower(), typed.strip().lower())
        if key == "v":
            say(*add_bars(lines, width=width, limit=None))
        elif key in keys:
            choice = keys[key]
            ask = "your answer: " if request.is_question else "tell the model: "
            reply = read(ask) if choice.takes_text else ""
            if reply is None:
                return None
            if choice.approval is Approval.PROJECT:
                say(f"allowed in this folder: {', '.join(request.project_rules)}")
            return choice.approval, reply
        else:
            say(f"answer with one of: {', '.join(keys)}")
    return None
