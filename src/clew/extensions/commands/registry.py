"""`CommandRegistry`: all commands of a session, under unambiguous names."""

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import AbortError, ClewError, ConfigError
from clew.core.text import replace_surrogates
from clew.extensions.commands.protocol import (
    AGENT_RUNTIME,
    Command,
    CommandHost,
    CommandModule,
    CommandResult,
    CommandSource,
    Descriptor,
    SystemCommand,
    SystemCommandSource,
)

Invoker: TypeAlias = Literal["user", "model"]
_REQUIREMENTS = frozenset({AGENT_RUNTIME})


class _Row(Struct, frozen=True):
    command: Command
    system: SystemCommand | None = None


class _Index(Struct, frozen=True, kw_only=True):
    parts: tuple[Sequence[Command], ...]
    """The commands of the sources when the index was built."""
    listed: tuple[Command, ...]
    rows: dict[str, _Row]
    """By listed name and by qualified name."""
    long_names: dict[str, list[str]]
    """Listed qualified names, by the part after the colon."""


class _ModuleSource:
    """The system commands of a module, as a source."""

    def __init__(self, module: CommandModule) -> None:
        self.name = module.name
        self._system = module.system_commands
        self._commands = tuple(
            replace(system.command, source=module.name) for system in module.system_commands
        )

    def commands(self) -> Sequence[Command]:
        return self._commands

    def system_commands(self) -> Sequence[SystemCommand]:
        return self._system


class CommandRegistry:
    """Finds commands by name and runs them.

    If two commands have the same name, a command with code wins over a skill, and the one that
    was added first over later ones. The other one is listed under its qualified name, such as
    `skill:clear`. Commands of plugins always have their qualified name.
    """

    def __init__(self) -> None:
        self._sources: list[CommandSource] = []
        self._descriptors: dict[str, Descriptor] = {}
        self._requirements: set[str] = set()
        self._index: _Index | None = None

    def add_source(self, source: CommandSource) -> None:
        """Add the commands of a source; the source is searched at the first lookup."""
        self._sources.append(source)
        self._index = None

    def add_module(self, module: CommandModule) -> None:
        """Add the commands of a module.

        Raises:
            ConfigError: A requirement is unknown, or a descriptor has no command.
        """
        unknown = module.requirements - _REQUIREMENTS
        if unknown:
            known = ", ".join(sorted(_REQUIREMENTS))
            raise ConfigError(
                f"the command module {module.name} requires {', '.join(sorted(unknown))};"
                f" known requirements: {known}"
            )
        sources = [_ModuleSource(module), *module.sources]
        if module.descriptors:
            self._descriptors |= _map_descriptors(module, sources)
        self._requirements |= module.requirements
        for source in sources:
            self.add_source(source)

    @property
    def requirements(self) -> frozenset[str]:
        """The requirements of all modules."""
        return frozenset(self._requirements)

    def get_commands(self, prefix: str = "") -> list[Command]:
        """Return the commands whose names begin with `prefix`, in order of precedence."""
        return [command for command in self._get_index().listed if command.name.startswith(prefix)]

    def get_subcommands(self, name: str) -> list[Command]:
        """Return the subcommands of a command, or of a subcommand such as `rewind restore`."""
        first, _, rest = name.strip().partition(" ")
        command = self.find(first)
        if command is None:
            return []
        chosen = command.resolve_subcommand(rest)
        return list(chosen.subcommands)

    def resolve_qualified_name(self, short: str) -> str | None:
        """Return the qualified name for a short name; None if there is none or several."""
        names = self._get_index().long_names.get(short, [])
        return names[0] if len(names) == 1 else None

    def find(self, name: str) -> Command | None:
        """Return the command for a listed name, a qualified name, or an unambiguous short name."""
        row = self._row(name)
        return None if row is None else row.command

    def descriptors(self) -> list[Descriptor]:
        """Return the descriptions of commands with code, for the model."""
        return [self._descriptor(one) for one in self._for_models() if one.skill is None]

    def skill_descriptors(self) -> list[Descriptor]:
        """Return the descriptions of skills, for the model."""
        return [self._descriptor(one) for one in self._for_models() if one.skill is not None]

    async def execute(
        self, host: CommandHost, name: str, arguments: str, *, by: Invoker = "user"
    ) -> CommandResult | None:
        """Run a command; None if there is no such command.

        A failure is a result without success, not an exception.

        Raises:
            AbortError: The session was aborted while the command ran.
        """
        row = self._row(name)
        if row is None:
            return None
        refusal = _refusal(row.command, arguments, by)
        if refusal:
            return CommandResult(refusal, success=False)
        try:
            return await _run(row, host, replace_surrogates(arguments))
        except AbortError:
            raise
        except ClewError as error:
            return CommandResult(str(error), success=False)
        except OSError as error:
            why = f"{error.strerror or error}: {error.filename or host.cwd}"
            return CommandResult(f"/{row.command.name} failed: {why}", success=False)

    def _row(self, name: str) -> _Row | None:
        rows = self._get_index().rows
        row = rows.get(name) or rows.get(name.lower())
        if row is None and (long := self.resolve_qualified_name(name)) is not None:
            return rows[long]
        return row

    def _for_models(self) -> Iterator[Command]:
        return (command for command in self._get_index().listed if command.model_invocable)

    def _descriptor(self, command: Command) -> Descriptor:
        given = self._descriptors.get(command.qualified_name)
        if given is not None:
            return replace(given, name=command.name)
        return Descriptor(
            name=command.name,
            description=command.description,
            argument_hint=command.argument_hint,
            when_to_use=command.when_to_use,
        )

    def _get_index(self) -> _Index:
        parts = tuple(source.commands() for source in self._sources)
        index = self._index
        if index is None or any(a is not b for a, b in zip(index.parts, parts, strict=True)):
            index = self._index = _build_index(self._sources, parts)
        return index


def _map_descriptors(
    module: CommandModule, sources: Sequence[CommandSource]
) -> dict[str, Descriptor]:
    brought = {c.short_name: c.qualified_name for s in sources for c in s.commands()}
    missing = [one.name for one in module.descriptors if one.name not in brought]
    if missing:
        raise ConfigError(
            f"the command module {module.name} describes {', '.join(missing)},"
            " which it does not have"
        )
    return {brought[one.name]: one for one in module.descriptors}


async def _run(row: _Row, host: CommandHost, arguments: str) -> CommandResult:
    if row.system is not None:
        return await row.system.execute(host, arguments)
    skill = row.command.skill
    if skill is None:
        return CommandResult(f"/{row.command.name} has no code", success=False)
    said = await host.run_skill(skill, arguments)
    return CommandResult(said, data={"skill": skill.name, "fork": skill.fork})


def _refusal(command: Command, arguments: str, by: Invoker) -> str:
    chosen = command.resolve_subcommand(arguments)
    name = command.name if chosen is command else f"{command.name} {chosen.name}"
    if by == "model" and not (command.model_invocable and chosen.model_invocable):
        return f"/{name} is only for the user: ask the user to type it"
    if by == "user" and not (command.user_invocable and chosen.user_invocable):
        return f"/{name} is only for the model: ask for it in plain words"
    return ""


def _build_index(sources: Sequence[CommandSource], parts: tuple[Sequence[Command], ...]) -> _Index:
    listed: list[Command] = []
    rows: dict[str, _Row] = {}
    long_names: dict[str, list[str]] = {}
    for row in sorted(_rows(sources, parts), key=lambda row: row.system is None):
        command = row.command
        name = next((n for n in (command.name, command.qualified_name) if n not in rows), None)
        if name is not None:
            shown = _Row(replace(command, name=name), row.system)
            listed.append(shown.command)
            rows[name] = shown
            rows.setdefault(command.qualified_name, shown)
            if name == command.qualified_name:
                long_names.setdefault(command.short_name, []).append(name)
    return _Index(parts=parts, listed=tuple(listed), rows=rows, long_names=long_names)


def _rows(sources: Sequence[CommandSource], parts: tuple[Sequence[Command], ...]) -> Iterator[_Row]:
    for source, commands in zip(sources, parts, strict=True):
        system: dict[str, SystemCommand] = {}
        if isinstance(source, SystemCommandSource):
            system = {one.command.name: one for one in source.system_commands()}
        for command in commands:
            yield _Row(command, system.get(command.name))
