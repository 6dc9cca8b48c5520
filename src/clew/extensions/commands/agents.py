"""`/agent`: list the agents, or give one a task."""

from collections.abc import Mapping

from clew.core.errors import SessionError
from clew.core.text import one_line
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.commands.arguments import (
    Builtin,
    build_result,
    reject_arguments,
    split_word,
    unknown_subcommand,
)
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult

_SHOWN = 100


async def _agent(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split_word(arguments)
    match word.lower():
        case "" | "list":
            reject_arguments(rest, "agent list")
            return _list(_available(host))
        case "run":
            return await _run(host, rest)
        case _:
            raise unknown_subcommand("agent", word, AGENT)


def _list(agents: Mapping[str, AgentDefinition]) -> CommandResult:
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
    agents = _available(host)
    name, prompt = split_word(arguments)
    if name not in agents:
        problem = f"there is no agent {one_line(name, 40)}" if name else "the agent is missing"
        names = one_line(", ".join(agents), 400)
        raise SessionError(f"{problem}; write /agent run NAME PROMPT with one of: {names}")
    if not prompt:
        raise SessionError(f"the task is missing: write /agent run {name} PROMPT")
    return build_result([await host.run_agent(name, prompt)], agent=name)


def _available(host: CommandHost) -> Mapping[str, AgentDefinition]:
    if not host.agents:
        raise SessionError("this session has no agents")
    return host.agents


AGENT = Command(
    name="agent",
    description="list the agents, or give one a task",
    argument_hint="[list | run NAME PROMPT]",
    safety="changes-files",
    subcommands=(
        Command(name="list", description="list the agents"),
        Command(
            name="run",
            description="give an agent a task and show its answer",
            argument_hint="NAME PROMPT",
            safety="changes-files",
        ),
    ),
)
AGENT_COMMANDS: tuple[Builtin, ...] = (Builtin(AGENT, _agent),)
