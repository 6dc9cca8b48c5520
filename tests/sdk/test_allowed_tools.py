"""`allowed-tools` of skills and commands: what runs without a question, when, and for whom."""

import os
from pathlib import Path

import pytest

from clew.core.permissions import Access, Approval, Decision, PermissionAnswer
from clew.extensions.skills import Skill
from clew.permissions.rules import parse_rule
from clew.providers.scripted import ScriptedReply, call_reply
from clew.sdk.folders import Homes
from clew.sdk.permissions import list_skill_rules
from clew.sdk.plugin_actions import format_preparation
from clew.sdk.plugins import Plugins
from clew.session.gate import Gate
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from tests.extensions.plugin_files import command, write_plugin
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("PLG-1", "CMD-1")]

NO_SANDBOX = Sandbox(SandboxPolicy(mode=SandboxMode.OFF))
TOUCH = command("Do it: !`touch own`", description="d", allowed_tools="Bash(touch *)")


class Person:
    """Says no, and remembers the questions."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, access: Access, question: Decision) -> PermissionAnswer:
        self.asked.append(access.target)
        return PermissionAnswer(approval=Approval.NO)


def touch(name: str) -> ScriptedReply:
    return call_reply(("Bash", {"command": f"touch {name}"}))


def plugin_in(place: Place, text: str) -> Path:
    root = place.root / "plugins" / "tools"
    return write_plugin(root, {"name": "tools"}, {"commands/do.md": text})


async def run_lines(
    place: Place, lines: list[str], replies: list[ScriptedReply], plugin: Path | None = None
) -> list[str]:
    """Run lines as a user types them; returns what the user was asked."""
    person = Person()
    async with place.session(
        replies,
        plugin_folders=[plugin] if plugin else [],
        environ={"PATH": os.environ["PATH"]},
        permission_handler=person,
        sandbox=NO_SANDBOX,
    ) as session:
        for line in lines:
            if line.startswith("/"):
                await session.execute_command(line[1:])
            else:
                await session.run(line)
    return person.asked


async def test_the_tools_of_a_plugins_command_do_not_ask_while_the_user_runs_it(
    place: Place,
) -> None:
    plugin = plugin_in(place, TOUCH)

    replies: list[ScriptedReply] = [touch("one"), "done", touch("two"), "done"]
    asked = await run_lines(place, ["/do", "and again"], replies, plugin)

    assert asked == ["touch two"]
    assert (place.project / "own").exists()
    assert (place.project / "one").exists()
    assert not (place.project / "two").exists()


async def test_other_tools_still_ask(place: Place) -> None:
    plugin = plugin_in(place, TOUCH)
    other = call_reply(("Bash", {"command": "chmod +x own"}))

    assert await run_lines(place, ["/do"], [other, "done"], plugin) == ["chmod +x own"]


async def test_a_command_of_the_user_does_not_ask_either(place: Place) -> None:
    path = place.home / ".claude" / "commands" / "do.md"
    path.parent.mkdir(parents=True)
    path.write_text(TOUCH, encoding="utf-8")

    assert await run_lines(place, ["/do"], [touch("one"), "done"]) == []
    assert (place.project / "one").exists()


async def test_a_command_of_a_project_grants_nothing(place: Place) -> None:
    place.write(".claude/commands/do.md", TOUCH)

    assert await run_lines(place, ["/do"], [touch("one"), "done"]) == ["touch one"]


async def test_a_command_that_the_model_calls_grants_nothing(place: Place) -> None:
    plugin = plugin_in(place, TOUCH)
    replies: list[ScriptedReply] = [
        call_reply(("ExecuteCommand", {"command": "tools:do"})),
        touch("one"),
        "done",
    ]

    asked = await run_lines(place, ["go"], replies, plugin)

    assert asked == ["touch own", "touch one"]


async def test_a_rule_that_denies_comes_first(place: Place) -> None:
    plugin = plugin_in(place, TOUCH)
    (place.clew_home).mkdir(parents=True, exist_ok=True)
    settings = '{"permissions": {"deny": ["Bash(touch *)"]}}'
    (place.clew_home / "settings.json").write_text(settings, encoding="utf-8")

    await run_lines(place, ["/do"], [touch("one"), "done"], plugin)

    assert not (place.project / "own").exists()
    assert not (place.project / "one").exists()


async def test_files_are_read_and_written_in_the_project_only(place: Place) -> None:
    plugin = plugin_in(place, command("Write.", description="d", allowed_tools="Write, Read"))
    outside, secret = place.root / "outside.txt", place.root / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    replies: list[ScriptedReply] = [
        call_reply(("Write", {"file_path": str(path), "content": "x"}))
        for path in (place.project / "in.txt", outside, place.project / ".clew" / "settings.json")
    ]

    read = call_reply(("Read", {"file_path": str(secret)}))

    asked = await run_lines(place, ["/do"], [*replies, read, "done"], plugin)

    assert (place.project / "in.txt").exists()
    settings = place.project / ".clew" / "settings.json"
    assert asked == [str(outside), str(settings), str(secret)]


def test_entries_that_are_not_rules_grant_nothing(tmp_path: Path) -> None:
    skill = Skill(
        name="do",
        description="d",
        path=tmp_path / "do.md",
        source="user",
        allowed_tools=("*", "mcp__*", "Bash()", "Bash(git log:*)", "mcp__time"),
    )

    assert [str(one) for one in list_skill_rules(skill)] == ["Bash(git log:*)", "mcp__time"]


def test_rules_of_a_run_end_with_it_also_for_subagents(tmp_path: Path) -> None:
    gate = Gate(cwd=tmp_path)

    with gate.derive(cwd=tmp_path, ask=None, on_denied=None) as agent:
        with gate.allow_during([parse_rule("Bash(make *)")]):
            during = [str(one) for one in agent.policy().allow[-1:]]
        after = agent.policy().allow

    assert during == ["Bash(make *)"]
    assert after == Gate(cwd=tmp_path).policy().allow


async def test_what_a_command_allows_is_shown_before_it_is_installed_and_when_it_grows(
    tmp_path: Path,
) -> None:
    (tmp_path / "project").mkdir()
    homes = Homes(user=tmp_path / "home", clew=tmp_path / "home" / ".clew")
    plugins = Plugins(tmp_path / "project", {}, homes=homes)
    own = command("Go", description="d", allowed_tools="Bash(${CLAUDE_PLUGIN_ROOT}/go.sh)")
    files = {"commands/do.md": TOUCH, "commands/own.md": own}
    source = write_plugin(tmp_path / "tools", {"name": "tools"}, files)

    async with plugins.prepare_install(str(source)) as prepared:
        shown = "\n".join(format_preparation(prepared))
        await prepared.accept()
    write_plugin(source, None, {"commands/do.md": f"{TOUCH} Now."})
    async with plugins.prepare_update(plugins.installed.get("tools")) as other_text:
        assert other_text.change is not None
        assert not other_text.change.must_ask
    write_plugin(source, None, {"commands/do.md": TOUCH.replace("touch *", "rm *")})
    async with plugins.prepare_update(plugins.installed.get("tools")) as update:
        change = update.change

    assert "these do not ask:\n    /tools:do: Bash(touch *)\n" in shown
    assert "/tools:own: Bash(${CLAUDE_PLUGIN_ROOT}/go.sh)" in shown
    assert change is not None
    assert change.must_ask
    assert "without asking, while you run it: /tools:do: Bash(rm *)" in change.added
