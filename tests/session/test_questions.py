"""Calls that need no question, and what the model is told about plan mode."""

from pathlib import Path
from typing import Any

import pytest

from clew import Session, tool
from clew.core.models import ToolSpec
from clew.core.permissions import Access, Approval, Decision, PermissionMode, Risk
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply
from clew.session.gate import Gate
from clew.tools.protocol import ToolContext, ToolOutput

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRM-2")]


@tool(risk=Risk.MODIFY)
def change(times: int) -> str:
    """Change something."""
    return f"changed {times} times"


@tool(risk=Risk.INSPECT)
def look() -> str:
    """Look at something."""
    return "seen"


async def test_a_call_with_invalid_arguments_fails_before_the_user_is_asked() -> None:
    asked: list[dict[str, object]] = []

    async def ask(access: Access, decision: Decision) -> Approval:
        asked.append(access.arguments)
        return Approval.ONCE

    replies: list[ScriptedReply] = [
        call_reply(("change", {"times": "many"})),
        call_reply(("change", {"times": 2})),
        "ok",
    ]
    provider = ScriptedProvider(replies)
    gate = Gate(cwd=Path.cwd(), ask=ask)
    async with Session(provider, model="m", tools=[change], gate=gate) as session:
        await session.run("go")

    assert asked == [{"times": 2}]
    results = [
        part.text for part in provider.requests[-1].messages[2].parts if hasattr(part, "text")
    ]
    assert results[0].startswith("Invalid arguments for change")


async def test_the_model_is_told_about_plan_mode_and_gets_its_tools() -> None:
    provider = ScriptedProvider(["a", "b", "c", "d"])
    gate = Gate(cwd=Path.cwd())
    async with Session(provider, model="m", tools=[change, look], gate=gate) as session:
        await session.run("one")
        gate.mode = PermissionMode.PLAN
        await session.run("two")
        gate.mode = PermissionMode.DEFAULT
        await session.run("three")
        await session.run("four")

    prompts = [request.messages[-1].text for request in provider.requests]
    assert "Plan mode" not in prompts[0]
    assert "Plan mode is active" in prompts[1]
    assert "These tools work: look, Recall." in prompts[1]
    assert "Plan mode has ended" in prompts[2]
    assert "Plan mode" not in prompts[3]
    first, *_, last = provider.requests
    assert first.tools == last.tools
    assert last.messages[: len(first.messages)] == first.messages


class Demanding:
    """A tool that says what it needs only when it knows its arguments."""

    spec = ToolSpec(name="demanding", description="x", schema={"type": "object"})
    max_output_chars: int | None = None

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:
        return Access(tool="demanding", risk=Risk.INSPECT, target=arguments["path"])

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(text="ok")


async def test_a_tool_that_needs_its_arguments_does_not_break_plan_mode() -> None:
    provider = ScriptedProvider(["a"])
    gate = Gate(cwd=Path.cwd(), mode=PermissionMode.PLAN)
    async with Session(provider, model="m", tools=[Demanding(), look], gate=gate) as session:
        await session.run("one")

    assert "These tools work: look, Recall." in provider.requests[0].messages[-1].text
