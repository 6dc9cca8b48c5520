"""What the menu below the input offers: commands after `/`, files after `@`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clew.core.sanitize import sanitize_line
from clew.sdk.client import CommandInfo

_MENTION = re.compile(r'(?:^|\s)(@(?:"[^"\n]*|[^\s"]*))$')
_MAX_META = 80
_QUIT = "exit; you can resume later"
_SHOW = "print a folded block in full, such as /show #3; /show entry 3 prints an entry"


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
    own = {"show": CommandItem("show", _SHOW), "quit": CommandItem("quit", _QUIT)}
    items = {command.name: _menu_item(command) for command in commands}
    return list((items | own).values())


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
