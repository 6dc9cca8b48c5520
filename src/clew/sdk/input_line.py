"""Carries out a line as a user types it: a prompt, a `/command`, or `!` and a shell command."""

from collections.abc import Sequence
from difflib import get_close_matches

import msgspec
from msgspec.structs import replace

from clew.core.errors import SessionError, UnknownCommand
from clew.core.tasks import TaskState
from clew.core.text import one_line, pluralize
from clew.extensions.commands.protocol import (
    Command,
    CommandResult,
    Effect,
    RenameSession,
    SetLanguage,
    SwitchModel,
)
from clew.extensions.commands.sources import BuiltinCommandSource
from clew.sdk.builder import BuiltSession
from clew.sdk.client import CommandInfo, CommandOutcome, PromptInput
from clew.sdk.host import Host
from clew.sdk.prompt_runner import PromptRunner
from clew.sdk.session_mcp import MCP_SOURCE, write_prompt
from clew.sdk.session_parts import SessionParts

_SIMILARITY = 0.75
_CANDIDATES = 3
_MAX_NAME = 40
_MAX_LINES = 40
_MAX_LINE = 2_000


async def execute_line(runner: PromptRunner, built: BuiltSession, line: str) -> CommandOutcome:
    """Carry out a line; see `SessionClient.execute`."""
    if line.startswith("!"):
        return await _run_shell(built, line)
    if not line.startswith("/"):
        return CommandOutcome(kind="prompt", run_id=runner.submit(PromptInput(text=line)))
    name, arguments = split_command(line)
    command = built.parts.registry.find(name)
    if command is None or not command.user_invocable:
        raise UnknownCommand(_unknown(built, name))
    if command.source == MCP_SOURCE and built.parts.mcp is not None:
        text = await write_prompt(built.parts, command.name, arguments)
        # Only what the user typed may attach files: the rest of the text is the server's.
        prompt = PromptInput(text=text, display_input=line, raw_input=line, attach=arguments)
        run_id = runner.submit(prompt)
        return CommandOutcome(kind="prompt", name=command.name, run_id=run_id)
    if command.skill is not None:
        run_id = runner.submit_skill(command.skill, arguments)
        return CommandOutcome(kind="skill", name=command.name, run_id=run_id)
    result = await runner.run_command(command.name, arguments.strip())
    assert result is not None  # noqa: S101 - it was found
    return await _apply(built, command.name, result)


def split_command(line: str) -> tuple[str, str]:
    """Return the name of the command that a line starts with, and what follows it."""
    name, *rest = line[1:].split(maxsplit=1) or [""]
    return name, rest[0] if rest else ""


def list_builtin_commands() -> list[CommandInfo]:
    """Return the commands that every session has, as clients list them."""
    commands = BuiltinCommandSource().commands()
    return [describe_command(one) for one in commands if one.user_invocable]


def list_typed_commands(parts: SessionParts) -> list[Command]:
    """Return the commands that a user can type, as the registry describes them."""
    return [one for one in parts.registry.get_commands() if one.user_invocable]


def describe_commands(parts: SessionParts, host: Host) -> list[CommandInfo]:
    """Return the commands that a user can type, as clients list them, with their choices."""
    if parts.models.should_ask:
        host.start_soon(parts.models.ask_server)
    known, tasks = parts.models.offered_now(), parts.tasks.list_tasks()
    return [describe_command(one, models=known, tasks=tasks) for one in list_typed_commands(parts)]


def describe_command(
    command: Command, *, models: Sequence[str] = (), tasks: Sequence[TaskState] = ()
) -> CommandInfo:
    """Return a command as clients list it.

    Args:
        command: The command.
        models: The choices of `/model`.
        tasks: The choices of `/background read` and the like.
    """
    below = tuple(describe_command(one) for one in command.subcommands)
    if command.name == "model":
        below = tuple(CommandInfo(name=name, description="switch to it") for name in models)
    if command.name == "background":
        below = tuple(_offer_tasks(one, tasks) for one in below)
    return CommandInfo(
        name=command.name,
        description=command.description,
        argument_hint=command.argument_hint,
        source=command.source,
        safety=command.safety,
        flags=tuple(command.flags),
        subcommands=below,
    )


def _offer_tasks(command: CommandInfo, tasks: Sequence[TaskState]) -> CommandInfo:
    """Return a subcommand with the ids of the tasks that it can be about."""
    wanted = {"read": (True, False), "cancel": (False,), "send": (False,), "close": (True,)}
    chosen = tuple(
        CommandInfo(name=task.task_id, description=f"{task.status}: {one_line(task.label, 40)}")
        for task in tasks
        if task.status.is_terminal in wanted.get(command.name, ())
    )
    return replace(command, subcommands=chosen)


def similar_command(name: str, known: list[str]) -> str:
    """Return the command that a mistyped name most likely means; empty when none is close."""
    typed = name.lower()
    close = get_close_matches(typed, known, n=_CANDIDATES, cutoff=_SIMILARITY)
    # Two letters that changed places are the likeliest mistake: /modle is /model, not /mode.
    swapped = [one for one in close if sorted(one) == sorted(typed)]
    return next(iter([*swapped, *close]), "")


def _unknown(built: BuiltSession, name: str) -> str:
    known = [one.name for one in built.parts.registry.get_commands() if one.user_invocable]
    similar = similar_command(name, known)
    hint = f"did you mean /{similar}?" if similar else "/help lists the commands"
    return f"there is no command /{one_line(name, _MAX_NAME)}; {hint}"


async def _apply(built: BuiltSession, name: str, result: CommandResult) -> CommandOutcome:
    """Apply the effect of a command, except those that open another session."""
    message, effect = result.message, result.effect
    remaining: Effect | None = None
    match effect:
        case SwitchModel(model):
            message = await built.commands.set_model(model)
        case SetLanguage(language):
            await built.commands.set_language(language)
        case RenameSession(new_name):
            await built.commands.set_name(new_name)
        case _:
            remaining = effect
    if name == "mode":
        built.commands.publish_update()
    if name == "model" and effect is None:
        message = "\n".join([message, *(await built.parts.models.list_models())])
    return CommandOutcome(
        kind="command",
        name=name,
        message=message,
        success=result.success,
        data=result.data,
        effect=remaining,
    )


async def _run_shell(built: BuiltSession, line: str) -> CommandOutcome:
    command = line[1:].strip()
    if not command:
        raise SessionError("write a command after the exclamation mark, such as !ls")
    session = built.parts.session
    arguments = msgspec.json.encode({"command": command}).decode()
    output = await session.run_tool("Bash", arguments, said=line)
    text = shorten_output(output.display or output.text, entry=session.journal.entries[-1].id)
    return CommandOutcome(kind="shell", name=command, message=text, success=not output.failed)


def shorten_output(text: str, *, entry: int) -> str:
    """Return the first and last lines of a long output, and say how to read the rest."""
    lines = text.split("\n")
    half = _MAX_LINES // 2
    if len(lines) > _MAX_LINES:
        count = pluralize(len(lines) - 2 * half, "hidden line")
        hidden = f"… {count}; /recall #{entry} shows the whole output …"
        lines = [*lines[:half], hidden, *lines[-half:]]
    return "\n".join(
        line
        if len(line) <= _MAX_LINE
        else f"{line[:_MAX_LINE]} … {len(line) - _MAX_LINE:,} characters are hidden; "
        f"/recall #{entry} shows them"
        for line in lines
    )
