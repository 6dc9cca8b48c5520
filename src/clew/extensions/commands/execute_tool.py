"""`ExecuteCommand`: the tool with which a model runs commands and skills."""

from collections.abc import Callable, Iterable
from typing import Any

from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk
from clew.core.text import end_sentence, one_line
from clew.extensions.commands.protocol import Command, CommandHost, Descriptor, Safety
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.text_lists import format_list
from clew.tools.protocol import ToolContext, ToolOutput

EXECUTE_COMMAND = "ExecuteCommand"
_RISKS: dict[Safety, Risk] = {
    "read-only": Risk.INSPECT,
    "changes-session": Risk.INSPECT,
    "changes-files": Risk.MODIFY,
}
_HEAD = "Run a command of this session. A skill returns instructions: follow them."
_NAME, _HINT = 80, 120
_MOST_CHARS = 8_000
_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "Name of the command, without a slash."},
        "args": {"type": "string", "description": "The arguments after the name.", "default": ""},
    },
    "required": ["command"],
    "additionalProperties": False,
}


class ExecuteCommand:
    """Runs the commands that a model may use.

    The description is built once and never changes, so that the provider's prompt cache stays
    valid. The host is looked up at each call, because it is created after the tools.

    Args:
        registry: All commands.
        host: Returns the host of the commands.
        skills: List skills in the description; False if the system prompt lists them.
    """

    max_output_chars: int | None = None

    def __init__(
        self, registry: CommandRegistry, host: Callable[[], CommandHost], *, skills: bool = True
    ) -> None:
        self._registry = registry
        self._host = host
        self.spec = ToolSpec(
            name=EXECUTE_COMMAND,
            description=_description(registry, skills=skills),
            schema=_SCHEMA,
        )

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Declare the risk of the command or subcommand."""
        name, rest = _parse_arguments(arguments)
        command = self._registry.find(name)
        risk = Risk.INSPECT if command is None else _RISKS[_worst(command, rest)]
        return Access(tool=EXECUTE_COMMAND, risk=risk, target=f"{name} {rest}".strip())

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Run the command; commands that are not for models are refused."""
        name, rest = _parse_arguments(arguments)
        if not name:
            return _make_error("`command` is missing or not a string; `args` must be one string")
        result = await self._registry.execute(self._host(), name, rest, by="model")
        if result is None:
            return _make_error(f"there is no command {one_line(name, _NAME)}")
        text = result.message if result.success else f"Error: {result.message}"
        return ToolOutput(
            text=text, failed=not result.success, data={"command": name, **result.data}
        )


def _parse_arguments(arguments: dict[str, Any]) -> tuple[str, str]:
    """Return the name and the arguments of a call; no name if they are not valid."""
    name, rest = arguments.get("command"), arguments.get("args", "")
    if not isinstance(name, str) or not isinstance(rest, str | None):
        return "", ""
    first, _, more = name.strip().removeprefix("/").partition(" ")
    return first, f"{more.strip()} {(rest or '').strip()}".strip()


def _worst(command: Command, rest: str) -> Safety:
    return command.resolve_subcommand(rest).safety


def _make_error(text: str) -> ToolOutput:
    return ToolOutput(text=end_sentence(f"Error: {text}"), failed=True)


def _description(registry: CommandRegistry, *, skills: bool) -> str:
    parts = [_HEAD, _format_descriptors(registry.descriptors(), "commands")]
    if skills:
        parts.append(_format_descriptors(registry.skill_descriptors(), "skills"))
    return "\n\n".join(part for part in parts if part)


def _format_descriptors(descriptors: Iterable[Descriptor], things: str) -> str:
    entries = [(_call(one), _describe(one)) for one in descriptors]
    return format_list(entries, max_chars=_MOST_CHARS, things=things)


def _call(one: Descriptor) -> str:
    return one_line(f"{one_line(one.name, _NAME)} {one_line(one.argument_hint, _HINT)}", 2 * _HINT)


def _describe(one: Descriptor) -> str:
    return ". ".join(text.rstrip(".") for text in (one.description, one.when_to_use) if text)
