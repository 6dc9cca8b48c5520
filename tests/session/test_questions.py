"""Calls that need no question, and what the model is told about plan mode."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew import Session, tool
from clew.core.messages import ToolResult
from clew.core.models import ToolSpec
from clew.core.permissions import Access, Approval, Decision, PermissionMode, Risk
from clew.hooks.context import HookContext
from clew.hooks.runner import HookRunner
from clew.hooks.settings import HookSource, read_hooks
from clew.permissions.rules import parse_rule
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply
from clew.session.gate import Gate
from clew.tools.builtin import builtin_tools
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


async def run_calls(folder: Path, gate: Gate, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """Let a model call the file tools one after the other; return the results."""
    provider = ScriptedProvider([*(call_reply(call) for call in calls), "ok"])
    async with Session(
        provider, model="m", tools=builtin_tools(), gate=gate, cwd=folder
    ) as session:
        await session.run("go")
    messages = provider.requests[-1].messages
    return [part.text for each in messages for part in each.parts if isinstance(part, ToolResult)]


def gate_that_asks(folder: Path, asked: list[str], **options: Any) -> Gate:
    async def ask(access: Access, decision: Decision) -> Approval:
        asked.append(f"{access.tool} {access.target}")
        return Approval.ONCE

    return Gate(cwd=folder, ask=ask, **options)


async def test_a_change_that_cannot_succeed_fails_before_the_user_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two two\n")
    asked: list[str] = []

    results = await run_calls(
        tmp_path,
        gate_that_asks(tmp_path, asked),
        ("Edit", {"file_path": "a.txt", "old_string": "three", "new_string": "3"}),
        ("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2"}),
        ("Edit", {"file_path": "missing.txt", "old_string": "a", "new_string": "b"}),
        ("Write", {"file_path": "a.txt", "content": "new"}),
        ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"}),
    )

    assert asked == ["Edit a.txt"]
    for text, said in zip(
        results, ("is not in", "2 times", "does not exist", "Read it first", "Edited"), strict=True
    ):
        assert said in text
    assert (tmp_path / "a.txt").read_text() == "1 two two\n"


async def test_a_failure_tells_nothing_about_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for path in (project / "private.txt", tmp_path / "outside.txt"):
        path.write_text("one\n")
    asked: list[str] = []
    rules = (parse_rule("Read(./*private*)"),)

    await run_calls(
        project,
        gate_that_asks(project, asked, ask_rules=rules),
        ("Edit", {"file_path": "private.txt", "old_string": "two", "new_string": "2"}),
        ("Edit", {"file_path": "no-private.txt", "old_string": "two", "new_string": "2"}),
        ("Edit", {"file_path": "../outside.txt", "old_string": "two", "new_string": "2"}),
        ("Read", {"file_path": "../missing.txt"}),
    )

    assert asked == [
        "Edit private.txt",
        "Edit no-private.txt",
        "Edit ../outside.txt",
        "Read ../missing.txt",
    ]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("Edit", {"file_path": "../b", "old_string": "", "new_string": "x"}), "is empty"),
        (("Edit", {"file_path": "../b", "old_string": "x", "new_string": "x"}), "the same"),
        (("Edit", {"file_path": "../\0", "old_string": "x", "new_string": "y"}), "null character"),
        (("Write", {"file_path": "", "content": "x"}), "is empty"),
        (("Write", {"file_path": "../\0", "content": "x"}), "null character"),
        (("Write", {"file_path": "a.txt/b", "content": "x"}), "is not a folder"),
        (("Read", {"file_path": "../b", "offset": -1}), "Invalid arguments"),
        (("Grep", {"pattern": "(", "path": ".."}), "regex parse error"),
        (("Grep", {"pattern": "x", "path": "..", "type": "nonsense"}), "nonsense"),
        (("Grep", {"pattern": "x", "path": "..", "glob": "../*"}), "leaves the folder"),
        (("Glob", {"pattern": "../*", "path": ".."}), "leaves the folder"),
        (("Bash", {"command": " "}), "The command is empty"),
        (("Bash", {"command": "touch \0"}), "null character"),
        (("Bash", {"command": "  # only a comment\n\n# and another"}), "only a comment"),
        (("Bash", {"command": "touch x ("}), "bash cannot parse"),
        (("Bash", {"command": "touch 'x"}), "bash cannot parse"),
        (("Bash", {"command": "if true; then touch x"}), "bash cannot parse"),
        (("Bash", {"command": "touch x", "timeout": -1}), "Invalid arguments"),
        (("WebFetch", {"url": "example"}), "Only http and https"),
        (("WebFetch", {"url": "file:///etc/passwd"}), "Only http and https"),
        (("WebFetch", {"url": "http://169.254.169.254/"}), "not on the public internet"),
        (("WebFetch", {"url": "https://example.com", "method": "POST"}), "Invalid arguments"),
    ],
)
async def test_a_call_that_no_file_or_answer_could_make_succeed_is_no_question(
    call: tuple[str, dict[str, Any]], said: str, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    asked: list[str] = []

    (result,) = await run_calls(project, gate_that_asks(project, asked), call)

    assert asked == []
    assert said in result


@pytest.mark.parametrize(
    "command",
    [
        "touch x # a comment",
        "# a comment\ntouch x",
        "touch a; cat <<E\n(\nE",
        "shopt -s extglob\ntouch !(x)",
        "touch x; exit\n(",
    ],
)
async def test_a_command_that_may_succeed_is_a_question(command: str, tmp_path: Path) -> None:
    asked: list[str] = []

    await run_calls(tmp_path, gate_that_asks(tmp_path, asked), ("Bash", {"command": command}))

    assert asked == [f"Bash {command}"]


async def test_a_file_that_is_missing_is_no_question_of_a_hook(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    asked: list[str] = []
    output = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
    said = json.dumps({"hookSpecificOutput": output})
    hook = {"type": "command", "command": f"echo '{said}'"}
    settings = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Read", "hooks": [hook]}]}})
    table = read_hooks(settings.encode(), HookSource(name="settings.json"))
    provider = ScriptedProvider(
        [
            call_reply(("Read", {"file_path": "missing.txt"})),
            call_reply(("Read", {"file_path": "a.txt"})),
            "ok",
        ]
    )

    async with Session(
        provider,
        model="m",
        tools=builtin_tools(),
        gate=gate_that_asks(tmp_path, asked),
        cwd=tmp_path,
        hooks=HookRunner(table, HookContext(project=tmp_path)),
    ) as session:
        await session.run("go")

    assert asked == ["Read a.txt"]


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
