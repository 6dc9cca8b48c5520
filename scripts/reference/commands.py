"""The commands at the prompt, as the table in `docs/commands.md`."""

import re
from collections.abc import Iterator

from clew.extensions.commands.protocol import Command
from clew.extensions.commands.sources import BuiltinCommandSource

_PLACE = re.compile(r"(<!-- commands: begin -->\n\n).*?(\n<!-- commands: end -->)", re.DOTALL)


def with_table(page: str) -> str:
    """Return a page with the table of today between its two marks.

    Raises:
        LookupError: The page has no such marks.
    """
    changed, count = _PLACE.subn(lambda found: f"{found[1]}{table()}{found[2]}", page)
    if count != 1:
        raise LookupError("the page needs `<!-- commands: begin -->` and `<!-- commands: end -->`")
    return changed


def table() -> str:
    """Return a row for each command and subcommand, in the order of `/help`."""
    rows = [row for command in BuiltinCommandSource().commands() for row in _rows(command, "/")]
    return "\n".join(["| command | does | changes | model |", "|---|---|---|---|", *rows, ""])


def _rows(command: Command, before: str) -> Iterator[str]:
    name = f"{before}{command.name}"
    called = f"{name} {command.argument_hint}".strip().replace("|", "\\|")
    changes = command.safety.removeprefix("changes-").replace("read-only", "")
    model = "yes" if command.model_invocable else ""
    yield f"| `{called}` | {command.description} | {changes} | {model} |"
    for sub in command.subcommands:
        yield from _rows(sub, f"{name} ")
