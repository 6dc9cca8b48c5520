"""Where commands come from, what they are called, and who gets a name that two want."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError, ProviderBusy
from clew.extensions.agent_discovery import discover_agents
from clew.extensions.commands.protocol import (
    AGENT_RUNTIME,
    Command,
    CommandHost,
    CommandModule,
    CommandResult,
    CommandSource,
    Descriptor,
)
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.commands.sources import (
    BuiltinCommandSource,
    PluginCommand,
    PluginCommandSource,
    SkillCommandSource,
)
from clew.extensions.skills import Skill
from tests.extensions.hosting import hosting

pytestmark = pytest.mark.anyio


class Listed:
    """A source of commands that were given to it."""

    def __init__(self, name: str, *names: str) -> None:
        self.name = name
        self._commands = tuple(
            Command(name=one, description=f"{one} of {name}", source=name, skill=skill(one))
            for one in names
        )

    def commands(self) -> Sequence[Command]:
        return self._commands


class Echo:
    """A system command that says its name, or raises."""

    def __init__(self, name: str, *, fails: Exception | None = None) -> None:
        self.command = Command(name=name, description=f"say {name}", model_invocable=True)
        self._fails = fails

    async def execute(self, host: CommandHost, arguments: str) -> CommandResult:
        if self._fails is not None:
            raise self._fails
        return CommandResult(f"{self.command.name} {arguments}".strip())


def skill(name: str, *, model: bool = True, user: bool = True) -> Skill:
    return Skill(
        name=name,
        description=f"does {name}",
        path=Path("SKILL.md"),
        source="plugin",
        model_invocable=model,
        user_invocable=user,
    )


def made(*sources: CommandSource) -> CommandRegistry:
    registry = CommandRegistry()
    for source in sources:
        registry.add_source(source)
    return registry


def write_skill(folder: Path, name: str, *, text: str = "", more: str = "") -> None:
    place = folder / ".claude" / "skills" / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {text}\n{more}---\nDo it.\n")


def skills_in(folder: Path) -> SkillCommandSource:
    return SkillCommandSource(folder, user_home=folder / "home", clew_home=folder / "clew")


@pytest.mark.req("CMD-1")
def test_each_command_says_what_it_is_and_what_it_may_do() -> None:
    for command in made(BuiltinCommandSource()).get_commands():
        assert command.description
        assert command.source == "builtin"
        assert command.user_invocable
        assert command.safety in ("read-only", "changes-session", "changes-files")
        for sub in command.subcommands:
            assert sub.description
            assert sub.model_invocable <= command.model_invocable


@pytest.mark.req("CMD-1")
def test_subcommands_form_trees() -> None:
    registry = made(BuiltinCommandSource())

    assert [sub.name for sub in registry.get_subcommands("mode")] == [
        "plan",
        "default",
        "acceptEdits",
        "bypassPermissions",
    ]
    assert "restore" in [sub.name for sub in registry.get_subcommands("rewind")]
    assert registry.get_subcommands("rewind restore") == []
    assert registry.get_subcommands("nonsense") == []


@given(
    names=st.lists(st.text("abc:-", min_size=1, max_size=6), max_size=12, unique=True),
    prefix=st.text("abc:-", max_size=3),
)
@pytest.mark.req("CMD-1")
def test_the_prefix_filter_is_the_naive_one(names: list[str], prefix: str) -> None:
    registry = made(BuiltinCommandSource(), Listed("skill", *names))
    everything = registry.get_commands()

    assert registry.get_commands(prefix) == [c for c in everything if c.name.startswith(prefix)]
    assert len({command.name for command in everything}) == len(everything)
    assert all(registry.find(command.name) == command for command in everything)


@pytest.mark.req("CMD-1")
async def test_a_built_in_wins_over_a_skill_which_stays_reachable(tmp_path: Path) -> None:
    registry = made(Listed("skill", "clear", "review"), BuiltinCommandSource())
    async with hosting(tmp_path, "hello", registry=registry) as host:
        await host.session.run("hi")

        assert "is cleared" in (await host.run("/clear")).message
        assert host.session.get_history() == []
        shadowed = await host.run("/skill:clear now")

        assert shadowed.data == {"skill": "clear", "fork": False}
        assert host.skills_run == [("clear", "now")]
        assert [c.name for c in registry.get_commands("skill:")] == ["skill:clear"]
        assert registry.resolve_qualified_name("clear") == "skill:clear"
        assert registry.find("skill:review") == registry.find("review")
        assert registry.find("builtin:clear") == registry.find("clear")
        assert registry.find("CLEAR") == registry.find("clear")


@pytest.mark.req("CMD-1")
def test_of_equals_the_first_one_wins() -> None:
    registry = made(Listed("one", "go"), Listed("two", "go"), Listed("two", "go"))

    assert [command.name for command in registry.get_commands()] == ["go", "two:go"]
    found = registry.find("go")
    assert found is not None
    assert found.source == "one"


@pytest.mark.req("CMD-1")
def test_nobody_can_take_the_qualified_name_of_a_built_in() -> None:
    registry = made(Listed("builtin", "clear"), Listed("x", "builtin:mode"), BuiltinCommandSource())

    for name in ("builtin:clear", "builtin:mode"):
        command = registry.find(name)
        assert command is not None
        assert command.skill is None


@pytest.mark.req("CMD-1")
async def test_plugin_commands_have_their_plugins_name_and_are_found_by_the_short_one(
    tmp_path: Path,
) -> None:
    brought = [
        PluginCommand(plugin="my-plugin", skill=skill("audit")),
        PluginCommand(plugin="my-plugin", skill=skill("my-plugin:lint")),
        PluginCommand(plugin="my-plugin", skill=skill("clear")),
        PluginCommand(plugin="other", skill=skill("lint")),
    ]
    registry = made(BuiltinCommandSource(), PluginCommandSource(brought))
    async with hosting(tmp_path, registry=registry) as host:
        names = [command.name for command in registry.get_commands("my-plugin:")]

        assert names == ["my-plugin:audit", "my-plugin:lint", "my-plugin:clear"]
        assert registry.resolve_qualified_name("audit") == "my-plugin:audit"
        assert registry.resolve_qualified_name("lint") is None
        assert registry.resolve_qualified_name("nonsense") is None
        assert (await host.run("/audit all")).success
        assert host.skills_run == [("audit", "all")]
        assert registry.find("lint") is None
        clear = registry.find("clear")
        assert clear is not None
        assert clear.source == "builtin"


@pytest.mark.req("CMD-1", "SKL-1", "PCX-3")
def test_skills_are_looked_for_when_first_asked_and_again_after_a_refresh(tmp_path: Path) -> None:
    source = skills_in(tmp_path)
    registry = made(BuiltinCommandSource(), source)
    write_skill(tmp_path, "review", text="look over a change", more="argument-hint: '[files]'\n")

    found = registry.find("review")
    write_skill(tmp_path, "deploy", text="ship it")

    assert found is not None
    assert (found.description, found.argument_hint) == ("look over a change", "[files]")
    assert found.source == "skill"
    assert registry.find("deploy") is None
    source.refresh()
    assert registry.find("deploy") is not None
    assert [one.name for one in source.find_skills().skills] == ["deploy", "review"]


@pytest.mark.req("CMD-1", "SKL-1")
async def test_who_may_not_invoke_a_command_is_told_so(tmp_path: Path) -> None:
    brought = [
        PluginCommand(plugin="p", skill=skill("hidden", user=False)),
        PluginCommand(plugin="p", skill=skill("manual", model=False)),
    ]
    registry = made(BuiltinCommandSource(), PluginCommandSource(brought))
    async with hosting(tmp_path, registry=registry) as host:
        for name, by in (("hidden", "user"), ("manual", "model"), ("clear", "model")):
            result = await registry.execute(host, name, "", by=by)  # type: ignore[arg-type]
            assert result is not None
            assert not result.success
            assert "is only for the" in result.message
        assert host.skills_run == []
        assert (await host.run("/manual")).success
        overview = await host.run("/help")
        assert "/p:manual" in overview.message
        assert "hidden" not in overview.message
        assert [one.name for one in registry.skill_descriptors()] == ["p:hidden"]


@pytest.mark.req("CMD-1")
async def test_a_module_brings_commands_sources_and_requirements(tmp_path: Path) -> None:
    registry = made(BuiltinCommandSource())
    registry.add_module(
        CommandModule(
            name="extra",
            sources=(Listed("lists", "listed"),),
            system_commands=(Echo("greet"), Echo("clear")),
            descriptors=(Descriptor(name="greet", description="greets"),),
            requirements=frozenset({AGENT_RUNTIME}),
        )
    )
    async with hosting(tmp_path, registry=registry) as host:
        assert registry.requirements == {AGENT_RUNTIME}
        assert (await host.run("/greet you")).message == "greet you"
        assert (await host.run("/extra:clear")).message == "clear"
        assert (await host.run("/clear")).message != "clear"
        assert registry.find("listed") is not None
        told = {one.name: one.description for one in registry.descriptors()}
        assert told["greet"] == "greets"
        assert told["extra:clear"] == "say clear"
        assert await registry.execute(host, "nonsense", "") is None


@pytest.mark.req("CMD-1")
def test_a_module_that_asks_for_the_impossible_is_refused() -> None:
    registry = CommandRegistry()

    with pytest.raises(ConfigError, match="agent-runtime"):
        registry.add_module(CommandModule(name="x", requirements=frozenset({"wings"})))
    with pytest.raises(ConfigError, match="describes fly"):
        registry.add_module(
            CommandModule(name="x", descriptors=(Descriptor(name="fly", description="flies"),))
        )
    assert registry.get_commands() == []
    assert registry.requirements == frozenset()


@pytest.mark.req("CMD-1")
async def test_a_crowd_of_commands_is_listed_in_part(tmp_path: Path) -> None:
    registry = made(BuiltinCommandSource(), Listed("skill", *(f"s{n}" for n in range(1_000))))
    async with hosting(tmp_path, registry=registry) as host:
        overview = await host.run("/help")
        some = await host.run("/help s9")
        few = await host.run("/help S98")

        assert len(overview.message.splitlines()) == 101
        hidden = 900 + len(BuiltinCommandSource().commands())
        assert f"{hidden} more: /help PREFIX" in overview.message
        assert some.message.startswith("/s9\n")
        assert few.message.startswith("/s98\n")


@pytest.mark.req("CMD-1")
async def test_errors_of_any_command_become_results(tmp_path: Path) -> None:
    registry = CommandRegistry()
    registry.add_module(
        CommandModule(
            name="bad",
            system_commands=(
                Echo("busy", fails=ProviderBusy("come back later", provider="p")),
                Echo("disk", fails=PermissionError(13, "Permission denied", "notes.txt")),
            ),
        )
    )
    listed = Command(name="empty", description="has no code", source="x")
    registry.add_source(_Bare(listed))
    async with hosting(tmp_path, registry=registry) as host:
        for name, says in {
            "busy": "come back later",
            "disk": "/disk failed: Permission denied: notes.txt",
            "empty": "has no code",
        }.items():
            result = await host.run(f"/{name}")
            assert not result.success
            assert says in result.message


@pytest.mark.req("CMD-2", "AGT-1")
async def test_agents_are_listed_and_run(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        home = tmp_path / "home"
        host.agents = discover_agents(tmp_path, user_home=home, clew_home=home).agents

        listed = await host.run("/agent")
        done = await host.run("/agent run Explore look at the parser")
        nobody = await host.run("/agent run --type nobody go")
        silent = await host.run("/agent run Explore")

        assert "Explore" in listed.message
        assert done.message == "Explore did: look at the parser"
        assert done.data == {"agent": "Explore", "agent_id": "agent-1"}
        assert "there is no agent 'nobody'" in nobody.message
        assert "Explore" in nobody.message
        assert "the task is missing" in silent.message
        assert not nobody.success
        assert not silent.success


class _Bare:
    name = "x"

    def __init__(self, *commands: Command) -> None:
        self._commands = commands

    def commands(self) -> Sequence[Command]:
        return self._commands
