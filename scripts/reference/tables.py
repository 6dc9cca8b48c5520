"""The tables of the guides that are written from the code: commands, events and routes."""

import re
from collections.abc import Iterator

from clew.core.events import EVENT_TYPES
from clew.extensions.commands.protocol import Command
from clew.extensions.commands.sources import BuiltinCommandSource
from clew.server.routes import ROUTES
from scripts.reference.docstrings import read_module

_TOPICS = ("sessions", "context", "tasks", "groups", "commands", "server")


def update_commands(page: str) -> str:
    """Return `commands.md` with a row for each command and subcommand, in the order of `/help`."""
    rows = [row for command in BuiltinCommandSource().commands() for row in _rows(command, "/")]
    return _replace(
        page, "commands", ["| command | does | changes | model |", "|---|---|---|---|", *rows]
    )


def update_events(page: str) -> str:
    """Return `sdk.md` with a row for each event, in the order of the `Event` union."""
    modules = ("clew.core.events", "clew.core.task_events")
    described = {thing.name: thing for name in modules for thing in read_module(name).things}
    rows = []
    for name, kind in EVENT_TYPES.items():
        event = described[kind.__name__]
        fields = ", ".join(f"`{field.name}`" for field in event.fields)
        when = " ".join(event.doc.split("\n\n")[0].split())
        rows.append(f"| `{name}` | `{event.name}`: {fields} | {when} |")
    return _replace(
        page, "events", ["| event | struct and fields | when |", "|---|---|---|", *rows]
    )


def update_routes(page: str) -> str:
    """Return `server.md` with a row for each route of the server, by topic."""
    rows = [
        f"| `{route.method} {route.path}` | {route.summary} |"
        for route in sorted(ROUTES, key=lambda route: _TOPICS.index(route.tag))
    ]
    return _replace(page, "routes", ["| route | does |", "|---|---|", *rows])


def _replace(page: str, name: str, lines: list[str]) -> str:
    """Put lines between the two marks of a table.

    Raises:
        LookupError: The page has no such marks.
    """
    place = re.compile(rf"(<!-- {name}: begin -->\n\n).*?(\n<!-- {name}: end -->)", re.DOTALL)
    table = "".join(f"{line}\n" for line in lines)
    changed, count = place.subn(lambda found: f"{found[1]}{table}{found[2]}", page)
    if count != 1:
        raise LookupError(f"the page needs `<!-- {name}: begin -->` and `<!-- {name}: end -->`")
    return changed


def _rows(command: Command, before: str) -> Iterator[str]:
    name = f"{before}{command.name}"
    called = f"{name} {command.argument_hint}".strip().replace("|", "\\|")
    changes = command.safety.removeprefix("changes-").replace("read-only", "")
    model = "yes" if command.model_invocable else ""
    yield f"| `{called}` | {command.description} | {changes} | {model} |"
    for sub in command.subcommands:
        yield from _rows(sub, f"{name} ")
