"""A decision is about a file, not about a name: a link put in between opens nothing."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from clew.core.permissions import (
    Access,
    Approval,
    Decision,
    PermissionAnswer,
    PermissionMode,
    Verdict,
)
from clew.permissions.decide import decide
from clew.permissions.policy import Policy
from clew.permissions.rules import parse_rule
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.session.gate import Gate
from clew.session.session import Session
from clew.tools.builtin import builtin_tools
from clew.tools.builtin.bash import bash_tool
from clew.tools.protocol import ToolContext
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRM-7")]
NO_SANDBOX = Sandbox(SandboxPolicy(mode=SandboxMode.OFF))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("project/out", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "elsewhere/file").write_text("secret")
    (tmp_path / "project/out/file").write_text("mine")
    return tmp_path / "project"


def swap(project: Path) -> None:
    """Replace the folder by a link to another one."""
    (project / "out").rename(project / "moved")
    (project / "out").symlink_to(project.parent / "elsewhere")


async def run(
    project: Path, name: str, arguments: dict[str, str], *, answer: Callable[[], Approval]
) -> tuple[str, Gate]:
    async def ask(access: Access, decision: Decision) -> PermissionAnswer:
        del access, decision
        return PermissionAnswer(approval=answer())

    gate = Gate(cwd=project, mode=PermissionMode.DEFAULT, ask=ask)
    provider = ScriptedProvider([call_reply((name, arguments)), "ok"])
    tools = builtin_tools(sandbox=NO_SANDBOX)
    with anyio.fail_after(60):
        async with Session(provider, model="m", tools=tools, gate=gate, cwd=project) as session:
            await session.run("go")
    return str(provider.requests[1].messages[-1].parts), gate


@pytest.mark.parametrize("approval", [Approval.ONCE, Approval.SESSION, Approval.PROJECT])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Write", {"file_path": "out/new", "content": "x"}),
        ("Write", {"file_path": "out/deep/new", "content": "x"}),
        ("Bash", {"command": "echo x > out/new"}),
        ("Bash", {"command": "cd out && touch new"}),
    ],
)
async def test_a_folder_replaced_while_a_question_is_open_ends_the_call(
    project: Path, name: str, arguments: dict[str, str], approval: Approval
) -> None:
    def answer() -> Approval:
        swap(project)
        return approval

    told, gate = await run(project, name, arguments, answer=answer)

    assert "leads elsewhere now" in told
    assert [path.name for path in (project.parent / "elsewhere").iterdir()] == ["file"]
    assert gate.grants == []


async def test_a_rule_that_is_added_while_a_question_is_open_counts(project: Path) -> None:
    gates: list[Gate] = []

    async def ask(access: Access, decision: Decision) -> PermissionAnswer:
        del access, decision
        gates[0].deny = (parse_rule("Write(./out/**)"),)
        return PermissionAnswer(approval=Approval.ONCE)

    gates.append(Gate(cwd=project, ask=ask))
    tool = next(tool for tool in builtin_tools(sandbox=NO_SANDBOX) if tool.spec.name == "Write")
    wanted = tool.access({"file_path": "out/new", "content": "x"}, ToolContext(cwd=project))

    final = await gates[0].judge(wanted)

    assert final.verdict is Verdict.DENY
    assert "Write(./out/**)" in final.reason


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Read", {"file_path": "out/file"}),
        ("Write", {"file_path": "out/new", "content": "x"}),
        ("Edit", {"file_path": "out/file", "old_string": "secret", "new_string": "x"}),
        ("Grep", {"pattern": "secret", "path": "out"}),
        ("Glob", {"pattern": "*", "path": "out"}),
    ],
)
async def test_a_tool_refuses_another_file_than_the_one_that_was_allowed(
    project: Path, name: str, arguments: dict[str, str]
) -> None:
    allowed = tuple(str(project / "out" / each) for each in ("", "file", "new"))
    context = ToolContext(cwd=project, allowed_paths=tuple(path.rstrip("/") for path in allowed))
    tool = next(tool for tool in builtin_tools(sandbox=NO_SANDBOX) if tool.spec.name == name)
    swap(project)

    out = await tool.run(arguments, context)

    assert out.failed
    assert "leads to another file than when this call was allowed" in out.text
    assert (project.parent / "elsewhere/file").read_text() == "secret"
    assert not (project.parent / "elsewhere/new").exists()


async def test_a_folder_replaced_between_the_check_and_the_write_is_not_followed(
    project: Path,
) -> None:
    context = ToolContext(cwd=project, before_change=lambda _: swap(project))
    tool = next(tool for tool in builtin_tools(sandbox=NO_SANDBOX) if tool.spec.name == "Write")

    out = await tool.run({"file_path": "out/new", "content": "x"}, context)

    assert out.failed
    assert not (project.parent / "elsewhere/new").exists()


async def test_a_command_is_judged_in_the_folder_where_it_starts(project: Path) -> None:
    (project / ".env").write_text("secret")
    context = ToolContext(cwd=project)
    tool = bash_tool(sandbox=NO_SANDBOX)
    await tool.run({"command": "cd out"}, context)
    policy = Policy(cwd=project, mode=PermissionMode.BYPASS, deny=(parse_rule("Read(./.env)"),))

    denied = decide(tool.access({"command": "cat ../.env"}, context), policy)
    allowed = decide(tool.access({"command": "cat .env"}, context), policy)

    assert (denied.verdict, allowed.verdict) == (Verdict.DENY, Verdict.ALLOW)


async def test_a_command_does_not_start_in_another_folder_than_the_judged_one(
    project: Path,
) -> None:
    context = ToolContext(cwd=project, allowed_paths=(str(project),))
    context.shell.cwd = project / "out"

    out = await bash_tool(sandbox=NO_SANDBOX).run({"command": "cat file"}, context)

    assert out.failed
    assert "another command has changed the folder" in out.text
