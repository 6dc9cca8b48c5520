"""A real session with commands around it, as small as one can be."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clew import Session
from clew.context.policy import Thresholds
from clew.core.errors import SessionError
from clew.core.models import ModelFacts
from clew.core.tasks import (
    JobGroupState,
    LogPage,
    TaskKind,
    TaskMode,
    TaskState,
    TaskStatus,
)
from clew.core.usage import Usage
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.commands.protocol import CommandResult
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.commands.sources import BuiltinCommandSource
from clew.extensions.memory import ProjectMemory
from clew.extensions.skills import Skill
from clew.providers.scripted import ScriptedProvider, ScriptedReply
from clew.runtime.protocol import TaskRequest
from clew.runtime.roster import Roster
from clew.sdk.roster import make_roster
from clew.sdk.session_store import ProjectStore
from clew.session.gate import Gate
from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store
from clew.tools.mcp.values import ServerStatus
from clew.tools.protocol import Tool

FACTS = ModelFacts(name="m", window=10_000)
USAGE = Usage(input_tokens=100, output_tokens=10, cache_read_tokens=60, cache_write_tokens=5)


class NoTasks:
    """A session in which nothing runs in the background."""

    async def list(self) -> Sequence[TaskState]:
        return ()

    async def list_groups(self) -> Sequence[JobGroupState]:
        return ()

    async def cancel(self, task_id: str, *, reason: str = "") -> TaskState:
        raise SessionError(f"there is no task {task_id} {reason}")

    async def close(self, task_id: str) -> TaskState:
        raise SessionError(f"there is no task {task_id}")

    async def send(self, task_id: str, text: str) -> None:
        raise SessionError(f"there is no task {task_id} for {text}")

    async def read_log(self, task_id: str, *, offset: int = 0) -> LogPage:
        raise SessionError(f"there is no task {task_id} with {offset}")


class SmallAgents:
    """Agents that answer at once."""

    async def run(self, request: TaskRequest) -> TaskState:
        return TaskState(
            task_id="agent-1",
            kind=TaskKind.AGENT,
            label=request.prompt,
            agent=request.agent,
            status=TaskStatus.COMPLETED,
            result=f"{request.agent} did: {request.prompt}",
        )

    async def start(self, request: TaskRequest) -> TaskState:
        return await self.run(request)

    async def start_all(
        self, requests: Sequence[TaskRequest], *, mode: TaskMode
    ) -> tuple[str, list[TaskState]]:
        assert mode == "background"
        return "group-1", [await self.run(request) for request in requests]

    async def wait_all(self, states: Sequence[TaskState]) -> list[TaskState]:
        return list(states)

    async def send(self, agent_id: str, text: str) -> TaskState:
        return await self.run(TaskRequest(kind=TaskKind.AGENT, prompt=text, agent=agent_id))

    async def read(self, agent_id: str, *, offset: int = 0, limit: int = 200) -> LogPage:
        return LogPage(task_id=agent_id, lines=("[agent] hello",)[:limit], offset=offset)

    async def stop(self, agent_id: str) -> TaskState:
        return await self.send(agent_id, "stop")

    def list(self) -> tuple[TaskState, ...]:
        return ()


class SmallPlugins:
    """Says what it was asked to do."""

    async def run(
        self, words: Sequence[str], *, agreed: bool, in_project: bool = False
    ) -> CommandResult:
        notes = [" (agreed)"] * agreed + [" (project)"] * in_project
        return CommandResult("".join((" ".join(words), *notes)))


@dataclass
class SmallHost:
    """What the commands of a session need, and what they asked for."""

    session: Session
    registry: CommandRegistry
    cwd: Path
    gate: Gate
    store: Store
    memory: ProjectMemory | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)
    language: str = ""
    name: str = ""
    tool_origins: Mapping[str, str] = field(default_factory=dict)
    mcp_servers: Sequence[ServerStatus] = ()
    plugin_units: int = 0
    agents: Mapping[str, AgentDefinition] = field(default_factory=dict)
    tasks: NoTasks = field(default_factory=NoTasks)
    subagents: SmallAgents = field(default_factory=SmallAgents)
    plugins: SmallPlugins = field(default_factory=SmallPlugins)
    waiting: list[str] = field(default_factory=list)
    skills_run: list[tuple[str, str]] = field(default_factory=list)

    @property
    def roster(self) -> Roster:
        return make_roster(ProjectStore(store=self.store, folder=None))

    async def compact_later(self, instructions: str, *, force: bool = False) -> bool:
        if self.session.is_running:
            self.waiting.append(f"--force {instructions}" if force else instructions)
        return self.session.is_running

    async def run_skill(self, skill: Skill, arguments: str) -> str:
        self.skills_run.append((skill.name, arguments))
        return f"<skill>{skill.description}</skill> {arguments}"

    async def run_agent(self, name: str, prompt: str) -> str:
        return f"{name} did: {prompt}"

    async def run(self, line: str) -> CommandResult:
        """Carry out a line such as `/pin #2`."""
        name, _, arguments = line.removeprefix("/").partition(" ")
        result = await self.registry.execute(self, name, arguments)
        assert result is not None, f"there is no command {name}"
        return result


@asynccontextmanager
async def hosting(
    tmp_path: Path,
    *replies: ScriptedReply,
    store: Store | None = None,
    tools: tuple[Tool, ...] = (),
    registry: CommandRegistry | None = None,
    checkpoints: bool = False,
) -> AsyncIterator[SmallHost]:
    """Open a session whose model answers with `replies`."""
    if registry is None:
        registry = CommandRegistry()
        registry.add_source(BuiltinCommandSource())
    store = store or MemoryStore()
    gate = Gate(cwd=tmp_path)
    session = Session(
        ScriptedProvider(replies, facts=FACTS),
        model="m",
        store=store,
        gate=gate,
        cwd=tmp_path,
        tools=tools,
        checkpoints=tmp_path / ".kept" if checkpoints else None,
    )
    async with session:
        yield SmallHost(session=session, registry=registry, cwd=tmp_path, gate=gate, store=store)
