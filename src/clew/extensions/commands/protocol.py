"""The contract between a command, the place it comes from, and the session it acts on.

A `Command` is what a list shows. A `SystemCommand` can carry one out. Commands without code
of their own are skills: the host runs their words. What a command cannot do itself, such as
switching the model or opening another session, comes back as an `Effect` that the caller applies.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from clew.context.policy import Thresholds
from clew.core.ids import SessionId
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.memory import ProjectMemory
from clew.extensions.skills import Skill
from clew.session.gate import Gate
from clew.session.session import Session
from clew.stores.protocol import Store

Safety: TypeAlias = Literal["read-only", "changes-session", "changes-files"]
"""The worst that a command does."""

AGENT_RUNTIME: Final = "agent-runtime"
"""Asks for agent definitions and for what runs them."""


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


Effect: TypeAlias = (
    RenameSession | SwitchModel | SetLanguage | NewSession | OpenSession | PickSession
)
"""A change that a command asks its caller to make, because the command cannot make it itself."""


class CommandResult(Struct, frozen=True):
    """How a command ended. It encodes to JSON with msgspec."""

    message: str
    """For people: plain lines, without colours."""
    success: bool = True
    data: dict[str, object] = field(default_factory=dict)
    """The same as facts, for JSON output."""
    effect: Effect | None = None
    """What the caller still has to do; None when the command has done everything."""


class Command(Struct, frozen=True, kw_only=True):
    """A command as a list shows it."""

    name: str
    description: str
    argument_hint: str = ""
    """How arguments are written, such as `[list | clear]`."""
    when_to_use: str = ""
    """For the model: when to invoke it unasked."""
    model_invocable: bool = False
    user_invocable: bool = True
    flags: tuple[str, ...] = ()
    """Flags that may stand before the arguments, without hyphens: `force` for `--force`."""
    safety: Safety = "read-only"
    subcommands: tuple["Command", ...] = ()
    source: str = "builtin"
    """Who brings it: `builtin`, `skill`, or the name of a module or plugin. Put before the
    name it makes the qualified name, such as `my-plugin:audit`."""
    skill: Skill | None = None
    """The words that are its work; None for a command with code of its own."""

    @property
    def short_name(self) -> str:
        """The name without who brings it."""
        return self.name.removeprefix(f"{self.source}:")

    @property
    def qualified_name(self) -> str:
        """The name that always means this command, whatever else is called like it."""
        return f"{self.source}:{self.short_name}"

    def chosen(self, arguments: str) -> "Command":
        """Return the subcommand that the first words of `arguments` name, or else this one."""
        word, *rest = arguments.split(maxsplit=1)[:2] or [""]
        for sub in self.subcommands:
            if sub.name.lower() == word.lower().removeprefix("--"):
                return sub.chosen(*rest or [""])
        return self


class Descriptor(Struct, frozen=True, kw_only=True):
    """A command as a model sees it."""

    name: str
    description: str
    argument_hint: str = ""
    when_to_use: str = ""


class KnownCommands(Protocol):
    """What a command may ask about other commands."""

    def get_commands(self, prefix: str = "") -> list[Command]:
        """Return the commands whose names begin with `prefix`."""
        ...

    def find(self, name: str) -> Command | None:
        """Return the command that is meant by a name."""
        ...


class CommandHost(Protocol):
    """What commands act on: a session, and what was composed around it."""

    @property
    def session(self) -> Session:
        """The conversation; open."""
        ...

    @property
    def registry(self) -> KnownCommands:
        """All commands there are."""
        ...

    @property
    def cwd(self) -> Path:
        """The project's folder."""
        ...

    @property
    def memory(self) -> ProjectMemory | None:
        """What is remembered of the project; None where nothing is kept."""
        ...

    @property
    def store(self) -> Store:
        """Where sessions are kept."""
        ...

    @property
    def gate(self) -> Gate:
        """Permissions of the session; its mode and grants are the ones in force."""
        ...

    @property
    def thresholds(self) -> Thresholds:
        """Shares of the window at which something happens, as they are now."""
        ...

    @property
    def language(self) -> str:
        """The language to answer in; empty for any."""
        ...

    @property
    def name(self) -> str:
        """What the user calls the session; empty for nothing."""
        ...

    @property
    def agents(self) -> Mapping[str, AgentDefinition]:
        """Agents by name; empty when no agent runtime was composed."""
        ...

    async def compact_later(self, instructions: str, *, force: bool = False) -> bool:
        """Compact at the end of the current run.

        Returns:
            True when the compaction is deferred; False when no run is active. Then nothing was
            done, and the caller may compact at once.
        """
        ...

    async def run_skill(self, skill: Skill, arguments: str) -> str:
        """Carry a skill out and return what came of it.

        While a run is under way it was the model that asked: it gets the skill's own words
        and follows them, or the answer of an agent where the skill wants one.
        """
        ...

    async def run_agent(self, name: str, prompt: str) -> str:
        """Have an agent do a task and return its answer."""
        ...


class SystemCommand(Protocol):
    """A command with code of its own."""

    @property
    def command(self) -> Command:
        """How a list shows it."""
        ...

    async def execute(self, host: CommandHost, arguments: str) -> CommandResult:
        """Carry the command out.

        Bad input is a result without success. What a session cannot do now may be raised as
        a `ClewError`: the registry makes a result of it.
        """
        ...


class CommandSource(Protocol):
    """A place that commands come from.

    `commands` returns the same object as long as nothing changed.
    """

    @property
    def name(self) -> str:
        """What to call the place."""
        ...

    def commands(self) -> Sequence[Command]:
        """Return all commands of this place; looks for them when first asked."""
        ...


@runtime_checkable
class SystemCommandSource(CommandSource, Protocol):
    """A source whose commands have code of their own."""

    def system_commands(self) -> Sequence[SystemCommand]:
        """Return what carries the commands out."""
        ...


class CommandModule(Struct, frozen=True, kw_only=True):
    """Commands that belong together and are added at once."""

    name: str
    sources: tuple[CommandSource, ...] = ()
    system_commands: tuple[SystemCommand, ...] = ()
    descriptors: tuple[Descriptor, ...] = ()
    """What a model is told of the module's commands, in place of their own descriptions."""
    requirements: frozenset[str] = frozenset()
    """What the session must be composed with; only `agent-runtime` so far."""
