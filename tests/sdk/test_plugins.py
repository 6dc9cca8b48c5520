"""Plugins in a session: their commands, agents, hooks and servers, under unambiguous names."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from clew.core.permissions import Access, Approval, Decision, PermissionAnswer
from clew.providers.protocol import Request
from clew.providers.scripted import call_reply
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
    assert "t is the name of another plugin" in said


NAMES = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
PARTS = st.sampled_from(
    ["skills/{}/SKILL.md", "commands/{}.md", "agents/{}.md", "hooks/hooks.json", ".mcp.json"]
)


@settings_of_hypothesis(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(PARTS, NAMES), max_size=6))
async def test_a_plugin_that_is_not_loaded_leaves_the_request_byte_for_byte_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, str]]
) -> None:
    place = Place(tmp_path_factory.mktemp("place"))
    files = {
        part.format(name): command("x", description=name) if part.endswith(".md") else "{}"
        for part, name in parts
    }
    root = plugin_in(place, files)

    requests = []
    for folders in ([], [root], []):
        async with place.session(["ok"], plugin_folders=folders, agents=True) as session:
            await session.run("hi")
        requests.append(place.provider.requests[0])

    before, meanwhile, after = requests
    assert (before.system, before.tools) == (after.system, after.tools)
    shown = any(name.endswith(".md") for name in files)
    assert ((meanwhile.system, meanwhile.tools) != (before.system, before.tools)) is shown
