"""`/help`: all commands, those with a prefix, or one command in full."""

from clew.core.errors import SessionError
from clew.core.text import one_line
from clew.extensions.commands.arguments import Builtin, build_result
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult

_MOST = 100
_NAME = 40
_TEXT = 100


async def _help(host: CommandHost, arguments: str) -> CommandResult:
    wanted = arguments.removeprefix("/")
    if wanted:
        command = host.registry.find(wanted)
        if command is not None:
            return build_result(_whole(command), command=_facts(command))
    found = [one for one in host.registry.get_commands(wanted) if one.user_invocable]
    if not found:
        raise SessionError(
            f"there is no command /{one_line(wanted, _NAME)}; /help lists all commands"
        )
    lines = [_row(command) for command in found[:_MOST]]
    if len(found) > _MOST:
        lines.append(f"  … and {len(found) - _MOST:,} more: /help PREFIX lists those with a prefix")
    return build_result(lines, commands=[_facts(command) for command in found])


def _row(command: Command) -> str:
    from_where = "" if command.source == "builtin" else f"  ({one_line(command.source, _NAME)})"
    return (
        f"  /{one_line(command.name, _NAME):<14} {one_line(command.description, _TEXT)}{from_where}"
    )


def _whole(command: Command) -> list[str]:
    lines = [
        f"/{command.name} {command.argument_hint}".rstrip(),
        f"  {command.description}",
        f"  from: {command.source}; {command.safety}"
        f"{'; the model can run it too' if command.model_invocable else ''}",
    ]
    lines += [
        f"  {f'{sub.name} {sub.argument_hint}'.rstrip():<20} {sub.description}"
        for sub in command.subcommands
    ]
    return lines


def _facts(command: Command) -> dict[str, object]:
    return {
        "name": command.name,
        "description": command.description,
        "argument_hint": command.argument_hint,
        "flags": list(command.flags),
        "source": command.source,
        "safety": command.safety,
        "model_invocable": command.model_invocable,
        "user_invocable": command.user_invocable,
        "subcommands": [_facts(sub) for sub in command.subcommands],
    }


HELP_COMMANDS: tuple[Builtin, ...] = (
    Builtin(
        Command(
            name="help",
            description="list the commands, or explain one",
            argument_hint="[command | prefix]",
        ),
        _help,
    ),
)
