"""`ExecuteCommand`: what the model is told, what it may do, and what it may not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.render import render
from clew.core.messages import Role
from clew.core.permissions import Access, Approval, Decision, Risk
from clew.extensions.commands.execute_tool import ExecuteCommand
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.commands.sources import (
    BuiltinCommandSource,
    PluginCommand,
    PluginCommandSource,
)
from clew.extensions.memory import ProjectMemory
from clew.extensions.skills import Skill
from clew.providers.scripted import ScriptedReply, call_reply
from clew.tools.protocol import ToolContext
from tests.extensions.hosting import SmallHost, hosting
from tests.histories import problems

pytestmark = pytest.mark.anyio


def registry_with(*skills: Skill) -> CommandRegistry:
    registry = CommandRegistry()
    registry.add_source(BuiltinCommandSource())
    registry.add_source(PluginCommandSource(PluginCommand(plugin="p", skill=s) for s in skills))
    return registry


def skill(name: str, text: str = "", *, model: bool = True) -> Skill:
    return Skill(
        name=name,
        description=text,
        path=Path("SKILL.md"),
        source="plugin",
        model_invocable=model,
    )


def no_host() -> SmallHost:
    raise AssertionError("nobody needs the host yet")


def executes(command: str, args: str = "") -> ScriptedReply:
    return call_reply(("ExecuteCommand", {"command": command, "args": args}))


async def results_of(host: SmallHost, prompt: str = "go") -> list[str]:
    await host.session.run(prompt)
    history = host.session.get_history()
    assert problems(history) == []
    return [message.results[0].text for message in history if message.role is Role.TOOL]


@pytest.mark.req("CMD-3")
def test_the_description_names_what_a_model_may_invoke_and_nothing_else() -> None:
    registry = registry_with(skill("audit", "checks all"), skill("secret", model=False))

    text = ExecuteCommand(registry, no_host).spec.description

    assert "- memory list | show" in text
    assert "- compact " in text
    assert "- p:audit: checks all" in text
    assert all(f"- {name}" not in text for name in ("clear", "mode", "rewind", "p:secret"))
    without = ExecuteCommand(registry, no_host, skills=False).spec.description
    assert "p:audit" not in without
    assert "memory" in without


@pytest.mark.req("CMD-3")
def test_the_description_is_the_same_bytes_every_time_and_bounded() -> None:
    many = [skill(f"skill-{n}", "does\n something " * 50) for n in range(2_000)]
    registry = registry_with(*many)
    tool = ExecuteCommand(registry, no_host)
    spec = tool.spec

    registry.add_source(PluginCommandSource([PluginCommand(plugin="q", skill=skill("new"))]))

    assert tool.spec is spec
    assert ExecuteCommand(registry_with(*many), no_host).spec == spec
    assert len(spec.description) < 20_000
    assert "more skills are not listed" in spec.description


@pytest.mark.req("CMD-3", "PRM-1")
def test_the_risk_is_that_of_the_command_or_subcommand(tmp_path: Path) -> None:
    tool = ExecuteCommand(registry_with(skill("audit")), no_host)
    place = ToolContext(cwd=tmp_path)
    for arguments, risk, target in (
        ({"command": "context"}, Risk.INSPECT, "context"),
        ({"command": "memory", "args": "list"}, Risk.INSPECT, "memory list"),
        ({"command": "memory", "args": "add a b"}, Risk.MODIFY, "memory add a b"),
        ({"command": "memory", "args": "ADD\ta b"}, Risk.MODIFY, "memory ADD\ta b"),
        ({"command": "memory add a", "args": "b"}, Risk.MODIFY, "memory add a b"),
        ({"command": "/memory", "args": "nonsense"}, Risk.MODIFY, "memory nonsense"),
        ({"command": "builtin:memory", "args": "add a b"}, Risk.MODIFY, "builtin:memory add a b"),
        ({"command": "compact", "args": "keep it"}, Risk.INSPECT, "compact keep it"),
        ({"command": "audit", "args": None}, Risk.INSPECT, "audit"),
        ({"command": "nonsense"}, Risk.INSPECT, "nonsense"),
        ({"command": 5}, Risk.INSPECT, ""),
    ):
        access = tool.access(arguments, place)
        assert (access.risk, access.target) == (risk, target), arguments


@pytest.mark.req("CMD-3")
async def test_the_model_reads_and_is_refused_what_is_the_users(tmp_path: Path) -> None:
    script = [
        executes("context"),
        executes("clear"),
        executes("compact", "undo"),
        executes("nonsense"),
        call_reply(("ExecuteCommand", {"args": "list"})),
        "done",
    ]
    async with _hosting_tool(tmp_path, registry_with(), script) as host:
        results = await results_of(host)

        assert "of 10,000 tokens" in results[0]
        assert results[1].startswith("Error: /clear is only for the user")
        assert results[2].startswith("Error: /compact undo is only for the user")
        assert results[3].startswith("Error: there is no command nonsense")
        assert results[4].startswith("Error: `command` is missing")


@pytest.mark.req("CMD-3")
async def test_a_compaction_that_the_model_asks_for_waits_and_orphans_no_call(
    tmp_path: Path,
) -> None:
    talk: list[ScriptedReply] = ["The garden is full of flowers. " * 150] * 6
    script = [*talk, executes("compact", "keep the names"), "I asked for it.", "A summary."]
    async with _hosting_tool(tmp_path, registry_with(), script) as host:
        for _ in talk:
            await host.session.run("tell me more")
        length = len(host.session.get_history())

        results = await results_of(host)

        assert results == ["a run is active: the compaction follows before the next model call"]
        assert len(host.session.get_history()) == length + 4
        assert host.waiting == ["keep the names"]

        done = await host.run(f"/compact {host.waiting.pop()}")

        assert done.success
        assert done.data["summarised"]
        assert len(host.session.get_history()) < length + 4
        assert problems(list(render(host.session.journal.view))) == []


@pytest.mark.req("CMD-3", "SKL-1")
async def test_a_skill_is_run_by_the_host_and_its_words_are_the_result(tmp_path: Path) -> None:
    script = [executes("audit", "the parser"), executes("p:audit"), "done"]
    async with _hosting_tool(tmp_path, registry_with(skill("audit", "checks all")), script) as host:
        results = await results_of(host)

        assert results[0] == "<skill>checks all</skill> the parser"
        assert host.skills_run == [("audit", "the parser"), ("audit", "")]


@pytest.mark.req("CMD-3", "MEM-1", "PRM-3")
async def test_what_changes_files_is_asked_about(tmp_path: Path) -> None:
    asked: list[str] = []

    async def ask(access: Access, decision: Decision) -> Approval:
        asked.append(access.target)
        return Approval.ONCE if "ninja" in access.target else Approval.NO

    script = [
        executes("memory", "list"),
        executes("memory", "add build The build runs on ninja"),
        executes("memory", "add build The build runs on make"),
        "done",
    ]
    async with _hosting_tool(tmp_path, registry_with(), script) as host:
        host.memory = ProjectMemory(tmp_path / ".clew" / "memory", clock=lambda: 0.0)
        host.gate.ask = ask
        results = await results_of(host)

        assert asked == [
            "memory add build The build runs on ninja",
            "memory add build The build runs on make",
        ]
        assert "saved under build" in results[1]
        assert "Permission denied" in results[2]
        shown = host.memory.show("build")
        assert "ninja" in shown
        assert "make" not in shown


@given(
    arguments=st.dictionaries(
        st.sampled_from(["command", "args", "more"]),
        st.one_of(st.none(), st.integers(), st.text(), st.lists(st.text(), max_size=2)),
    )
)
def test_access_never_raises(arguments: dict[str, Any]) -> None:
    tool = ExecuteCommand(registry_with(), no_host)

    assert tool.access(arguments, ToolContext(cwd=Path.cwd())).tool == "ExecuteCommand"


@asynccontextmanager
async def _hosting_tool(
    tmp_path: Path, registry: CommandRegistry, script: list[ScriptedReply]
) -> AsyncIterator[SmallHost]:
    hosts: list[SmallHost] = []
    tool = ExecuteCommand(registry, lambda: hosts[0])
    async with hosting(tmp_path, *script, tools=(tool,), registry=registry) as host:
        hosts.append(host)
        yield host
