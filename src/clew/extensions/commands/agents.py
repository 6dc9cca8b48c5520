"""Commands about work that others do: agents, and tasks in the background."""

from collections.abc import Mapping

from clew.core.errors import SessionError
from clew.core.text import one_line
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.commands.parsing import Builtin, build_result, no_such, nothing_more, split
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult

_SHOWN = 100


async def _background(_: CommandHost, arguments: str) -> CommandResult:  # noqa: ARG001
    return CommandResult(
        "background tasks are not part of this build; /agent run does a task while you wait",
        success=False,
        data={"available": False},
    )


async def _agent(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split(arguments)
    match word.lower():
        case "" | "list":
            nothing_more(rest, "agent list")
            return _agents(_composed(host))
        case "run":
            return await _run(host, rest)
        case _:
            raise no_such("agent", word, AGENT)


def _agents(agents: Mapping[str, AgentDefinition]) -> CommandResult:
    return build_result(
        [f"  {name:<18} {one_line(one.description, _SHOWN)}" for name, one in agents.items()],
        agents=[
            {
                "name": name,
                "description": one.description,
                "model": one.model,
                "source": one.source,
                "tools": None if one.tools is None else list(one.tools),
            }
            for name, one in agents.items()
        ],
    )


async def _run(host: CommandHost, arguments: str) -> CommandResult:
    agents = _composed(host)
    name, prompt = split(arguments)
    if name not in agents:
        which = f"there is no agent {one_line(name, 40)}" if name else "name an agent"
        raise SessionError(f"{which}; write /agent run NAME PROMPT with one of: {_names(agents)}")
    if not prompt:
        raise SessionError(f"say what the agent should do: /agent run {name} PROMPT")
    return build_result([await host.run_agent(name, prompt)], agent=name)


def _composed(host: CommandHost) -> Mapping[str, AgentDefinition]:
    if not host.agents:
        raise SessionError("this session was composed without agents")
    return host.agents


def _names(agents: Mapping[str, AgentDefinition]) -> str:
    return one_line(", ".join(agents), 400)


AGENT = Command(
    name="agent",
    description="list the agents, or have one do a task",
    argument_hint="[list | run NAME PROMPT]",
    safety="changes-files",
    subcommands=(
        Command(name="list", description="list the agents"),
        Command(
            name="run",
            description="have an agent do a task and show its answer",
            argument_hint="NAME PROMPT",
            safety="changes-files",
        ),
    ),
)
LATER_COMMANDS: tuple[Builtin, ...] = (
    Builtin(AGENT, _agent),
    Builtin(
        Command(
            name="background",
            description="tasks in the background; not part of this build",
            argument_hint="[list]",
        ),
        _background,
    ),
)
