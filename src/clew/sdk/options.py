"""The options of an interactive session."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from clew.extensions.commands.protocol import CommandModule
from clew.sdk.host import Host
from clew.sdk.model_switcher import ModelSwitcher
from clew.session.config import CALLBACKS, SessionOptions
from clew.session.option_types import check_types, read_mode
from clew.session.session import Session
from clew.tools.protocol import Tool
from clew.tools.sandbox import Sandbox

if TYPE_CHECKING:
    from clew.runtime.protocol import TaskLimits, TaskRunner
    from clew.sdk.agent_setup import AgentSetup
    from clew.sdk.session_spec import SessionSpec


class OwnOptions(TypedDict, total=False):
    """What an interactive session adds to the options of `Session`; each has a default."""

    model: str
    """The model; otherwise the one in the settings, otherwise the provider's default."""
    resume_session_id: str | None
    """Continue this session."""
    agent: str
    """Be this agent of the project: its instructions and its tools instead of the usual ones."""
    agent_tools: Sequence[str]
    """The tools that such an agent may use at most, by name; empty for all of its own."""
    fork_session: bool
    """Continue a copy of it instead; the original stays as it is."""
    name: str
    """The name of the session."""
    wait_for_answers: bool
    """Keep permission requests open while no client is attached; otherwise they are denied."""
    accepted: bool | None
    """Trust the project's own settings, or not; unless given, what the user once decided."""
    command_modules: Sequence[CommandModule]
    agents: bool
    """Give the model the `Agent` tool; off unless asked for, or a command module requires it."""
    background_processes: bool
    """Give the model the `BackgroundProcess` tool. Default: as `agents`, without `tools`."""
    subagent_runner_factory: "Callable[[AgentSetup], TaskRunner]"
    """Makes what runs subagents. Default: `AgentRunner`, which runs them in this process."""
    background_task_runners: "Sequence[TaskRunner]"
    """What runs background tasks, in place of the session's own runner for their kind."""
    spec: "SessionSpec | None"
    """What the session was launched from; durable agents, which need it, are opened from it too."""
    store_address: str
    """Where the store is, for the workers that run durable agents."""
    max_background_tasks: int
    """How many background tasks of one kind run at once; more wait for a place. Default: 4."""
    agent_limits: "TaskLimits"
    """When a subagent is ended. Default: `clew.runtime.protocol.AGENT_LIMITS`."""
    extra_tools: Sequence[Tool]
    """Tools beside the built-in ones; `tools` replaces them."""
    mcp_servers: Mapping[str, Mapping[str, Any]]
    """More MCP servers by name, as in the setting `mcpServers`; trusted as the user's own."""
    plugin_folders: Sequence[str | Path]
    """Folders of plugins beside the installed ones; they load without a question."""
    sandbox: Sandbox | None
    """The sandbox for commands."""
    identity: str
    """The first words of the system prompt."""
    language: str
    """The language of answers."""
    append_system_prompt: str
    """Instructions at the end of the system prompt."""
    allowed_tools: Sequence[str]
    """Permission rules for calls that run without asking, beside those of the settings."""
    disallowed_tools: Sequence[str]
    """Rules for calls that never run; a tool that is denied altogether is not offered."""
    add_dirs: Sequence[str]
    """Folders outside `cwd` that tools may read."""
    keep_checkpoints: bool
    """Save files before tools change them, so that a rewind can restore them; on by default."""
    models: ModelSwitcher | None
    """Finds the provider for `/model NAME`; unless given, settings and environment decide."""
    session: Session
    """A session that exists already, with its own tools and hooks; you shut it down."""
    host: Host | None
    """Owns background work; the session makes a host of its own unless one is given."""
    user_home: Path | str
    clew_home: Path | str
    environ: Mapping[str, str]


class InteractiveOptions(SessionOptions, OwnOptions, total=False):
    """All options of an interactive session: its own, and those of `Session`.

    These options override the settings files.
    """


REJECTED = frozenset({"gate", "hooks", "event_bus", "checkpoints"})
"""Options of `Session` that an interactive session sets itself."""
NOT_SHARED = CALLBACKS | {"tools", "store", "permission_mode", "permission_handler"}
"""Options that do not hold for subagents: these share the gate, whose mode may have changed."""
SESSION_ONLY = (SessionOptions.__annotations__.keys() | {"model", "resume_session_id"}) - {"cwd"}
"""Options that go with a session that is made here, not with one that was given."""


def check_options(options: InteractiveOptions) -> None:
    """Check the options before the session is opened.

    Raises:
        TypeError: An interactive session has no such option, or it has the wrong type.
        ConfigError: There is no such permission mode.
    """
    known = InteractiveOptions.__annotations__.keys() - REJECTED
    if own := options.keys() & REJECTED:
        raise TypeError(
            f"an interactive session sets {', '.join(sorted(own))} itself, from its settings; "
            "a Session takes it as an option"
        )
    if unknown := options.keys() - known:
        raise TypeError(f"InteractiveSession has no option {', '.join(sorted(unknown))}")
    check_types(options)
    if (mode := options.get("permission_mode")) is not None:
        options["permission_mode"] = read_mode(mode)
