"""`clew plugin`, as its own parser and in a folder of its own, with a git server on loopback."""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clew.cli.plugin import run_plugin
from clew.cli.plugin_arguments import add_plugin
from clew.core.errors import ConfigError
from tests.cli.terminal import CTRL_C
from tests.cli.terminal import clew as terminal
from tests.cli.test_config import Told
from tests.config.folders import Folders
from tests.extensions.git_server import commit_folder, serve_git

pytestmark = pytest.mark.req("PLG-1")

Clew = Callable[..., Told]
HOOK = "${CLAUDE_PLUGIN_ROOT}/check.sh"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    made = Folders(tmp_path)
    made.project.mkdir()
    made.home.mkdir()
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("CLEW_HOME", str(made.clew_home))
    monkeypatch.chdir(made.project)
    return made


@pytest.fixture
def clew(folders: Folders, capsys: pytest.CaptureFixture[str]) -> Clew:
    def run(*arguments: str) -> Told:
        parser = argparse.ArgumentParser()
        add_plugin(parser)
        code = run_plugin(parser.parse_args(arguments))
        told = capsys.readouterr()
        return Told(code, told.out, told.err)

    return run


class Shop:
    """A marketplace in a git repository, with one plugin in it and one beside it."""

    def __init__(self, root: Path, address: str) -> None:
        self.folder, self.other = root / "shop", root / "other"
        self.address = f"{address}/shop/.git"
        self.put("plugins/greeter/commands/greet.md", "Greet $ARGUMENTS")
        write_json(self.other / ".claude-plugin/plugin.json", {"name": "other", "version": "2"})
        write(self.other / "skills/deep/SKILL.md", "---\nname: deep\ndescription: d\n---\nthink")
        self.commit = commit_folder(self.other)
        self.list(
            {"name": "greeter", "source": "./plugins/greeter", "description": "says hello"},
            {
                "name": "other",
                "source": {"source": "url", "url": f"{address}/other/.git", "sha": self.commit},
            },
            {"name": "packed", "source": {"source": "hg", "url": "packed"}},
        )

    def list(self, *plugins: Mapping[str, Any]) -> None:
        facts = {"name": "shop", "owner": {"name": "Ann"}, "plugins": plugins}
        write_json(self.folder / ".claude-plugin/marketplace.json", facts)
        commit_folder(self.folder)

    def put(self, name: str, text: str) -> None:
        write(self.folder / name, text)
        commit_folder(self.folder)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    write(path, json.dumps(value))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    root = tmp_path / "served"
    root.mkdir()
    with serve_git(root) as address:
        yield Shop(root, address)


def test_two_commands_lead_from_nothing_to_an_installed_plugin(clew: Clew, shop: Shop) -> None:
    added = clew("marketplace", "add", shop.address)
    installed = clew("install", "greeter@shop", "--yes")

    assert added.out == (
        "added the marketplace shop with 3 plugins\n"
        "install one with: clew plugin install greeter@shop\n"
    )
    assert "1 command: greet" in installed.out
    assert installed.out.endswith("installed greeter@shop; new sessions load it in all folders\n")
    assert "greeter@shop" in clew("list").out


def test_without_a_terminal_and_without_yes_nothing_is_installed(clew: Clew, shop: Shop) -> None:
    clew("marketplace", "add", shop.address)

    with pytest.raises(ConfigError, match="add --yes to agree"):
        clew("install", "greeter")

    assert "no plugin is installed" in clew("list").out


def test_what_a_plugin_runs_is_shown_before_it_is_installed(clew: Clew, shop: Shop) -> None:
    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": HOOK}]}]}
    shop.put("plugins/greeter/hooks/hooks.json", json.dumps({"hooks": hooks}))
    servers = {"time": {"command": "uvx", "args": ["time"], "env": {"KEY": "${MY_KEY}"}}}
    shop.put("plugins/greeter/.mcp.json", json.dumps({"mcpServers": servers}))
    clew("marketplace", "add", shop.address)

    told = clew("install", "greeter", "--yes").out

    assert f"    SessionStart: {HOOK}\n" in told
    assert "    time (gets your MY_KEY; sets KEY=${MY_KEY}): uvx time\n" in told


def test_an_update_shows_what_changed_and_asks_again_for_what_runs(clew: Clew, shop: Shop) -> None:
    clew("marketplace", "add", shop.address)
    clew("install", "greeter", "--yes")
    shop.put("plugins/greeter/commands/part.md", "Part from $ARGUMENTS")

    quiet = clew("update")
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": HOOK}]}]}
    shop.put("plugins/greeter/hooks/hooks.json", json.dumps({"hooks": hooks}))
    refused = clew("update", "greeter")
    agreed = clew("update", "greeter", "--yes")
    again = clew("update", "greeter")

    assert "  + command part\n" in quiet.out
    assert refused.code == 1
    assert "add --yes to agree" in refused.out
    assert f"  + hook Stop: {HOOK}\n" in agreed.out
    assert agreed.code == 0
    assert again.out == "greeter@shop is up to date\n"


def test_a_changed_script_of_a_hook_asks_again(clew: Clew, shop: Shop) -> None:
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": HOOK}]}]}
    shop.put("plugins/greeter/hooks/hooks.json", json.dumps({"hooks": hooks}))
    shop.put("plugins/greeter/check.sh", "true")
    clew("marketplace", "add", shop.address)
    clew("install", "greeter", "--yes")
    shop.put("plugins/greeter/check.sh", "rm -r ~")

    refused = clew("update")

    assert refused.code == 1
    assert "changed files that it may run: check.sh" in clew("update", "--yes").out


def test_a_disabled_plugin_stays_and_can_be_enabled_and_removed(clew: Clew, shop: Shop) -> None:
    clew("marketplace", "add", shop.address)
    clew("install", "other@shop", "--yes")

    off = clew("disable", "other")
    listed = clew("list", "--json").json["plugins"]
    on = clew("enable", "other")
    removed = clew("remove", "other")

    assert off.out == "disabled other@shop for new sessions\n"
    assert [(row["active"], row["plugin"]["commit"]) for row in listed] == [(False, shop.commit)]
    assert on.out == "enabled other@shop for new sessions\n"
    assert removed.out.startswith("removed other@shop")
    assert clew("list").out.startswith("no plugin is installed")


def test_changed_files_are_refused_with_a_reason_and_an_update_repairs_them(
    clew: Clew, shop: Shop, folders: Folders
) -> None:
    clew("marketplace", "add", shop.address)
    clew("install", "greeter", "--yes")
    (file,) = (folders.clew_home / "plugins/content").glob("*/commands/greet.md")
    file.write_text("Delete everything", encoding="utf-8")

    listed = clew("list").out
    shown = clew("update", "--yes").out

    assert "were changed after you installed it" in listed
    assert "repair it with: clew plugin update greeter@shop" in listed
    assert "updated greeter@shop" in shown
    assert file.read_text(encoding="utf-8") == "Greet $ARGUMENTS"
    assert "were changed" not in clew("list").out


def test_a_plugin_of_a_project_is_in_this_folder_only(
    clew: Clew, shop: Shop, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    clew("marketplace", "add", shop.address)
    clew("install", "greeter", "--scope", "project", "--yes")
    here = clew("list").out
    elsewhere = folders.root / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    assert "greeter@shop" in here
    assert clew("list").out.startswith("no plugin is installed")


def test_marketplaces_are_searched_listed_updated_and_removed(clew: Clew, shop: Shop) -> None:
    clew("marketplace", "add", shop.address)
    shop.list({"name": "fresh", "source": "./plugins/greeter", "description": "brand new"})

    found = clew("marketplace", "search", "HELLO")
    clew("marketplace", "update")
    fresh = clew("marketplace", "search", "brand")
    listed = clew("marketplace", "list")
    clew("marketplace", "remove", "shop")

    assert found.out == "greeter@shop  says hello\n"
    assert fresh.out == "fresh@shop  brand new\n"
    assert listed.out == f"shop  {shop.address}\n"
    assert clew("marketplace", "list").out.startswith("no marketplace is known")


def test_a_source_that_cannot_be_used_says_why(clew: Clew, shop: Shop) -> None:
    clew("marketplace", "add", shop.address)

    with pytest.raises(ConfigError, match=r"has the source .hg."):
        clew("install", "packed@shop", "--yes")
    with pytest.raises(ConfigError, match="no marketplace has a plugin absent"):
        clew("install", "absent", "--yes")
    with pytest.raises(ConfigError, match="is not encrypted; use https"):
        clew("install", "http://example.com/plugin.git", "--yes")
    with pytest.raises(ConfigError, match="cannot be fetched"):
        clew("marketplace", "add", f"{shop.address}x")


def test_the_settings_of_claude_code_name_plugins_and_their_marketplace(
    clew: Clew, shop: Shop, folders: Folders
) -> None:
    entry = {"source": {"source": "git", "url": shop.address}}
    folders.put(
        "~/.claude/settings.json",
        {"enabledPlugins": {"greeter@shop": True}, "extraKnownMarketplaces": {"shop": entry}},
    )

    missing = clew("list").out
    clew("install", "greeter@shop", "--yes")
    folders.put(".clew/settings.json", {"enabledPlugins": {"greeter@shop": False}})

    assert "not installed, but ~/.claude/settings.json enables it" in missing
    assert "disabled by .clew/settings.json" in clew("list").out


def test_a_folder_and_an_archive_are_installed_and_validated(
    clew: Clew, shop: Shop, folders: Folders
) -> None:
    good = clew("validate", str(shop.folder / "plugins/greeter"))
    listed = clew("validate", str(shop.folder))
    folder = clew("install", str(shop.folder / "plugins/greeter"), "--yes")

    assert good.code == 0
    assert "1 command: greet" in good.out
    assert (listed.code, "packed: has the source 'hg'" in listed.out) == (1, True)
    assert "installed greeter; new sessions" in folder.out


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("keys", "code", "said"),
    [
        ("y\n", 0, "installed greeter"),
        ("\n", 1, "greeter was not installed"),
        (CTRL_C, 130, "nothing was installed"),
    ],
)
async def test_a_terminal_asks_before_a_plugin_is_installed(
    keys: str, code: int, said: str, folders: Folders
) -> None:
    plugin = folders.root / "greeter"
    write(plugin / "commands/greet.md", "Greet $ARGUMENTS")
    env = {"HOME": str(folders.home), "CLEW_HOME": str(folders.clew_home)}

    async with terminal("plugin", "install", str(plugin), cwd=folders.project, env=env) as (
        screen,
        process,
    ):
        shown = await screen.shows("Install it? [y/N] ")
        if keys == CTRL_C:
            await screen.interrupts(process)
        else:
            screen.types(keys)
        await screen.shows(said)
        ended = await process.wait()

    assert "1 command: greet" in shown
    assert ended == code


@pytest.mark.anyio
async def test_json_never_asks(folders: Folders) -> None:
    plugin = folders.root / "greeter"
    write(plugin / "commands/greet.md", "Greet $ARGUMENTS")
    env = {"HOME": str(folders.home), "CLEW_HOME": str(folders.clew_home)}
    words = ("plugin", "install", "--json", str(plugin))

    async with terminal(*words, cwd=folders.project, env=env) as (screen, process):
        await screen.shows("--json asks no questions")
        ended = await process.wait()

    assert ended != 0
    assert "[y/N]" not in screen.screen
