"""A plugin is read as Claude Code reads it, whatever it contains, and nothing of it runs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.extensions.plugins.contribution import Plugin
from clew.extensions.plugins.manifest import PluginError, merge_manifests, parse_manifest
from clew.extensions.plugins.reader import read_plugin
from tests.extensions.plugin_files import command, hook, write_plugin

pytestmark = pytest.mark.req("PLG-1")

SERVER = {"command": "node", "args": ["${CLAUDE_PLUGIN_ROOT}/server.js"]}
EVERYTHING: dict[str, Any] = {
    "skills/audit/SKILL.md": command("Audit it.", description="audits"),
    "skills/audit/checks.md": "A file that comes with the skill.",
    "commands/build.md": command("Build $ARGUMENTS", description="builds"),
    "commands/db/migrate.md": "Migrate.",
    "agents/critic.md": command("See ${CLAUDE_PLUGIN_ROOT}/rules.", description="criticises"),
    "hooks/hooks.json": hook("echo hi"),
    ".mcp.json": {"mcpServers": {"files": SERVER}},
}


def names(plugin: Plugin) -> dict[str, list[str]]:
    parts = plugin.contribution
    return {
        "skills": [one.name for one in parts.skills],
        "commands": [one.name for one in parts.commands],
        "agents": [one.name for one in parts.agents],
        "hooks": [one.handler.brief for one in parts.hooks.hooks],
        "servers": [one.name for one in parts.servers],
    }


def problems(plugin: Plugin) -> list[str]:
    return [f"{one.kind}: {one}" for one in plugin.contribution.warnings]


def test_the_default_folders_are_found(tmp_path: Path) -> None:
    plugin = read_plugin(write_plugin(tmp_path, {"name": "tools"}, EVERYTHING))

    assert names(plugin) == {
        "skills": ["tools:audit"],
        "commands": ["tools:build", "tools:db:migrate"],
        "agents": ["tools:critic"],
        "hooks": ["echo hi"],
        "servers": ["plugin:tools:files"],
    }
    assert problems(plugin) == []
    assert plugin.contribution.agents[0].system_prompt == f"See {tmp_path.resolve()}/rules."
    assert plugin.contribution.hooks.hooks[0].source.plugin_root == tmp_path.resolve()
    assert 10 < plugin.contribution.prompt_tokens < 100


def test_a_manifest_can_name_other_places(tmp_path: Path) -> None:
    manifest = {
        "name": "tools",
        "version": "1.2.3",
        "author": {"name": "Ada"},
        "commands": ["./extra", "./one.md"],
        "agents": "./people/critic.md",
        "skills": ["./more", "./lonely"],
        "hooks": ["./config/hooks.json", hook("inline")["hooks"]],
        "mcpServers": {"other": {"url": "https://example.com/mcp"}},
    }
    files = {
        **EVERYTHING,
        "extra/two.md": "Two.",
        "one.md": "One.",
        "people/critic.md": command("x", description="d"),
        "more/second/SKILL.md": command("x", description="d"),
        "lonely/SKILL.md": command("x", name="third", description="d"),
        "config/hooks.json": hook("from a file"),
    }

    plugin = read_plugin(write_plugin(tmp_path, manifest, files))

    assert names(plugin) == {
        "skills": ["tools:audit", "tools:second", "tools:third"],
        "commands": ["tools:two", "tools:one"],
        "agents": ["tools:critic"],
        "hooks": ["echo hi", "from a file", "inline"],
        "servers": ["plugin:tools:files", "plugin:tools:other"],
    }
    assert (plugin.manifest.version, plugin.manifest.author.name) == ("1.2.3", "Ada")


def test_commands_can_be_named_in_the_manifest(tmp_path: Path) -> None:
    manifest = {
        "name": "tools",
        "commands": {"about": {"source": "./README.md", "description": "what it is"}},
    }

    plugin = read_plugin(write_plugin(tmp_path, manifest, {"README.md": "Text."}))

    (about,) = plugin.contribution.commands
    assert (about.name, about.description) == ("tools:about", "what it is")


def test_a_folder_without_a_manifest_is_named_after_itself_or_by_the_caller(tmp_path: Path) -> None:
    root = write_plugin(tmp_path / "tools", None, {"SKILL.md": command("x", description="d")})

    assert names(read_plugin(root))["skills"] == ["tools:tools"]
    assert names(read_plugin(root, name="better"))["skills"] == ["better:better"]


def test_a_marketplace_completes_the_manifest(tmp_path: Path) -> None:
    entry = {"name": "tools", "description": "listed", "skills": ["./skills/a"], "source": "./x"}
    files = {f"skills/{one}/SKILL.md": command("x", description="d") for one in "ab"}
    root = write_plugin(tmp_path, None, files)
    listed = parse_manifest(entry, where="marketplace.json").manifest

    assert names(read_plugin(root, listed=listed))["skills"] == ["tools:a", "tools:b"]
    assert problems(read_plugin(root, listed=listed)) == []
    assert names(read_plugin(root, listed=listed, strict=False))["skills"] == ["tools:a"]

    write_plugin(root, {"name": "tools", "version": "2"})
    both = read_plugin(root, listed=listed).manifest
    assert (both.version, both.description) == ("2", "listed")


def test_two_descriptions_that_both_claim_to_be_complete_are_refused() -> None:
    own = parse_manifest({"name": "tools", "commands": "./a"}, where="plugin.json").manifest
    listed = parse_manifest({"name": "tools", "skills": "./b"}, where="marketplace.json").manifest

    with pytest.raises(PluginError) as caught:
        merge_manifests(own, listed, strict=False)

    assert caught.value.kind == "conflict"


def test_parts_that_clew_cannot_carry_out_are_named(tmp_path: Path) -> None:
    manifest = {"name": "tools", "lspServers": {"go": {"command": "gopls"}}, "keywords": 5}
    files = {"bin/run": "x", "hooks/hooks.json": {"hooks": {"NoSuchEvent": []}}}

    found = problems(read_plugin(write_plugin(tmp_path, manifest, files)))

    assert found == [
        "malformed: keywords must be a list of strings; it is ignored",
        "unsupported: hooks of plugin tools: unknown event NoSuchEvent; ignored",
        "unsupported: lspServers has no effect in Clew",
        "unsupported: bin has no effect in Clew",
    ]


def test_a_second_part_of_a_name_is_not_used(tmp_path: Path) -> None:
    files = {
        "skills/audit/SKILL.md": command("skill", description="d"),
        "commands/audit.md": "command",
        "agents/a.md": command("x", name="same", description="d"),
        "agents/b.md": command("y", name="same", description="d"),
    }

    plugin = read_plugin(write_plugin(tmp_path, {"name": "t"}, files))

    assert names(plugin)["skills"] == ["t:audit"]
    assert names(plugin)["commands"] == []
    assert problems(plugin) == [
        "duplicate: commands/audit.md has the name t:audit of skills/audit/SKILL.md;"
        " it is not used",
        "duplicate: agents/b.md has the name t:same of agents/a.md; it is not used",
    ]


@pytest.mark.parametrize(
    ("manifest", "kind"),
    [
        ("", "unreadable"),
        ("{", "malformed"),
        ("[]", "malformed"),
        ("[" * 5_000, "malformed"),
        ('{"a":' * 500 + "1" + "}" * 500, "malformed"),
        ("x" * 1_000_001, "unreadable"),
        ("\0", "unreadable"),
        ({}, "malformed"),
        ({"name": ""}, "malformed"),
        ({"name": 5}, "malformed"),
        ({"name": "two words"}, "malformed"),
        ({"name": "../up"}, "malformed"),
        ({"name": "\x1b[31mred"}, "malformed"),
        ({"name": "a" * 65}, "malformed"),
        ({"name": "skill"}, "malformed"),
        ({"name": "t", "commands": 5}, "malformed"),
        ({"name": "t", "commands": [["./a"]]}, "malformed"),
        ({"name": "t", "commands": {"a": {"content": "inline"}}}, "malformed"),
        ({"name": "t", "hooks": 5}, "malformed"),
        ({"name": "t", "mcpServers": [5]}, "malformed"),
        ({"name": "t", "agents": ["./a"] * 201}, "malformed"),
    ],
)
def test_a_manifest_that_cannot_be_meant_is_refused(
    tmp_path: Path, manifest: Any, kind: str
) -> None:
    write_plugin(tmp_path, manifest)

    with pytest.raises(PluginError) as caught:
        read_plugin(tmp_path)

    assert caught.value.kind == kind
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 600


@pytest.mark.parametrize("path", ["/etc", "../secret", "./a/../../secret", "~/x", "", "a\0b", "."])
@pytest.mark.parametrize("field", ["commands", "agents", "skills", "hooks", "mcpServers"])
def test_nothing_outside_the_folder_is_read(tmp_path: Path, field: str, path: str) -> None:
    for name in ("secret/SKILL.md", "secret.md", "secret"):
        if name != "secret":
            write_plugin(tmp_path, None, {name: command("SECRET", description="SECRET")})
    root = write_plugin(tmp_path / "plugin", {"name": "t", field: path})

    plugin = read_plugin(root)

    assert "SECRET" not in repr(plugin)
    if path != ".":
        assert [one.kind for one in plugin.contribution.warnings] == ["outside"]


def test_links_that_leave_the_folder_are_not_followed(tmp_path: Path) -> None:
    secret = command("SECRET", description="SECRET")
    files = {"x.md": secret, "s/a/SKILL.md": secret, "hooks.json": hook("SECRET")}
    outside = write_plugin(tmp_path / "outside", None, files)
    manifest = {"name": "t", "commands": ["./linked.md", "./folder"]}
    root = write_plugin(tmp_path / "plugin", manifest, {"hooks/x": "x", "agents/x": "x"})
    (root / "linked.md").symlink_to(outside / "x.md")
    (root / "folder").symlink_to(outside)
    (root / "skills").symlink_to(outside / "s")
    (root / "agents" / "x.md").symlink_to(outside / "x.md")
    (root / "hooks" / "hooks.json").symlink_to(outside / "hooks.json")
    (root / ".mcp.json").symlink_to(outside / "hooks.json")

    plugin = read_plugin(root)

    assert plugin.contribution.is_empty
    assert {one.kind for one in plugin.contribution.warnings} == {"outside"}
    assert len(plugin.contribution.warnings) == 6
    assert "SECRET" not in repr(plugin)


def test_a_manifest_that_is_a_link_out_is_refused(tmp_path: Path) -> None:
    outside = write_plugin(tmp_path / "outside", {"name": "other"})
    root = write_plugin(tmp_path / "plugin", None, {"commands/a.md": "a"})
    (root / ".claude-plugin").symlink_to(outside / ".claude-plugin")

    with pytest.raises(PluginError, match="leads out of"):
        read_plugin(root)


def test_circles_of_links_and_pipes_end(tmp_path: Path) -> None:
    root = write_plugin(tmp_path, {"name": "t", "skills": "./loop"}, {"commands/a.md": "a"})
    (root / "commands" / "again").symlink_to(root / "commands")
    (root / "commands" / "self.md").symlink_to(root / "commands" / "self.md")
    (root / "loop").symlink_to(root / "loop")
    (root / "agents").mkdir()
    os.mkfifo(root / "agents" / "pipe.md")
    os.mkfifo(root / ".mcp.json")

    plugin = read_plugin(root)

    assert names(plugin)["commands"] == ["t:a"]
    assert len(plugin.contribution.warnings) == 4


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "not valid JSON"),
        ({"mcpServers": []}, "must be an object"),
        ({"x": 5}, "malformed"),
        ({"x": {}}, "neither a command nor a url"),
        ({"x": {"command": 5}}, "malformed"),
        ({"x": {"type": "carrier-pigeon", "command": "c"}}, "unknown type"),
        ({"\x1b[2J": {"command": "c"}}, "invalid name"),
        ({"a b": {"command": "c"}}, "invalid name"),
        ({"x": {"command": "c", "args": [["nested"]]}}, "malformed"),
    ],
)
def test_a_server_that_cannot_be_started_is_left_out(
    tmp_path: Path, content: Any, why: str
) -> None:
    plugin = read_plugin(write_plugin(tmp_path, {"name": "t"}, {".mcp.json": content}))

    (problem,) = problems(plugin)
    assert why in problem
    assert problem.isprintable()
    assert plugin.contribution.servers == ()


def test_hooks_with_a_mistake_are_left_out(tmp_path: Path) -> None:
    bad = {"hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}}
    manifest = {"name": "t", "hooks": ["./good.json", {"Stop": 5}]}
    files = {"hooks/hooks.json": bad, "good.json": hook("fine")}

    plugin = read_plugin(write_plugin(tmp_path, manifest, files))

    assert names(plugin)["hooks"] == ["fine"]
    assert [one.kind for one in plugin.contribution.warnings] == ["malformed", "malformed"]


def test_a_folder_that_is_no_plugin_is_refused(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "missing"):
        with pytest.raises(PluginError) as caught:
            read_plugin(root, name="t")
        assert caught.value.kind == "missing"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("./commands"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
FIELDS = ["commands", "agents", "skills", "hooks", "mcpServers", "author", "repository", "version"]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), JSON, JSON)
def test_any_json_is_a_plugin_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any], hooks: Any, servers: Any
) -> None:
    root = tmp_path_factory.mktemp("plugin")
    files = {"commands/a.md": "a", "hooks/hooks.json": hooks, ".mcp.json": servers}
    write_plugin(root, {"name": "t", **fields}, {n: json.dumps(c) for n, c in files.items()})

    try:
        said = list(map(str, read_plugin(root).contribution.warnings))
    except PluginError as error:
        said = [str(error)]
    assert all(text.isprintable() for text in said)
