"""`/agent`: list the agents, give them tasks, and talk to those that run or have ended."""

import shlex
import time
from collections.abc import Mapping, Sequence

from msgspec import to_builtins

from clew.core.errors import AbortError, SessionError
from clew.core.tasks import Isolation, TaskKind, TaskMode, TaskState, TaskStatus
from clew.core.text import one_line
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.commands.arguments import (
    Builtin,
    build_result,
    parse_number,
    reject_arguments,
    split_flags,
    split_word,
    unknown_subcommand,
)
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult
from clew.extensions.commands.task_lines import list_tasks
from clew.runtime.protocol import TaskRequest

_ABOUT = 58
_MOST_AGENTS = 16
"""Prompts of one `/agent parallel`."""


async def _agent(host: CommandHost, arguments: str) -> CommandResult:
    word, rest = split_word(arguments)
    match word.lower():
        case "" | "list":
            reject_arguments(rest, "agent list")
            return _list(host)
        case "run":
            return await _run(host, rest)
        case "parallel":
            return await _run_parallel(host, rest)
        case "read":
            return await _read(host, rest)
        case "send":
            return await _send(host, rest)
        case "stop":
            return await _stop(host, rest)
        case _:
            raise unknown_subcommand("agent", word, AGENT)


def _list(host: CommandHost) -> CommandResult:
    agents, running = _available(host), host.subagents.list()
    lines = [f"  {name:<18} {one_line(one.description, _ABOUT)}" for name, one in agents.items()]
    if running:
        lines += ["", *list_tasks(running, now=time.time())]
    return build_result(
        lines,
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
        running=[to_builtins(state) for state in running],
    )


async def _run(host: CommandHost, arguments: str) -> CommandResult:
    options = _Options(host, arguments, "run")
    if not options.rest:
        raise SessionError("the task is missing: write /agent run [--type NAME] PROMPT")
    request = options.make_request(options.rest)
    if options.is_detached:
        return _describe_started([await host.subagents.start(request)])
    return _describe_ended(await host.subagents.run(request))


async def _run_parallel(host: CommandHost, arguments: str) -> CommandResult:
    options = _Options(host, arguments, "parallel")
    try:
        prompts = [prompt for prompt in shlex.split(options.rest) if prompt.strip()]
    except ValueError as error:
        raise SessionError(f"a quotation mark is not closed: {error}") from error
    if len(prompts) < 2:
        raise SessionError('write at least two tasks in quotes: /agent parallel "A" "B"')
    if len(prompts) > _MOST_AGENTS:
        raise SessionError(f"at most {_MOST_AGENTS} tasks can be started at once")
    requests = [options.make_request(prompt) for prompt in prompts]
    mode: TaskMode = "background" if options.is_detached else "foreground"
    group_id, states = await host.subagents.start_all(requests, mode=mode)
    if options.is_detached:
        return _describe_started(states, group_id)
    ended = await host.subagents.wait_all(states)
    heads = list_tasks(ended, now=time.time(), details=False)
    texts = [
        f"{head.strip()}\n{state.result or state.error}"
        for head, state in zip(heads, ended, strict=True)
    ]
    return CommandResult(
        "\n\n".join(texts),
        success=any(state.status is TaskStatus.COMPLETED for state in ended),
        data={"group_id": group_id, "agents": [to_builtins(state) for state in ended]},
    )


async def _read(host: CommandHost, arguments: str) -> CommandResult:
    agent_id, rest = _take_id(arguments, "read ID [OFFSET]")
    offset = parse_number(rest) if rest else 0
    if offset is None:
        raise SessionError("the offset must be a number of lines, such as /agent read ID 200")
    page = await host.subagents.read(agent_id, offset=offset)
    lines = list(page.lines) or ["(nothing yet)"]
    if page.next_offset is not None:
        lines.append(f"… more: /agent read {agent_id} {page.next_offset}")
    return build_result(lines, page=to_builtins(page))


async def _send(host: CommandHost, arguments: str) -> CommandResult:
    agent_id, text = _take_id(arguments, "send ID TEXT")
    if not text:
        raise SessionError(f"the message is missing: write /agent send {agent_id} TEXT")
    was = {state.task_id: state.status for state in host.subagents.list()}.get(agent_id)
    state = await host.subagents.send(agent_id, text)
    continues = was is not None and was.is_terminal
    how = "continues with your message" if continues else "reads your message at its next step"
    return build_result([f"{agent_id} {how}"], agent_id=agent_id, status=str(state.status))


async def _stop(host: CommandHost, arguments: str) -> CommandResult:
    agent_id, rest = _take_id(arguments, "stop ID")
    reject_arguments(rest, "agent stop ID")
    state = await host.subagents.stop(agent_id)
    lines = [f"{agent_id} is {state.status}; /agent send {agent_id} TEXT continues it"]
    return build_result(lines, agent=to_builtins(state))


def _take_id(arguments: str, usage: str) -> tuple[str, str]:
    agent_id, rest = split_word(arguments)
    if not agent_id:
        raise SessionError(f"the id of the agent is missing: write /agent {usage}; /agent has them")
    return agent_id, rest


class _Options:
    """The flags before the task, and the agent that gets it: `--type NAME`, or its first word."""

    def __init__(self, host: CommandHost, arguments: str, subcommand: str) -> None:
        agents = _available(host)
        flags, rest = split_flags(arguments)
        self.is_detached = "detach" in flags
        self._is_durable = "durable" in flags
        self._isolation: Isolation = "worktree" if "worktree" in flags else "none"
        self._agent = ""
        word, after = split_word(rest)
        if "type" in flags or (subcommand == "run" and word in agents):
            if word not in agents:
                names = one_line(", ".join(agents), 400)
                raise SessionError(
                    f"there is no agent {one_line(word, 40)!r}; write --type with one of: {names}"
                )
            self._agent, rest = word, after
            more, rest = split_flags(rest)
            self.is_detached |= "detach" in more
            self._is_durable |= "durable" in more
            self._isolation = "worktree" if "worktree" in more else self._isolation
        self.rest = rest

    def make_request(self, prompt: str) -> TaskRequest:
        return TaskRequest(
            kind=TaskKind.AGENT,
            prompt=prompt,
            agent=self._agent,
            isolation=self._isolation,
            durable=self._is_durable,
        )


def _describe_started(states: Sequence[TaskState], group_id: str = "") -> CommandResult:
    name = states[0].task_id if len(states) == 1 else "ID"
    lines = [f"started {state.task_id} ({state.agent})" for state in states]
    lines.append(f"/agent read {name} shows its work, /agent stop {name} ends it")
    return build_result(lines, group_id=group_id, agents=[to_builtins(state) for state in states])


def _describe_ended(state: TaskState) -> CommandResult:
    if state.status is TaskStatus.COMPLETED:
        return build_result([state.result], agent=state.agent, agent_id=state.task_id)
    if state.status is TaskStatus.CANCELLED:
        raise AbortError(f"{state.task_id} was aborted: {state.error}")
    parts = [f"{state.task_id} did not finish: {state.error}", state.result]
    return CommandResult(
        "\n\n".join(filter(None, parts)),
        success=False,
        data={"agent": state.agent, "agent_id": state.task_id},
    )


def _available(host: CommandHost) -> Mapping[str, AgentDefinition]:
    if not host.agents:
        raise SessionError("this session has no agents")
    return host.agents


AGENT = Command(
    name="agent",
    description="list the agents, give them tasks, and talk to them",
    argument_hint="[list | run | parallel | read | send | stop]",
    when_to_use="to read, continue or stop the agents that you have started",
    model_invocable=True,
    safety="changes-files",
    subcommands=(
        Command(
            name="list",
            description="list the agents, and those that run or have ended",
            model_invocable=True,
        ),
        Command(
            name="run",
            description="give an agent a task and show its answer",
            argument_hint="[--type NAME] [--worktree] [--durable] [--detach] PROMPT",
            flags=("type", "worktree", "durable", "detach"),
            safety="changes-files",
        ),
        Command(
            name="parallel",
            description="give several agents a task each",
            argument_hint='[--type NAME] [--worktree] [--durable] [--detach] "PROMPT" "PROMPT" …',
            flags=("type", "worktree", "durable", "detach"),
            safety="changes-files",
        ),
        Command(
            name="read",
            description="show what an agent has said and done",
            argument_hint="ID [OFFSET]",
            model_invocable=True,
        ),
        Command(
            name="send",
            description="give an agent a message; one that has ended continues with it",
            argument_hint="ID TEXT",
            model_invocable=True,
        ),
        Command(name="stop", description="end an agent", argument_hint="ID", model_invocable=True),
    ),
)
AGENT_COMMANDS: tuple[Builtin, ...] = (Builtin(AGENT, _agent),)
