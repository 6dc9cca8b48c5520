"""What a line at the prompt means: words for the model, a command, or a line for the shell."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

import msgspec

from clew.cli.harmless import one_line
from clew.cli.opening import Opened
from clew.cli.paint import stop_note
from clew.core.errors import SessionError
from clew.core.text import pluralize
from clew.extensions.commands.protocol import (
    Command,
    CommandResult,
    NewSession,
    OpenSession,
    PickSession,
    RenameSession,
    SetLanguage,
    SwitchModel,
)
from clew.sdk.values import ExecutionResult

_SHOWN_LINES = 40
_SHOWN_LINE = 2_000
_LIKENESS = 0.75
_LEAVING = f"  /{'quit, /exit':<14} leave; the session can be resumed"
ABORTED: Final = "aborted; what had arrived is kept"
NEW: Final = ""
"""In place of a session's id: begin a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a line at the prompt brought."""

    lines: tuple[str, ...] = ()
    """Sentences about what was done."""
    output: str = ""
    """Text that is shown as it is, such as what a command of the shell wrote."""
    answer: str = ""
    """An answer that has not been shown as it came."""
    data: Mapping[str, object] | None = None
    """What a command says, as facts."""
    is_told: bool = False
    """True where events have shown what `lines` say."""
    gauge: bool | None = None
    """Whether to draw how full the window is; None where it has changed."""
    pick: tuple[str, ...] | None = None
    """Let the person choose a session: one of these, or any if there are none."""
    go_to: str | None = None
    """Go on with this session, or with a new one; None to stay."""


def leaves(line: str) -> bool:
    """Is this line a wish to leave?"""
    return line.lower().split(maxsplit=1)[:1] in (["/quit"], ["/exit"])


async def carry_out(made: Opened, line: str) -> Reply:
    """Do what a line asks for.

    Raises:
        SessionError: There is no such command, or it cannot be done now.
        ClewError: The run failed.
    """
    if line.startswith("!"):
        return Reply(output=await _shell(made, line), gauge=True)
    if not line.startswith("/"):
        return _answered(await made.session.submit(line))
    command = command_in(made, line)
    name, rest = _parted(line)
    if command is None:
        near = nearest(made, name)
        hint = f"did you mean /{near}?" if near else "/help lists them"
        raise SessionError(f"there is no command /{one_line(name, 40)}; {hint}")
    reply = await run_command(made, command, line)
    if command.name == "help" and not rest:
        return replace(reply, lines=(*reply.lines, _LEAVING))
    return reply


def command_in(made: Opened, line: str) -> Command | None:
    """Return the command that a line begins with, if a person may use it."""
    command = made.session.registry.find(_parted(line)[0]) if line.startswith("/") else None
    return command if command is not None and command.user_invocable else None


def nearest(made: Opened, name: str) -> str:
    """Return the command that a mistyped name most likely means; nothing if none is near."""
    known = [command.name for command in made.session.list_commands()]
    return next(iter(get_close_matches(name.lower(), known, n=1, cutoff=_LIKENESS)), "")


async def run_command(made: Opened, command: Command, line: str) -> Reply:
    """Carry out the command that `line` begins with; raises as `carry_out` does."""
    _, rest = _parted(line)
    if command.skill is not None:
        done = await made.session.execute_skill_command(command.skill, rest)
        return _answered(done, whole=command.skill.fork)
    result = await made.session.execute_command(command.name, rest.strip())
    assert result is not None  # noqa: S101 - it was found
    if not result.success:
        raise SessionError(result.message)
    return replace(await _applied(made, command.name, result), data=result.data)


def _parted(line: str) -> tuple[str, str]:
    """Return the name of a command, and what follows it."""
    name, *rest = line[1:].split(maxsplit=1) or [""]
    return name, rest[0] if rest else ""


def _answered(done: ExecutionResult, *, whole: bool = False) -> Reply:
    if done.interrupted:
        return Reply(lines=(ABORTED,))
    empty = not done.response.strip() and not stop_note(done.stop_reason)
    lines = ("the answer is empty",) if empty else ()
    return Reply(gauge=True, answer=done.response if whole else "", lines=lines)


async def _applied(made: Opened, name: str, result: CommandResult) -> Reply:
    """Apply what a command leaves to its caller."""
    match result.effect:
        case SwitchModel(model):
            return Reply(lines=(await made.board.switch(made.session.session, model),), gauge=True)
        case SetLanguage(language):
            await made.session.set_language(language)
        case RenameSession(called):
            await made.session.set_name(called)
        case NewSession():
            return Reply(lines=(result.message,), go_to=NEW)
        case OpenSession(session_id):
            return Reply(lines=(result.message,), go_to=session_id)
        case PickSession(candidates):
            return Reply(pick=candidates)
        case None:
            pass
    return _shown(made, name, result)


def _shown(made: Opened, name: str, result: CommandResult) -> Reply:
    match result.data:
        case {"agent": str()}:
            return Reply(answer=result.message)
        case {"deferred": False}:
            return Reply(lines=(result.message,), is_told=True, gauge=False)
        case _:
            pass
    if name in _AS_IT_IS:
        return Reply(output=result.message)
    more = made.board.overview() if name == "model" else []
    return Reply(lines=(result.message, *more), gauge=False if name == "context" else None)


_AS_IT_IS = frozenset({"memory", "recall"})
"""Commands that show what was written, to be read and copied."""


async def _shell(made: Opened, line: str) -> str:
    command = line[1:].strip()
    if not command:
        raise SessionError("write a command after the exclamation mark, such as !ls")
    session = made.session.session
    arguments = msgspec.json.encode({"command": command}).decode()
    output = await session.run_tool("Bash", arguments, said=line)
    return shortened(output.display or output.text, entry=session.journal.entries[-1].id)


def shortened(text: str, *, entry: int) -> str:
    """Return the first and the last lines of a long output, and say where the rest is."""
    lines = text.split("\n")
    half = _SHOWN_LINES // 2
    if len(lines) > _SHOWN_LINES:
        count = pluralize(len(lines) - 2 * half, "line is", "lines are")
        hidden = f"… {count} hidden; /recall #{entry} shows what is kept …"
        lines = [*lines[:half], hidden, *lines[-half:]]
    return "\n".join(
        line
        if len(line) <= _SHOWN_LINE
        else f"{line[:_SHOWN_LINE]} … {len(line) - _SHOWN_LINE:,} characters are hidden; "
        f"/recall #{entry} shows what is kept"
        for line in lines
    )
