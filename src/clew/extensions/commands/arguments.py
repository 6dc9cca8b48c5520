"""Parsing of command arguments, and the results that built-in commands return."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from clew.core.errors import SessionError
from clew.core.ids import EntryId
from clew.core.text import one_line
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult, Effect

CommandFunction: TypeAlias = Callable[[CommandHost, str], Awaitable[CommandResult]]
MAX_ARGUMENTS = 20_000
_MAX_DIGITS = 9
_LINE_BREAKS = frozenset("\n\t\r")
_FLAG = re.compile(r"--[A-Za-z][\w=-]*")


class Builtin(Struct, frozen=True):
    """A built-in command: how it is listed, and the function that runs it."""

    command: Command
    function: CommandFunction

    async def execute(self, host: CommandHost, arguments: str) -> CommandResult:
        """Run the command.

        Raises:
            SessionError: The arguments are wrong; the message says what to write.
        """
        text = check_text(arguments.strip(), MAX_ARGUMENTS, "the arguments")
        return await self.function(host, check_flags(self.command, text))


def check_text(text: str, most: int, what: str, *, lines: bool = True) -> str:
    """Return `text` if it is short enough and has no control characters.

    Args:
        text: The text that the user typed.
        most: The number of characters allowed.
        what: What the text is, for the error message.
        lines: Whether it may have several lines.

    Raises:
        SessionError: The text is too long or has a control character.
    """
    if len(text) > most:
        raise SessionError(f"{what} may have at most {most:,} characters, not {len(text):,}")
    allowed = _LINE_BREAKS if lines else frozenset[str]()
    odd = next((sign for sign in text if _is_control(sign) and sign not in allowed), None)
    if odd is not None:
        raise SessionError(f"{what} contains the control character U+{ord(odd):04X}; remove it")
    return text


def check_flags(command: Command, arguments: str) -> str:
    """Return `arguments` if all flags in front of them belong to `command`.

    Flags such as `--force` stand before other words. `--` ends them, so text that begins with
    two hyphens can follow; it is removed here.

    Raises:
        SessionError: A flag is unknown.
    """
    chosen, flags, rest = command, set(command.flags), arguments
    before: list[str] = []
    while True:
        word, more = split_word(rest)
        name = word.removeprefix("--").lower()
        sub = next((sub for sub in chosen.subcommands if sub.name.lower() == name), None)
        if word == "--":
            return " ".join([*before, more])
        if sub is not None:
            chosen, flags = sub, set(sub.flags)
        elif _FLAG.fullmatch(word) is None:
            return arguments
        elif name not in flags:
            raise SessionError(
                f"/{command.name} has no flag {one_line(word, 40)}:"
                f" write /{command.name} {command.argument_hint}".rstrip()
            )
        before.append(word)
        rest = more


def split_flags(arguments: str) -> tuple[frozenset[str], str]:
    """Return the flags in front of `arguments`, without their hyphens, and what follows."""
    flags: set[str] = set()
    word, rest = split_word(arguments)
    while _FLAG.fullmatch(word):
        flags.add(word.removeprefix("--").lower())
        arguments = rest
        word, rest = split_word(arguments)
    return frozenset(flags), arguments


def split_word(arguments: str) -> tuple[str, str]:
    """Return the first word, and what follows it."""
    word, *rest = arguments.split(maxsplit=1)[:2] or [""]
    return word, rest[0].strip() if rest else ""


def reject_arguments(arguments: str, name: str) -> None:
    """Raise `SessionError` if a command without arguments has some."""
    if arguments:
        raise SessionError(f"/{name} takes no arguments: write /{name}")


def unknown_subcommand(name: str, word: str, command: Command) -> SessionError:
    """Return the error for a subcommand that does not exist."""
    return SessionError(
        f"there is no /{name} {one_line(word, 40)}: write /{name} {command.argument_hint}"
    )


def parse_number(text: str) -> int | None:
    """Parse a number of at most nine digits without a sign; None if it is not one."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def parse_entry_id(text: str) -> EntryId:
    """Parse the number of an entry, such as `#12`.

    Raises:
        SessionError: It is not a number.
    """
    number = parse_number(text.strip().removeprefix("#"))
    if number is None:
        raise SessionError("give the number of an entry, such as #12; /history lists them")
    return EntryId(number)


def format_ranges(ids: Sequence[int]) -> str:
    """Format entry ids with neighbours joined: `#1-#3, #7`."""
    runs: list[list[int]] = []
    for entry_id in sorted(ids):
        if runs and entry_id == runs[-1][1] + 1:
            runs[-1][1] = entry_id
        else:
            runs.append([entry_id, entry_id])
    return ", ".join(f"#{a}" if a == b else f"#{a}-#{b}" for a, b in runs)


def build_result(
    lines: Iterable[str], effect: Effect | None = None, /, **data: object
) -> CommandResult:
    """Return the result of a command: its lines, its effect, and the same as facts."""
    return CommandResult("\n".join(lines), data=data, effect=effect)


def _is_control(sign: str) -> bool:
    return sign < " " or "\x7f" <= sign <= "\x9f" or sign in "\u2028\u2029"
