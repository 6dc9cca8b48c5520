"""In a worktree, the settings and rules of the project hold for the copies of its files."""

import json
from pathlib import Path

import pytest

from clew.core.permissions import PermissionMode
from clew.core.tasks import TaskKind
from clew.permissions.moved_rules import add_moved_rules
from clew.permissions.rules import parse_rule
from clew.providers.scripted import ScriptedReply, call_reply
from clew.runtime.protocol import TaskRequest
from clew.runtime.worktrees import GitWorktrees
from clew.sdk.folders import Homes
from clew.sdk.session import InteractiveSession
from clew.sdk.settings import load_project_settings, trust_record
from clew.tools.sandbox import Sandbox
from tests.runtime.repositories import commit_all, git
from tests.sdk.agent_scripts import ScriptedAgents
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-4")]


@pytest.fixture
def project(place: Place) -> Path:
    git(place.project, "init", "-q", "-b", "main")
    place.write("secret.txt", "the code is 8417\n")
    place.write("src/open.txt", "nothing special\n")
    place.write(".gitignore", ".clew/\n")
    commit_all(place.project, "first")
    return place.project


@pytest.fixture
def homes(place: Place) -> Homes:
    return Homes(user=place.home, clew=place.clew_home)


async def make_worktree(homes: Homes, cwd: Path) -> Path:
    worktrees = GitWorktrees(homes.project(cwd) / "worktrees")
    request = TaskRequest(kind=TaskKind.AGENT, prompt="x", cwd=str(cwd))
    return Path((await worktrees.prepare("agent-1", request)).folder)


def deny(place: Place, *rules: str) -> None:
    place.clew_home.mkdir(parents=True, exist_ok=True)
    settings = {"permissions": {"deny": rules}}
    (place.clew_home / "settings.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("pattern", ["./secret.txt", "/{project}/secret.txt", "~/project/secret.*"])
async def test_an_agent_in_a_worktree_cannot_read_copies_of_forbidden_files(
    place: Place, project: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place.home))
    deny(place, f"Read({pattern.format(project=project)})")
    scripts: dict[str, list[ScriptedReply]] = {
        "go": [
            call_reply(("Agent", {"prompt": "look around", "isolation": "worktree"})),
            "done",
        ],
        "look around": [
            call_reply(("Read", {"file_path": "secret.txt"})),
            call_reply(("Bash", {"command": "cat secret.txt"})),
            call_reply(("Read", {"file_path": "src/open.txt"})),
            "nothing",
        ],
    }
    provider = ScriptedAgents(scripts)
    session = InteractiveSession(
        provider=provider,
        cwd=project,
        model="m",
        agents=True,
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
        permission_mode=PermissionMode.BYPASS,
    )
    async with session:
        await session.run("go")

    results = [
        result.text
        for message in provider.requests("look around")[-1].messages
        for result in message.results
    ]
    assert "8417" not in str(results)
    assert "nothing special" in results[-1]


@pytest.mark.skipif(not Sandbox().active, reason="there is no sandbox here")
async def test_commands_in_a_worktree_can_commit_in_the_sandbox(
    place: Place, project: Path
) -> None:
    commit = (
        "echo new > new.txt && git add new.txt &&"
        " git -c user.name=A -c user.email=a@example.com commit -q -m work && echo committed"
    )
    provider = ScriptedAgents(
        {
            "go": [
                call_reply(("Agent", {"prompt": "write", "isolation": "worktree"})),
                "done",
            ],
            "write": [call_reply(("Bash", {"command": commit})), "ok"],
        }
    )
    session = InteractiveSession(
        provider=provider,
        cwd=project,
        model="m",
        agents=True,
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
        permission_mode=PermissionMode.BYPASS,
    )
    async with session:
        await session.run("go")
        (agent,) = session.parts.agents.list()

    assert "1 commit" in agent.result, provider.requests("write")[-1].messages
    assert git(project, "show", f"{agent.branch_name}:new.txt") == "new"


async def test_a_session_in_a_worktree_has_the_settings_that_the_user_accepted(
    place: Place, project: Path, homes: Homes
) -> None:
    rules = {"permissions": {"allow": ["Bash(make:*)"], "deny": ["Read(/secret.txt)"]}}
    place.write(".clew/settings.local.json", json.dumps(rules))
    before = load_project_settings(project, homes, {})
    trust_record(homes).accept(project, before.fingerprint)
    worktree = await make_worktree(homes, project)

    loaded = load_project_settings(worktree, homes, {})
    reads = [("Read", {"file_path": name}) for name in ("secret.txt", "src/open.txt")]
    async with place.session(
        [call_reply(*reads), "done"], cwd=worktree, permission_mode=PermissionMode.BYPASS
    ) as session:
        await session.run("look")

    assert not (worktree / ".clew").exists()
    assert [str(rule) for rule in loaded.settings.permissions.allow] == ["Bash(make:*)"]
    assert loaded.withheld == ()
    secret, other = (
        result for message in place.provider.requests[-1].messages for result in message.results
    )
    assert secret.failed
    assert "the rule Read(/secret.txt)" in secret.text
    assert "nothing special" in other.text


async def test_each_folder_of_a_worktree_has_the_settings_of_its_folder_in_the_project(
    project: Path, homes: Homes
) -> None:
    worktree = await make_worktree(homes, project / "src")

    assert homes.find_settings_folder(worktree) == project / "src"
    assert homes.find_settings_folder(worktree / "deep") == project / "src" / "deep"
    assert homes.find_settings_folder(project) == project
    assert homes.find_settings_folder(worktree.parents[1]) == worktree.parents[1]


def test_rules_are_moved_only_where_they_name_files_of_the_project(tmp_path: Path) -> None:
    project, copy = tmp_path / "project" / "sub", tmp_path / "copy" / "sub"
    inside, outside = f"Read(/{tmp_path}/project/key)", f"Read(/{tmp_path}/projects/key)"
    relative = parse_rule("Read(./key)")
    rules = (parse_rule(inside), parse_rule(outside), relative, parse_rule("Bash"))

    moved = add_moved_rules(rules, project, copy)

    assert moved[:4] == rules
    assert [str(rule) for rule in moved[4:]] == [f"Read(/{tmp_path}/copy/key)"]
    assert add_moved_rules(rules, project, project) == rules
