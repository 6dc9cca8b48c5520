"""`clew completions`: a script that completes commands and flags, made from the parser."""

from argparse import Action, Namespace, _SubParsersAction
from collections.abc import Iterator
from typing import Any

from clew.cli.arguments import parser
from clew.cli.streams import write_out

_FILES = frozenset({"FILE", "DIR"})


def run_completions(arguments: Namespace) -> int:
    """Print the script for a shell."""
    write_out(f"{make_script(arguments.shell)}\n")
    return 0


def make_script(shell: str) -> str:
    """Return the script for `bash`, `zsh` or `fish`."""
    import shtab  # noqa: PLC0415 - needed by this command only

    top = parser()
    for action in _all_actions(top._actions):  # noqa: SLF001 - argparse has no other way
        if isinstance(action, _SubParsersAction):
            _shorten_descriptions(action)
        if action.metavar in _FILES:
            action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(top, shell=shell))


def _shorten_descriptions(commands: "_SubParsersAction[Any]") -> None:
    """Let each command have the line of the help as its description: a menu shows one line."""
    for command in commands._get_subactions():  # noqa: SLF001
        commands.choices[command.dest].description = command.help


def _all_actions(actions: list[Action]) -> Iterator[Action]:
    for action in actions:
        yield action
        if isinstance(action, _SubParsersAction):
            for below in action.choices.values():
                yield from _all_actions(below._actions)  # noqa: SLF001
