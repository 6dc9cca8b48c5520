"""The command line as a page: every subcommand with its arguments and flags."""

from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterator

from clew.cli.arguments import parser

_TITLE = """\
# The command line

`clew` opens the prompt, and `clew -p PROMPT` answers one prompt and exits. Subcommands do the rest.
The guides are [terminal.md](../terminal.md) and [print-mode.md](../print-mode.md).
"""


def page() -> str:
    """Return the page."""
    return "\n".join([_TITLE, *_sections(parser())])


def _sections(command: ArgumentParser, about: str = "") -> Iterator[str]:
    actions = command._actions  # noqa: SLF001 - argparse has no other way to list them
    rows = [_row(action) for action in actions if _is_shown(action)]
    deeper = [action for action in actions if isinstance(action, _SubParsersAction)]
    if rows or not deeper:
        yield f"## {command.prog}"
        yield ""
        said = command.description or about
        yield from [f"{said[:1].upper()}{said[1:].rstrip('.')}.", ""] if said else []
    if rows:
        yield from ["| argument | meaning |", "|---|---|", *rows, ""]
    for action in deeper:
        helps = {one.dest: one.help or "" for one in action._choices_actions}  # noqa: SLF001
        for name, below in action.choices.items():
            yield from _sections(below, helps.get(name, ""))


def _is_shown(action: Action) -> bool:
    return not isinstance(action, _SubParsersAction) and "--help" not in action.option_strings


def _row(action: Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else ""
    if action.choices is not None:
        value = " | ".join(str(choice) for choice in action.choices)
    elif not value and action.nargs != 0:
        value = action.dest.upper()
    words = ", ".join(action.option_strings)
    called = f"{words} {value}".strip() if action.nargs != 0 else words
    default = ""
    if action.nargs != 0 and action.default not in (None, SUPPRESS, "", 0, "text"):
        default = f" (default: {action.default})"
    escaped = called.replace("|", "\\|")
    return f"| `{escaped}` | {action.help or ''}{default} |"
