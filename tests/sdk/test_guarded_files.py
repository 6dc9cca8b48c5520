"""Settings and hooks change only with an approval of their own, whatever the path is called."""

from pathlib import Path

import pytest

from clew.core.permissions import Access, Approval, Decision, PermissionMode
from clew.permissions.rules import parse_rule
from clew.providers.scripted import ScriptedReply, call_reply
from clew.session.gate import Gate
from clew.tools.builtin import builtin_tools
from clew.tools.protocol import ToolContext
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("PRM-2")]

GUARDED = [
    *("clew.toml", "sub/clew.toml", ".mcp.json", ".claude.json"),
    *(".clew/settings.json", ".clew/settings.local.json", ".clew/agents/a.md", ".clew/x/y"),
    *(".claude/settings.json", ".claude/settings.local.json", ".claude/hooks/run.sh"),
    *(".claude/skills/a/run.py", ".agents/skills/a/run.py", ".agents/agents/a.md"),
    *(".git/hooks/pre-commit", ".git/config", "sub/.git/config", ".gitmodules", ".husky/x"),
    *(".vscode/tasks.json", ".envrc", ".pre-commit-config.yaml", ".bashrc"),
    # Other spellings
    *("./clew.toml", "sub/../clew.toml", "CLEW.TOML", "Clew.toml", ".CLAUDE/settings.json"),
    *(".g\u200cit/config", "clew.toml.", ".clew./settings.json", "ｃlew.toml"),
]
OTHERS = [
    *("clew.py", "my-clew.toml", "clew.toml.md", "src/settings.json", ".agents/tasks/a.md"),
    *("gitmodules", "claude/settings.json", ".gitignore", ".github/workflows/ci.yml"),
]


def decide(gate: Gate, path: str, tool: str = "Write") -> str:
    """What the gate says about a call of Write or Edit."""
    made = next(one for one in builtin_tools() if one.spec.name == tool)
    return gate.decide(made.access({"file_path": path}, ToolContext(cwd=gate.cwd))).verdict


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    (tmp_path / "sub").mkdir()
    return Gate(cwd=tmp_path, mode=PermissionMode.ACCEPT_EDITS)


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize("tool", ["Write", "Edit"])
def test_a_guarded_file_is_a_question_in_accept_edits_mode(
    gate: Gate, path: str, tool: str
) -> None:
    assert decide(gate, path, tool) == "ask"
    assert decide(gate, str(gate.cwd / path), tool) == "ask"


@pytest.mark.parametrize("path", OTHERS)
def test_other_files_are_no_question(gate: Gate, path: str) -> None:
    assert decide(gate, path) == "allow"


def test_a_link_to_settings_and_a_target_of_settings_are_guarded(gate: Gate) -> None:
    root = gate.cwd
    (root / "clew.toml").write_text("")
    (root / "notes.txt").symlink_to("clew.toml")
    (root / "conf").mkdir()
    (root / ".claude").symlink_to("conf")
    (root / ".clew").mkdir()
    (root / "shared.json").write_text("{}")
    (root / ".clew" / "settings.json").symlink_to("../shared.json")
    (root / "alias").symlink_to(".clew")

    for path in ("notes.txt", "conf/settings.json", "shared.json", "alias/settings.local.json"):
        assert decide(gate, path) == "ask", path
    assert decide(gate, "other.json") == "allow"


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ("Write(./*)", "ask"),
        ("Edit(**/*.toml)", "ask"),
        ("Edit(/**)", "ask"),
        ("Edit(clew.toml)", "allow"),
        ("Write", "allow"),
    ],
)
@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS])
def test_a_pattern_allows_settings_only_if_it_names_them(
    tmp_path: Path, rule: str, verdict: str, mode: PermissionMode
) -> None:
    gate = Gate(cwd=tmp_path, mode=mode, allow=(parse_rule(rule),))

    assert decide(gate, "clew.toml") == verdict


async def test_an_approval_for_a_folder_does_not_cover_its_settings(place: Place) -> None:
    asked: list[tuple[str, str, tuple[str, ...]]] = []

    async def allow(access: Access, question: Decision) -> Approval:
        asked.append((access.target, question.session_scope, question.project_rules))
        return Approval.SESSION

    def write(path: str) -> tuple[str, dict[str, str]]:
        return "Write", {"file_path": path, "content": "# x\n"}

    replies: list[ScriptedReply] = [
        *(call_reply(write(path)) for path in ("a.txt", "b.txt", "clew.toml", ".mcp.json")),
        "done",
    ]
    async with place.session(replies, permission_handler=allow) as session:
        await session.run("go")

    assert asked == [
        ("a.txt", "Write in this folder", ("Write(./*)",)),
        ("clew.toml", "just this call", ()),
        (".mcp.json", "just this call", ()),
    ]
    assert (place.project / "clew.toml").exists()


def test_a_redirection_into_settings_is_a_question_too(tmp_path: Path) -> None:
    gate = Gate(cwd=tmp_path, mode=PermissionMode.ACCEPT_EDITS, allow=(parse_rule("Bash(echo:*)"),))
    bash = next(one for one in builtin_tools() if one.spec.name == "Bash")

    def judge(command: str) -> str:
        return gate.decide(bash.access({"command": command}, ToolContext(cwd=tmp_path))).verdict

    assert judge("echo x > notes.txt") == "allow"
    for path in ("clew.toml", ".clew/settings.json", "./CLEW.toml", f"{tmp_path}/.mcp.json"):
        assert judge(f"echo x > {path}") == "ask", path


def test_reading_settings_is_no_question(tmp_path: Path) -> None:
    gate = Gate(cwd=tmp_path)

    assert decide(gate, "clew.toml", "Read") == "allow"
