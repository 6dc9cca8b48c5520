"""Plugins in a session: their commands, agents, hooks and servers, under unambiguous names."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from clew.core.errors import ConfigError
from clew.core.permissions import Access, Approval, Decision, PermissionAnswer
from clew.extensions.plugins.content import compute_hash
from clew.extensions.plugins.registry import InstalledPlugin, PluginRegistry, put_plugin
from clew.extensions.plugins.sources import PathSource
from clew.extensions.plugins.storage import PluginStorage
from clew.hooks.protocol import HookEvent, HookInput
from clew.providers.protocol import Request
from clew.providers.scripted import call_reply
from clew.sdk.mcp_admin import McpServers
from clew.sdk.worker_hooks import load_worker_hooks
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from tests.extensions.plugin_files import command, hook, write_plugin
from tests.sdk.places import Heard, Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("PLG-1")]

SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "plain_server.py"
ENVIRON = {"PATH": os.environ["PATH"]}
NO_SANDBOX = Sandbox(SandboxPolicy(mode=SandboxMode.OFF))


def plugin_in(place: Place, files: Mapping[str, Any], name: str = "tools") -> Path:
    return write_plugin(place.root / "plugins" / name, {"name": name}, files)


class Person:
    """Answers questions, and remembers them."""

    def __init__(self, approval: Approval) -> None:
        self.answer = PermissionAnswer(approval=approval)
        self.asked: list[str] = []

    async def __call__(self, access: Access, question: Decision) -> PermissionAnswer:
        self.asked.append(access.target)
        return self.answer


def sent(request: Request) -> str:
    return str(request.messages)


@pytest.mark.req("CMD-1")
async def test_the_model_reads_of_skills_commands_and_agents_under_qualified_names(
    place: Place,
) -> None:
    root = plugin_in(
        place,
        {
            "skills/audit/SKILL.md": command("Audit.", description="audits things"),
            "commands/build.md": command("Build.", description="builds things"),
            "agents/critic.md": command("Criticise.", description="criticises things"),
        },
    )

    async with place.session(["ok"], plugin_folders=[root], agents=True) as session:
        await session.run("hi")
        listed = {one.name for one in await session.commands()}

    system = place.provider.requests[0].system
    for line in ("tools:audit: audits things", "tools:build: builds", "tools:critic: criticises"):
        assert line in system
    assert {"tools:audit", "tools:build"} <= listed


@pytest.mark.req("CMD-1")
@pytest.mark.parametrize("line", ["/tools:build red wall", "/build red wall"])
async def test_a_command_is_called_by_its_qualified_or_its_short_name(
    place: Place, line: str
) -> None:
    body = "Build a $ARGUMENTS with ${CLAUDE_PLUGIN_ROOT}/trowel."
    root = plugin_in(place, {"commands/build.md": body})

    async with place.session(["ok"], plugin_folders=[root]) as session:
        await session.execute_command(*line[1:].split(" ", 1))

    expected = f"Build a red wall with {root.resolve()}/trowel."
    assert expected in sent(place.provider.requests[0])


@pytest.mark.req("CMD-1")
async def test_built_in_and_project_commands_come_before_those_of_plugins(place: Place) -> None:
    place.skill("review", "", "The project's own review.")
    bodies = {
        "commands/help.md": "The plugin's help.",
        "commands/review.md": "The plugin's review.",
        "commands/both.md": "both",
    }
    roots = [plugin_in(place, bodies), plugin_in(place, {"commands/both.md": "both"}, "more")]

    async with place.session(["1", "2", "3"], plugin_folders=roots) as session:
        said = [one for one in session.parts.warnings if "plugin" in one]
        for name in ("review", "tools:review", "tools:help"):
            await session.execute_command(name)
        built_in = await session.execute_command("help")
        assert await session.execute_command("both") is None

    assert built_in is not None
    assert "/compact" in built_in.message
    first, second, third = map(sent, place.provider.requests)
    assert "The project's own review." in first
    assert "The plugin's review." in second
    assert "The plugin's help." in third
    assert said == [
        "/both is not the plugin's: several plugins have that name; type /more:both",
        "/both is not the plugin's: several plugins have that name; type /tools:both",
        "/help is not the plugin's: it is a built-in command; type /tools:help",
        "1 more names that plugins share with others.",
    ]


async def test_an_agent_is_started_by_its_qualified_or_its_short_name(place: Place) -> None:
    files = {"agents/critic.md": command("You criticise.", description="criticises")}
    root = plugin_in(place, files)

    for name in ("tools:critic", "critic"):
        reply = call_reply(("Agent", {"subagent_type": name, "prompt": "look", "description": "d"}))
        async with place.session(
            [reply, "bad wall", "done"], plugin_folders=[root], agents=True
        ) as session:
            await session.run("go")
        assert place.provider.requests[1].system.startswith("You criticise."), name


async def test_an_agent_that_shares_its_short_name_keeps_its_qualified_name(place: Place) -> None:
    agent = command("x", description="d")
    place.write(".claude/agents/own.md", command("The project's.", name="own", description="d"))
    roots = [
        plugin_in(place, {"agents/own.md": agent, "agents/both.md": agent}, "a"),
        plugin_in(place, {"agents/both.md": agent}, "b"),
    ]

    async with place.session(["ok"], plugin_folders=roots, agents=True) as session:
        said = session.parts.warnings
        own = session.parts.agents.find_definition("own")
        with pytest.raises(ConfigError, match="there is no agent 'both'"):
            session.parts.agents.find_definition("both")

    assert own.system_prompt == "The project's."
    assert said == (
        "several plugins have an agent both; the name of this one is a:both",
        "the agent own is not the plugin's; its name is a:own",
        "several plugins have an agent both; the name of this one is b:both",
    )


async def test_hooks_run_with_the_folders_of_the_plugin_also_for_subagents(place: Place) -> None:
    line = 'printf "%s\\n" "$CLAUDE_PLUGIN_ROOT" "$CLAUDE_PLUGIN_DATA" >> "$CLAUDE_PROJECT_DIR/log"'
    files = {
        "hooks/hooks.json": hook(line, "PreToolUse"),
        "agents/a.md": command("A", description="d"),
    }
    root = plugin_in(place, files)
    place.write("file.txt", "x")
    read = call_reply(("Read", {"file_path": "file.txt"}))
    agent = call_reply(("Agent", {"subagent_type": "a", "prompt": "p", "description": "d"}))

    async with place.session(
        [agent, read, "told", "done"], plugin_folders=[root], agents=True, environ=ENVIRON
    ) as session:
        await session.run("go")

    data = place.clew_home / "plugins" / "data" / "tools"
    lines = (place.project / "log").read_text().splitlines()
    assert lines == [str(root.resolve()), str(data)] * 2


async def test_all_hooks_are_off_when_the_user_says_so(place: Place) -> None:
    root = plugin_in(place, {"hooks/hooks.json": hook("touch ran")})
    place.clew_home.mkdir()
    (place.clew_home / "settings.json").write_text('{"disableAllHooks": true}')

    async with place.session(["ok"], plugin_folders=[root], environ=ENVIRON) as session:
        await session.run("hi")

    assert not (place.project / "ran").exists()


async def test_servers_start_in_a_session_and_their_tools_have_the_plugins_name(
    place: Place,
) -> None:
    entry = {"command": sys.executable, "args": ["-S", "${CLAUDE_PLUGIN_ROOT}/server.py"]}
    files = {".mcp.json": {"plain": entry}, "server.py": SERVER.read_text("utf-8")}
    root = plugin_in(place, files)
    place.clew_home.mkdir()
    rules = '{"mcp": {"startupWait": 60000}, "permissions": {"allow": ["mcp__plugin_tools_plain"]}}'
    (place.clew_home / "settings.json").write_text(rules)
    call = call_reply(("mcp__plugin_tools_plain__echo", {"text": "hello"}))

    with anyio.fail_after(60):
        async with place.session([call, "done"], plugin_folders=[root], environ=ENVIRON) as session:
            result = await session.run("go")
            (status,) = session.parts.mcp.source.pool.list_status()  # type: ignore[union-attr]

    assert result.tool_summaries[0].tool_result_data == "hello"
    assert (status.name, status.origin) == ("plugin:tools:plain", "plugin tools")
    assert "${CLAUDE_PLUGIN_ROOT}/server.py" in status.target


@pytest.mark.req("SKL-1")
async def test_a_commands_output_stands_in_its_place_once_the_user_allows_it(place: Place) -> None:
    body = "Branch: !`printf 'm%s' ain > out; cat out`\nYou said $1: !`echo $1`"
    root = plugin_in(place, {"commands/look.md": body})
    person = Person(Approval.ONCE)

    async with place.session(
        ["ok"],
        plugin_folders=[root],
        environ=ENVIRON,
        permission_handler=person,
        sandbox=NO_SANDBOX,
    ) as session:
        await session.execute_command("look", "hi")

    assert person.asked[0] == "printf 'm%s' ain > out; cat out"
    assert "Branch: main" in sent(place.provider.requests[0])
    assert "You said hi: hi" in sent(place.provider.requests[0])


async def test_a_command_that_is_denied_does_not_run_and_says_so(place: Place) -> None:
    body = "Before !`touch ran` after.\n\n```sh\n!`touch ran`\n```\n\n```!\ntouch ran\n```\nEnd."
    root = plugin_in(place, {"commands/look.md": body})
    person, heard = Person(Approval.NO), Heard()

    session = place.session(
        ["ok"], plugin_folders=[root], environ=ENVIRON, permission_handler=person
    )
    async with session:
        session.on_any(heard)
        await session.execute_command("look")

    assert person.asked == ["touch ran", "touch ran"]
    assert not (place.project / "ran").exists()
    text = sent(place.provider.requests[0])
    assert text.count("Permission denied") == 2
    assert "```sh\\n!`touch ran`\\n```" in text
    assert heard.names.index("user_message") < heard.names.index("tool_start")


async def test_an_argument_never_becomes_a_command(place: Place) -> None:
    root = plugin_in(place, {"commands/say.md": "Say $ARGUMENTS now."})
    person = Person(Approval.ONCE)

    async with place.session(["ok"], plugin_folders=[root], permission_handler=person) as session:
        await session.execute_command("say", "!`touch ran`")

    assert person.asked == []
    assert "Say !`touch ran` now." in sent(place.provider.requests[0])


async def test_the_model_gets_the_output_too_when_it_calls_the_command(place: Place) -> None:
    root = plugin_in(place, {"commands/look.md": command("It is !`echo dark`.", description="d")})
    person = Person(Approval.ONCE)
    call = call_reply(("ExecuteCommand", {"command": "tools:look"}))

    async with place.session(
        [call, "done"], plugin_folders=[root], environ=ENVIRON, permission_handler=person
    ) as session:
        result = await session.run("go")

    assert "It is dark" in result.tool_summaries[0].tool_result_data


async def test_files_that_a_command_names_are_read_as_far_as_a_call_would_be(place: Place) -> None:
    place.write("notes.txt", "inside the project")
    secret = place.root / "secret.txt"
    secret.write_text("SECRET")
    root = plugin_in(place, {"commands/look.md": f"Read @notes.txt and @$1 and @{secret}"})
    place.write("typed.txt", "typed by the user")
    person = Person(Approval.NO)

    async with place.session(["ok"], plugin_folders=[root], permission_handler=person) as session:
        await session.execute_command("look", "typed.txt")

    text = sent(place.provider.requests[0])
    assert "inside the project" in text
    assert "typed by the user" in text
    assert "SECRET" not in text
    assert person.asked == [str(secret)]


async def test_a_plugin_that_cannot_be_loaded_does_not_stop_the_session(place: Place) -> None:
    broken = write_plugin(place.root / "plugins" / "broken", "{")
    twins = [plugin_in(place, {"commands/a.md": "a"}, "t")]
    twins.append(write_plugin(place.root / "plugins" / "u", {"name": "t"}, {"bin/x": "x"}))

    async with place.session(["ok"], plugin_folders=[broken, *twins]) as session:
        await session.run("hi")
        said = "\n".join(session.parts.warnings)

    assert "is not loaded: .claude-plugin/plugin.json is not valid JSON" in said
    assert "another plugin is called t too" in said


async def install(place: Place, root: Path, *, enabled: bool = True, market: str = "") -> None:
    """Install a plugin for the user, as `clew plugin install` does."""
    folder = place.clew_home / "plugins"
    storage, content = PluginStorage(folder), compute_hash(root)
    async with storage.stage() as staged:
        shutil.copytree(root, staged / "plugin")
        storage.keep(staged / "plugin", content=content, generated=())
    plugin = InstalledPlugin(
        name=root.name,
        marketplace=market,
        enabled=enabled,
        source=PathSource(path=str(root)),
        content=content,
    )
    PluginRegistry(folder).change(lambda before: put_plugin(before, plugin))


async def test_an_installed_plugin_is_loaded_until_its_files_change(place: Place) -> None:
    await install(place, plugin_in(place, {"commands/build.md": "Build."}))

    async with place.session(["ok"]) as session:
        assert "tools:build" in {one.name for one in await session.commands()}

    (content,) = (place.clew_home / "plugins" / "content").iterdir()
    (content / "commands" / "build.md").write_text("Something else.")
    async with place.session(["ok"]) as session:
        assert "tools:build" not in {one.name for one in await session.commands()}
        (said,) = session.parts.warnings
    assert "tools were changed after you installed it" in said


async def test_the_context_shows_what_plugins_take_in_every_request(place: Place) -> None:
    files = {"skills/audit/SKILL.md": command("x", description="audits " * 50)}
    root = plugin_in(place, files)

    async with place.session(["ok"], plugin_folders=[root]) as session:
        await session.run("hi")
        shown = await session.execute_command("context")
        state = session.get_context_state()

    assert shown is not None
    counts = {one["name"]: one["tokens"] for one in shown.data["categories"]}  # type: ignore[attr-defined]
    assert 40 < counts["plugins"] < counts["system"]
    assert counts["plugins"] + counts["system"] == state.breakdown.system
    assert "P plugins" in shown.message


async def test_servers_of_plugins_are_known_outside_a_session(place: Place) -> None:
    entry = {"command": "run", "args": ["${CLAUDE_PLUGIN_ROOT}/x"], "env": {"API_KEY": "sesame-42"}}
    await install(place, plugin_in(place, {".mcp.json": {"plain": entry}}))
    servers = McpServers(place.project, {"CLEW_HOME": str(place.clew_home)})

    found = servers.get("plugin:tools:plain")

    assert (found.origin, found.transport, found.problem) == ("plugin tools", "stdio", "")
    assert found.target == "run ${CLAUDE_PLUGIN_ROOT}/x"
    assert "sesame" not in repr(servers.list_servers())


async def test_hooks_of_plugins_run_in_a_worker_too(place: Place) -> None:
    files = {"hooks/hooks.json": hook("touch made", "WorktreeCreate")}
    await install(place, plugin_in(place, files))
    environ = {**ENVIRON, "CLEW_HOME": str(place.clew_home)}

    hooks = load_worker_hooks(place.project, environ)
    payload = HookInput(session_id="s", cwd=str(place.project), name="n", worktree_path="w")
    await hooks.fire(HookEvent.WORKTREE_CREATE, payload)

    assert (place.project / "made").exists()


async def test_a_damaged_registry_does_not_stop_a_session(place: Place) -> None:
    folder = place.clew_home / "plugins"
    folder.mkdir(parents=True)
    (folder / "registry.json").write_text("{")

    async with place.session(["ok"]) as session:
        (said,) = session.parts.warnings

    assert said.startswith("no plugin is loaded: ")


@pytest.mark.parametrize("accepted", [True, False])
async def test_a_project_enables_a_plugin_only_if_it_is_trusted(
    place: Place, *, accepted: bool
) -> None:
    root = plugin_in(place, {"commands/build.md": "Build.", "hooks/hooks.json": hook("touch ran")})
    await install(place, root, enabled=False, market="shop")
    place.write(".claude/settings.json", '{"enabledPlugins": {"tools@shop": true}}')

    async with place.session(["ok"], accepted=accepted, environ=ENVIRON) as session:
        await session.run("hi")
        said = "\n".join(session.parts.warnings)

    adds = ".claude/settings.json of this folder enables the plugin tools@shop: 1 command, 1 hook"
    assert (adds in said) is accepted
    assert (place.project / "ran").exists() is accepted


NAMES = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
PARTS = st.sampled_from(
    ["skills/{}/SKILL.md", "commands/{}.md", "agents/{}.md", "hooks/hooks.json", ".mcp.json"]
)
FOUND: Mapping[str, Any] = {
    "hooks/hooks.json": hook("touch ran"),
    ".mcp.json": {"s": {"command": "touch", "args": ["ran"]}},
}


@settings_of_hypothesis(max_examples=6)
@given(st.lists(st.tuples(PARTS, NAMES), min_size=1, max_size=5), st.booleans())
async def test_a_disabled_plugin_leaves_prompt_and_tools_byte_for_byte_as_they_were(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[tuple[str, str]],
    by_project: bool,  # noqa: FBT001 - hypothesis passes positions
) -> None:
    place = Place(tmp_path_factory.mktemp("place"))
    files = {
        part.format(name): FOUND.get(part) or command("x", description=name) for part, name in parts
    }
    root = plugin_in(place, files)

    async def ask() -> Request:
        async with place.session(["ok"], agents=True, environ=ENVIRON) as session:
            await session.run("hi")
            assert not session.parts.scan.plugins.plugins
        return place.provider.requests[0]

    before = await ask()
    if by_project:
        place.write(".clew/settings.json", '{"enabledPlugins": {"tools": false}}')
    await install(place, root, enabled=by_project)
    after = await ask()

    assert (before.system, before.tools) == (after.system, after.tools)
    assert not (place.project / "ran").exists()
