"""The argument parser of `clew`: short help, errors that suggest what was meant, and values.

The functions that parse values raise `ArgumentTypeError`, which is shown with the name of the flag.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from clew.core.errors import ClewError
from clew.core.sanitize import sanitize, sanitize_line

_WIDTH = 80
_HELP_COLUMN = 32
_MAX_SHOWN = 60
_LONGEST_SECONDS = 1_000_000.0
_GROUP = re.compile(r"\n\n(?=\S.*:\n  )")


class UsageError(ClewError):
    """The arguments do not fit together; the exit code is 2."""


class HelpFormatter(argparse.HelpFormatter):
    """Formats help for a terminal of 80 columns, whatever the width of this one."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=_HELP_COLUMN, width=_WIDTH)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Keep the lines of a text that has several."""
        return text if "\n" in text else super()._fill_text(text, width, indent)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Name the value of a flag once: `-r, --resume [ID]`."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors, which repeat arguments from anywhere, are sanitized.

    An unknown flag or subcommand is answered with the similar ones. Flags cannot be abbreviated:
    a script would break when a flag with the same beginning is added.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", HelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the arguments; exits with code 2 on an unknown flag."""
        self._words = list(sys.argv[1:] if args is None else args)
        found, extras = super().parse_known_args(args, namespace)
        if unknown := next((word for word in extras if word.startswith("-")), ""):
            self._refuse_flag(unknown)
        return found, extras

    def _refuse_flag(self, word: str) -> None:
        name = word.partition("=")[0]
        flags = [flag for flag in self._option_string_actions if flag.startswith("--")]
        self.error(f"unknown flag {_show(name)}{suggest(name, flags)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        hint = suggest(str(value), choices) or f"; choose from: {', '.join(choices)}"
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - has no public name
            # The value of an unknown flag is not a command.
            before = self._words[self._words.index(value) - 1] if value in self._words[1:] else ""
            if before.startswith("--") and before not in self._option_string_actions:
                self._refuse_flag(before)
            self.error(f"there is no command {self.prog} {_show(str(value))}{hint}")
        raise argparse.ArgumentError(action, f"invalid choice: {_show(str(value))!r}{hint}")

    def format_help(self) -> str:
        """Return the help without blank lines between its parts, so that it fits on a screen."""
        return _GROUP.sub("\n", super().format_help()).replace("\n\n", "\n", 1)

    def error(self, message: str) -> NoReturn:
        """Print the error and where to read more, and exit with code 2."""
        self.exit(2, f"clew: {sanitize(message)}\nclew: `{self.prog} --help` lists the flags\n")


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that names the most similar word; empty for none."""
    # Needed for mistakes only.
    from difflib import get_close_matches  # noqa: PLC0415

    names, lower = {one.lower(): one for one in known}, word.lower()
    longer = [name for name in names if len(lower.strip("-")) > 1 and name.startswith(lower)]
    similar = longer or get_close_matches(lower, names, n=1)
    return f"; did you mean {names[similar[0]]}?" if similar else ""


def _show(word: str) -> str:
    return sanitize_line(word, _MAX_SHOWN)


def parse_dollars(text: str) -> float:
    """Return an amount of money."""
    try:
        amount = float(text.removeprefix("$"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount in dollars") from None
    if not 0 < amount < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a positive amount in dollars")
    return amount


def parse_count(text: str) -> int:
    """Return a positive number."""
    return _integer(text, minimum=1, maximum=1_000_000_000)


def parse_seconds(text: str) -> float:
    """Return a positive number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a number of seconds") from None
    if not 0 < seconds < _LONGEST_SECONDS:
        raise argparse.ArgumentTypeError("must be a positive number of seconds")
    return seconds


def parse_window(text: str) -> int:
    """Return a number of tokens that a context window may have."""
    return _integer(text, minimum=256, maximum=100_000_000)


def parse_port(text: str) -> int:
    """Return the number of a port; 0 for any free one."""
    return _integer(text, minimum=0, maximum=65_535)


def _integer(text: str, *, minimum: int, maximum: int) -> int:
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
    if not minimum <= number <= maximum:
        raise argparse.ArgumentTypeError(f"{number} is not between {minimum} and {maximum}")
    return number


def parse_rules(text: str) -> list[str]:
    """Return permission rules, separated by commas or spaces outside parentheses."""
    rules, depth, current = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth == 0 and character in ", \n\t":
            rules.append(current)
            current = ""
        else:
            current += character
    found = [rule for rule in (*rules, current) if rule]
    if depth or not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as Edit,Bash(git *)")
    return found
