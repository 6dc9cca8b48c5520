"""Reading what was typed after a command, and writing short lines about it."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from clew.core.errors import SessionError
from clew.core.ids import EntryId
from clew.core.text import one_line
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult, Effect

Work: TypeAlias = Callable[[CommandHost, str], Awaitable[CommandResult]]
MOST_ARGUMENTS = 20_000
_MOST_DIGITS = 9
_LINE_SIGNS = frozenset("\n\t\r")


class Builtin(Struct, frozen=True):
    """A built-in command: how it is listed, and the function that carries it out."""

    command: Command
    work: Work

    async def execute(self, host: CommandHost, arguments: str) -> CommandResult:
        """Carry it out.

        Raises:
            SessionError: The arguments are no good; the text says what to write.
        """
        return await self.work(host, fit(arguments.strip(), MOST_ARGUMENTS, "the arguments"))


def fit(text: str, most: int, what: str, *, lines: bool = True) -> str:
    """Return `text` if it is short enough and holds no signs that people cannot type.

    Args:
        text: What was typed.
        most: How many characters it may have.
        what: What to call it, for the sentence.
        lines: May it have several lines?

    Raises:
        SessionError: It does not fit.
    """
    if len(text) > most:
        raise SessionError(f"{what} may have {most:,} characters at most, not {len(text):,}")
    allowed = _LINE_SIGNS if lines else frozenset[str]()
    odd = next((sign for sign in text if _is_control(sign) and sign not in allowed), None)
    if odd is not None:
        raise SessionError(
            f"{what} may not hold the control character U+{ord(odd):04X}; leave it out"
        )
    return text


def _is_control(sign: str) -> bool:
    return sign < " " or "\x7f" <= sign <= "\x9f" or sign in "\u2028\u2029"


def split(arguments: str) -> tuple[str, str]:
    """Return the first word, and what follows it."""
    word, *rest = arguments.split(maxsplit=1)[:2] or [""]
    return word, rest[0].strip() if rest else ""


def nothing_more(arguments: str, name: str) -> None:
    """Make sure that a command without arguments got none; raises `SessionError` if it did."""
    if arguments:
        raise SessionError(f"/{name} takes no arguments: write /{name} alone")


def no_such(name: str, word: str, command: Command) -> SessionError:
    """Return the error about a subcommand that is not there."""
    return SessionError(
        f"there is no /{name} {one_line(word, 40)}: write /{name} {command.argument_hint}"
    )


def whole_number(text: str) -> int | None:
    """Read a number without a sign, of a size that is meant; None when it is none."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def entry_number(text: str) -> EntryId:
    """Read the number of an entry, such as `#12`.

    Raises:
        SessionError: It is none.
    """
    number = whole_number(text.strip().removeprefix("#"))
    if number is None:
        raise SessionError(
            "name an entry by its number, such as #12; /recall and /history show them"
        )
    return EntryId(number)


def numbers(ids: Sequence[int]) -> str:
    """Name entries by their numbers, neighbours together: `#1-#3, #7`."""
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
