"""What the menu below the input offers: commands after `/`, files after `@`."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from clew.core.sanitize import sanitize, sanitize_line
from clew.sdk.client import CommandInfo

_MENTION = re.compile(r'(?:^|\s)(@(?:"[^"\n]*|[^\s"]*))$')
_MAX_SCANNED = 5_000
_MAX_SHOWN = 200
_MAX_META = 80
_QUIT = "exit; you can resume later"
_SHOW = "print a folded block in full, such as /show #3"


@dataclass(frozen=True, slots=True)
class Completion:
    """One line of the completion menu."""

    text: str
    """Replaces the last word before the cursor."""
    display: str = ""
    """What the menu shows; empty means `text`."""
    meta: str = ""
    """A description beside it."""


@dataclass(frozen=True, slots=True)
class CommandItem:
    """A command in the menu, with its subcommands."""

    name: str
    meta: str = ""
    subcommands: tuple["CommandItem", ...] = ()


def make_menu(commands: Sequence[CommandInfo]) -> list[CommandItem]:
    """Return the menu of a session's commands, and those of the terminal itself."""
    items = [_menu_item(command) for command in commands]
    names = {item.name for item in items}
    own = [CommandItem("show", _SHOW), CommandItem("quit", _QUIT)]
    return [*items, *(item for item in own if item.name not in names)]


def _menu_item(command: CommandInfo) -> CommandItem:
    subcommands = tuple(_menu_item(one) for one in command.subcommands)
    return CommandItem(command.name, sanitize_line(command.description, _MAX_META), subcommands)


def complete_command(line: str, items: Sequence[CommandItem]) -> list[Completion]:
    """Return the completions for the last word of `line`, which starts with a slash.

    The first word is a command, and each further word a subcommand of the one before it.
    """
    *before, last = line.removeprefix("/").split(" ")
    slash = "" if before else "/"
    for word in filter(None, before):
        found = next((item for item in items if item.name == word.lower()), None)
        items = found.subcommands if found else ()
    return [
        Completion(f"{slash}{item.name}", meta=item.meta)
        for item in items
        if item.name.startswith(last.lower())
    ]


def find_mention(text: str) -> str:
    """Return the `@name` at the end of `text`, with its sign; empty if there is none."""
    found = _MENTION.search(text)
    return found[1] if found else ""


def complete_mention(typed: str, folder: Path) -> list[tuple[str, str]]:
    """Return the completions for `typed`, a mention: the text, and the name to show.

    Folders end in a slash. Names with spaces are quoted. Hidden files are listed only after a
    dot. Names with control characters are left out.
    """
    path = typed.removeprefix("@").removeprefix('"')
    start = path.rpartition("/")[2]
    head = path[: len(path) - len(start)]
    place = Path(folder, os.path.expanduser(head or "."))  # noqa: PTH111 - never raises
    names = sorted(islice(_names(place, start), _MAX_SCANNED), key=_sort_key)[:_MAX_SHOWN]
    return [(_quote(f"{head}{name}"), name) for name in names]


def _names(place: Path, start: str) -> Iterator[str]:
    try:
        with os.scandir(place) as entries:
            for entry in islice(entries, _MAX_SCANNED):
                if _matches(entry.name, start):
                    yield f"{entry.name}/" if entry.is_dir() else entry.name
    except OSError:
        return


def _matches(name: str, start: str) -> bool:
    matches = name.lower().startswith(start.lower())
    is_hidden = name.startswith(".") and not start.startswith(".")
    return matches and not is_hidden and sanitize(name) == name and not set('"\n\t') & set(name)


def _sort_key(name: str) -> tuple[str, str]:
    return name.lower(), name


def _quote(path: str) -> str:
    if " " not in path:
        return f"@{path}"
    return f'@"{path}' if path.endswith("/") else f'@"{path}"'
