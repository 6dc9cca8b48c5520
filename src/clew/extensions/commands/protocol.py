"""The protocols of commands, of their sources, and of the host they act on.

A `Command` is the entry in a list; a `SystemCommand` has the code. Commands without code are
skills, which the host runs. What a command cannot do itself, such as switching the model or
opening another session, is an `Effect` of its result that the caller applies.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from clew.context.policy import Thresholds
from clew.core.ids import EntryId, SessionId
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.commands.task_protocol import AgentControl, BackgroundTasks
from clew.extensions.memory import ProjectMemory
from clew.extensions.skills import Skill
from clew.session.gate import Gate
from clew.session.session import Session
from clew.stores.protocol import Store
from clew.tools.mcp.values import ServerStatus

if TYPE_CHECKING:
    from clew.runtime.roster import Roster

Safety: TypeAlias = Literal["read-only", "changes-session", "changes-files"]
"""The most that a command may change."""

AGENT_RUNTIME: Final = "agent-runtime"
"""Requires agents in the session."""


class RenameSession(Struct, frozen=True, tag="rename_session"):
    """Give the session this name."""

    name: str


class SwitchModel(Struct, frozen=True, tag="switch_model"):
    """Continue the session with another model."""

    model: str
    """`NAME` or `PROVIDER/NAME`, as the user wrote it."""


class SetLanguage(Struct, frozen=True, tag="set_language"):
    """Answer in this language from now on."""

    language: str
    """A name or a code; empty for any language."""


class NewSession(Struct, frozen=True, tag="new_session"):
    """Leave the session and open a new one."""


class OpenSession(Struct, frozen=True, tag="open_session"):
    """Leave the session and open this one."""

    session_id: SessionId


class PickSession(Struct, frozen=True, tag="pick_session"):
    """Let the user choose the session to open."""

    candidates: tuple[SessionId, ...] = ()
    """The sessions to choose from; empty for all sessions."""


class CopyText(Struct, frozen=True, tag="copy_text"):
    """Put this text on the user's clipboard."""

    text: str


class ShowEntry(Struct, frozen=True, tag="show_entry"):
    """Show this journal entry in full; the message of the command has its text."""

    entry_id: EntryId


class SetTheme(Struct, frozen=True, tag="set_theme"):
    """Show colours of this theme from now on, where the client has colours."""

    theme: str


Effect: TypeAlias = (
    RenameSession
    | SwitchModel
    | SetLanguage
    | NewSession
    | OpenSession
    | PickSession
    | CopyText
    | ShowEntry
    | SetTheme
)
"""A change that a command asks its caller to make, because the command cannot make it itself."""


class CommandResult(Struct, frozen=True):
    """The result of a command. It encodes to JSON with msgspec."""

    message: str
    """For people: plain text, without colours."""
    success: bool = True
    data: dict[str, object] = field(default_factory=dict)
    """The same as facts, for JSON output."""
    effect: Effect | None = None
    """What the caller still has to do; None when the command has done everything."""


class Command(Struct, frozen=True, kw_only=True):
    """A command in a list."""

    name: str
    description: str
    argument_hint: str = ""
    """The syntax of its arguments, such as `[list | clear]`."""
    when_to_use: str = ""
    """For the model: when to run it."""
    model_invocable: bool = False
    user_invocable: bool = True
    flags: tuple[str, ...] = ()
    """Flags that may stand before the arguments, without hyphens: `force` for `--force`."""
    safety: Safety = "read-only"
    subcommands: tuple["Command", ...] = ()
    source: str = "builtin"
    """`builtin`, `skill`, or the name of a module or plugin. With the name it makes the
    qualified name, such as `my-plugin:audit`."""
    skill: Skill | None = None
    """The skill to run; None for a command with code."""

    @property
    def short_name(self) -> str:
        """The name without its source."""
        return self.name.removeprefix(f"{self.source}:")

    @property
    def qualified_name(self) -> str:
        """The name that always means this command."""
        return f"{self.source}:{self.short_name}"

    def resolve_subcommand(self, arguments: str) -> "Command":
        """Return the subcommand that the first words of `arguments` name, or this command."""
        word, *rest = arguments.split(maxsplit=1)[:2] or [""]
        for sub in self.subcommands:
            if sub.name.lower() == word.lower().removeprefix("--"):
                return sub.resolve_subcommand(*rest or [""])
        return self


class Descriptor(Struct, frozen=True, kw_only=True):
    """A command in the description for a model."""

    name: str
    description: str
    argument_hint: str = ""
    when_to_use: str = ""


class KnownCommands(Protocol):
    """Lookup of other commands."""

    def get_commands(self, prefix: str = "") -> list[Command]:
        """Return the commands whose names begin with `prefix`."""
        ...

    def find(self, name: str) -> Command | None:
        """Return the command with this name."""
        ...


class CommandHost(Protocol):
    """What commands act on: a session and its surroundings."""

    @property
    def session(self) -> Session:
        """The open session."""
        ...

    @property
    def registry(self) -> KnownCommands:
        """All commands."""
        ...

    @property
    def cwd(self) -> Path:
        """The project's folder."""
        ...

    @property
    def memory(self) -> ProjectMemory | None:
        """The project memory; None if the session has none."""
        ...

    @property
    def store(self) -> Store:
        """The store of sessions."""
        ...

    @property
    def gate(self) -> Gate:
        """The permissions of the session, with its current mode and grants."""
        ...

    @property
    def thresholds(self) -> Thresholds:
        """The current thresholds of the context window."""
        ...

    @property
    def language(self) -> str:
        """The language of answers; empty for any."""
        ...

    @property
    def name(self) -> str:
        """The name of the session; empty if it has none."""
        ...

    @property
    def tool_origins(self) -> Mapping[str, str]:
        """Where tools come from, by name: a file or a package; built-in ones are left out."""
        ...

    @property
    def agents(self) -> Mapping[str, AgentDefinition]:
        """Agents by name; empty if the session has none."""
        ...

    @property
    def mcp_servers(self) -> Sequence[ServerStatus]:
        """The MCP servers with their states; empty if none is configured."""
        ...

    @property
    def plugin_units(self) -> int:
        """About how many tokens plugins add to the system prompt."""
        ...

    @property
    def roster(self) -> "Roster":
        """The agents of all sessions that share the store."""
        ...

    @property
    def tasks(self) -> BackgroundTasks:
        """The background tasks of the session."""
        ...

    async def compact_later(self, instructions: str, *, force: bool = False) -> bool:
        """Compact before the next model call of the current run, or at its end.

        Returns:
            True when the compaction is deferred; False when no run is active. Then nothing was
            done, and the caller may compact at once.
        """
        ...

    async def run_skill(self, skill: Skill, arguments: str) -> str:
        """Run a skill and return the result.

        During a run the caller is the model: it gets the text of the skill, or the answer of an
        agent for a forked skill.
        """
        ...

    async def run_agent(self, name: str, prompt: str) -> str:
        """Give an agent a task and return its answer."""
        ...

    @property
    def subagents(self) -> AgentControl:
        """The subagents of the session."""
        ...

    @property
    def plugins(self) -> "PluginControl":
        """The plugins of the user and of the project."""
        ...


class PluginControl(Protocol):
    """Carries out the actions of `/plugin`."""

    async def run(
        self, words: Sequence[str], *, agreed: bool, in_project: bool = False
    ) -> CommandResult:
        """Carry out one action.

        Args:
            words: The action and its arguments.
            agreed: True when the user agrees to what a plugin adds.
            in_project: True for a plugin of this project instead of the user's own.
        """
        ...


class SystemCommand(Protocol):
    """A command with code."""

    @property
    def command(self) -> Command:
        """The entry in a list."""
        ...

    async def execute(self, host: CommandHost, arguments: str) -> CommandResult:
        """Run the command.

        Bad input is a result without success. A `ClewError` becomes such a result, too.
        """
        ...


class CommandSource(Protocol):
    """A source of commands.

    `commands` returns the same object as long as nothing has changed.
    """

    @property
    def name(self) -> str:
        """The name of the source."""
        ...

    def commands(self) -> Sequence[Command]:
        """Return all commands of this source."""
        ...


@runtime_checkable
class SystemCommandSource(CommandSource, Protocol):
    """A source whose commands have code."""

    def system_commands(self) -> Sequence[SystemCommand]:
        """Return the commands with their code."""
        ...


class CommandModule(Struct, frozen=True, kw_only=True):
    """Commands that are added together."""

    name: str
    sources: tuple[CommandSource, ...] = ()
    system_commands: tuple[SystemCommand, ...] = ()
    descriptors: tuple[Descriptor, ...] = ()
    """Descriptions for the model, instead of the commands' own."""
    requirements: frozenset[str] = frozenset()
    """What the session must have; only `agent-runtime` so far."""
