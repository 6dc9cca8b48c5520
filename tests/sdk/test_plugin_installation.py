"""Installing plugins: from every source, interrupted, at the same time, and in a session."""

import json
import sys
import tarfile
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from subprocess import PIPE

import anyio
import anyio.lowlevel
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from clew.core.errors import ConfigError
from clew.extensions.plugins.marketplace import MARKETPLACE_FILE
from clew.extensions.plugins.sources import PathSource
from clew.sdk.folders import Homes
from clew.sdk.plugin_dialog import PluginDialog
from clew.sdk.plugins import Plugins, PreparedPlugin
from tests.extensions.archive import ARCHIVE, unpack
from tests.extensions.git_server import commit_folder, serve_git
from tests.runtime.repositories import git

pytestmark = [pytest.mark.anyio, pytest.mark.req("PLG-1")]

HOOK = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo stop"}]}]}}


Dialog = Callable[..., Awaitable[str]]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def make_plugin(folder: Path, *, name: str = "", version: str = "1") -> Path:
    manifest = {"name": name or folder.name, "version": version}
    write(folder / ".claude-plugin" / "plugin.json", json.dumps(manifest))
    write(folder / "commands" / "greet.md", f"Greet, version {version}")
    return folder


@pytest.fixture
def plugins(tmp_path: Path) -> Plugins:
    (tmp_path / "project").mkdir()
    return Plugins(tmp_path / "project", {}, homes=homes(tmp_path))


def homes(root: Path) -> Homes:
    return Homes(user=root / "home", clew=root / "home" / ".clew")


async def install(plugins: Plugins, text: str | Path) -> PreparedPlugin:
    async with plugins.prepare_install(str(text)) as prepared:
        await prepared.accept()
    return prepared


def list_ids(plugins: Plugins) -> list[str]:
    return [row.plugin.id for row in plugins.installed.list() if row.active]


def list_staged(root: Path) -> list[Path]:
    return list((root / "home/.clew/plugins/staging").iterdir())


def make_zip(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.rglob("*"):
            archive.write(file, file.relative_to(folder.parent))
    return path


def make_tar(folder: Path) -> Path:
    path = folder.with_suffix(".tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, ".")
    return path


@pytest.mark.parametrize("make", [lambda folder: folder, make_zip, make_tar])
async def test_a_plugin_is_installed_from_a_folder_and_from_archives(
    make: Callable[[Path], Path], plugins: Plugins, tmp_path: Path
) -> None:
    source = make(make_plugin(tmp_path / "tool"))

    prepared = await install(plugins, source)

    assert prepared.summary.commands == ("greet",)
    assert list_ids(plugins) == ["tool"]
    assert list_staged(tmp_path) == []


@pytest.mark.parametrize("part", ["commands/go.md", "hooks/hooks.json"])
async def test_an_archive_without_a_manifest_and_a_top_folder_is_called_as_its_file(
    part: str, plugins: Plugins, tmp_path: Path
) -> None:
    write(tmp_path / "inside" / part, json.dumps(HOOK))

    await install(plugins, make_tar(tmp_path / "inside").rename(tmp_path / "my-tool.tar.gz"))

    assert list_ids(plugins) == ["my-tool"]


async def test_the_reason_against_an_archive_names_it(plugins: Plugins, tmp_path: Path) -> None:
    write(tmp_path / "inside" / "README.md", "nothing")
    archive = make_tar(tmp_path / "inside")

    with pytest.raises(ConfigError, match=f"^{archive} is not a plugin"):
        await install(plugins, archive)


async def test_a_marketplace_that_is_gone_does_not_disable_the_others(
    dialog: Dialog, tmp_path: Path
) -> None:
    for name in ("gone", "here"):
        make_plugin(tmp_path / name / f"of-{name}")
        content = {"name": name, "plugins": [{"name": f"of-{name}", "source": f"./of-{name}"}]}
        write(tmp_path / name / MARKETPLACE_FILE, json.dumps(content))
        await dialog("marketplace", "add", str(tmp_path / name))
    (tmp_path / "gone").rename(tmp_path / "elsewhere")

    installed = await dialog("install", "of-here")
    found = await dialog("marketplace", "search", "of")
    updated = await dialog("marketplace", "update")

    hint = "clew plugin marketplace remove gone"
    assert installed.startswith("of-here@here 1 adds:")
    assert (found.startswith("of-here@here"), hint in found) == (True, True)
    assert (updated.endswith("updated the marketplace here with 1 plugin"), hint in updated) == (
        True,
        True,
    )
    with pytest.raises(ConfigError, match=hint):
        await dialog("install", "of-gone")


async def test_a_plugin_that_is_not_accepted_leaves_nothing(
    plugins: Plugins, tmp_path: Path
) -> None:
    async with plugins.prepare_install(str(make_plugin(tmp_path / "tool"))) as prepared:
        assert prepared.must_ask

    left = sorted(one.name for one in (tmp_path / "home/.clew/plugins").iterdir())
    assert left == ["staging"]
    assert list_staged(tmp_path) == []


async def test_a_branch_a_tag_a_commit_and_a_folder_of_a_repository_are_found(
    plugins: Plugins, tmp_path: Path
) -> None:
    root = tmp_path / "served"
    first = commit_folder(make_plugin(root / "tool", version="1"))
    git(root / "tool", "tag", "v1")
    git(root / "tool", "checkout", "-q", "-b", "dev")
    make_plugin(root / "tool", version="2")
    second = commit_folder(root / "tool")
    git(root / "tool", "checkout", "-q", "main")

    with serve_git(root) as address:
        url = f"{address}/tool/.git"
        versions = [
            (await install(plugins, f"{url}{mark}")).version
            for mark in ("", "#dev", "#v1", f"#{second}", f"#{first}")
        ]
        with pytest.raises(ConfigError, match="Check the name of the branch or tag"):
            await install(plugins, f"{url}#absent")

    assert versions == ["1", "2", "1", "2", "1"]
    assert plugins.installed.get("tool").commit == first


async def test_files_of_a_repository_come_as_they_are_stored_and_run_nothing(
    plugins: Plugins, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    folder = make_plugin(tmp_path / "tool")
    write(folder / ".gitattributes", "*.md export-ignore filter=evil ident export-subst\n")
    write(folder / "commands" / "id.md", "$Id$ $Format:%H$\r\n")
    commit_folder(folder)
    git(folder, "config", "uploadpack.packObjectsHook", f"touch {mark}")
    git(folder, "config", "filter.evil.smudge", f"touch {mark}")

    await install(plugins, f"file://{folder}")

    (file,) = (tmp_path / "home/.clew/plugins/content").glob("*/commands/id.md")
    assert file.read_bytes() == b"$Id$ $Format:%H$\r\n"
    assert not mark.exists()


async def test_a_link_to_a_shared_folder_of_the_marketplace_is_resolved(
    plugins: Plugins, tmp_path: Path
) -> None:
    shop = tmp_path / "shop"
    write(shop / "shared" / "say.md", "Say it")
    make_plugin(shop / "plugins" / "tool")
    (shop / "plugins" / "tool" / "commands" / "say.md").symlink_to("../../../shared/say.md")
    entry = {"name": "tool", "source": "./plugins/tool"}
    write(
        shop / ".claude-plugin" / "marketplace.json",
        json.dumps({"name": "shop", "plugins": [entry]}),
    )
    commit_folder(shop)

    await plugins.add_marketplace(f"file://{shop}")

    assert (await install(plugins, "tool@shop")).summary.commands == ("greet", "say")


async def test_an_entry_of_a_marketplace_describes_a_plugin_without_a_manifest(
    plugins: Plugins, tmp_path: Path
) -> None:
    shop = tmp_path / "shop"
    write(shop / "things" / "say.md", "Say it")
    entry = {"name": "tool", "source": "./", "strict": False, "commands": ["./things/say.md"]}
    content = {"name": "shop", "plugins": [entry]}
    write(shop / ".claude-plugin" / "marketplace.json", json.dumps(content))

    await plugins.add_marketplace(str(shop))
    await install(plugins, "tool")

    assert plugins.installed.summarize(plugins.installed.get("tool")).commands == ("say",)


_CHILD = """
import sys, anyio
from pathlib import Path
from clew.sdk.folders import Homes
from clew.sdk.plugins import Plugins

async def main():
    root = Path(sys.argv[1])
    homes = Homes(user=root / "home", clew=root / "home" / ".clew")
    async with Plugins(root / "project", {}, homes=homes).prepare_install(sys.argv[2]):
        print("staged", flush=True)
        sys.stdin.read()

anyio.run(main)
"""


async def test_a_killed_installation_leaves_nothing_half_and_the_next_one_cleans_up(
    plugins: Plugins, tmp_path: Path
) -> None:
    source = str(make_plugin(tmp_path / "tool"))
    command = [sys.executable, "-c", _CHILD, str(tmp_path), source]
    with anyio.fail_after(60), anyio.CancelScope(shield=True):
        async with await anyio.open_process(command, stdin=PIPE, stdout=PIPE) as child:
            assert child.stdout is not None
            said = await BufferedByteReceiveStream(child.stdout).receive_until(b"\n", 100)
            assert said == b"staged"
            await install(plugins, make_plugin(tmp_path / "other"))
            alive = len(list_staged(tmp_path))
            child.kill()

    installed = list_ids(plugins)
    await install(plugins, source)

    assert alive == 1
    assert installed == ["other"]
    assert list_ids(plugins) == ["other", "tool"]
    assert list_staged(tmp_path) == []


async def test_a_cancelled_installation_leaves_nothing(plugins: Plugins, tmp_path: Path) -> None:
    source = str(make_plugin(tmp_path / "tool"))

    with anyio.CancelScope() as scope:
        async with plugins.prepare_install(source):
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    assert list_staged(tmp_path) == []
    assert list_ids(plugins) == []


async def test_installations_at_the_same_time_all_count(plugins: Plugins, tmp_path: Path) -> None:
    same = make_plugin(tmp_path / "same")
    sources = [make_plugin(tmp_path / f"tool{number}") for number in range(4)]

    async with anyio.create_task_group() as group:
        for source in (*sources, same, same, same):
            group.start_soon(install, plugins, source)

    assert list_ids(plugins) == ["same", "tool0", "tool1", "tool2", "tool3"]
    assert list_staged(tmp_path) == []


async def test_folders_that_its_programs_make_do_not_change_a_plugin(
    plugins: Plugins, tmp_path: Path
) -> None:
    await install(plugins, make_plugin(tmp_path / "tool"))
    (root,) = (tmp_path / "home/.clew/plugins/content").iterdir()

    made = write(root / "commands" / "__pycache__" / "x.pyc", "")
    before = list_ids(plugins)
    made.rename(root / "commands" / "more.md")

    assert before == ["tool"]
    assert list_ids(plugins) == []


async def test_a_damaged_registry_and_one_of_a_newer_version_say_what_to_do(
    plugins: Plugins, tmp_path: Path
) -> None:
    file = write(tmp_path / "home/.clew/plugins/registry.json", "{")

    with pytest.raises(ConfigError, match="is damaged"):
        plugins.installed.list()
    file.write_text('{"version": 2}', encoding="utf-8")
    with pytest.raises(ConfigError, match="newer version of Clew"):
        plugins.installed.list()


def test_a_registry_of_the_first_version_still_opens(plugins: Plugins, tmp_path: Path) -> None:
    stored = {
        "version": 1,
        "plugins": [
            {
                "name": "tool",
                "marketplace": "shop",
                "source": {"kind": "git", "url": "https://example.com/x.git", "folder": "a"},
                "content": "0" * 64,
            }
        ],
        "marketplaces": [{"name": "shop", "source": {"kind": "path", "path": "/srv/shop"}}],
    }
    write(tmp_path / "home/.clew/plugins/registry.json", json.dumps(stored))

    (row,) = plugins.installed.list()

    assert (row.plugin.id, row.plugin.scope, row.plugin.enabled) == ("tool@shop", "user", True)
    assert "are missing; repair it with: clew plugin update tool@shop" in row.problem


@pytest.fixture
def dialog(tmp_path: Path) -> Dialog:
    (tmp_path / "project").mkdir()
    made = PluginDialog(tmp_path / "project", homes(tmp_path), {})

    async def run(*words: str, agreed: bool = False) -> str:
        return (await made.run(words, agreed=agreed)).message

    return run


async def test_a_session_shows_a_plugin_first_and_installs_what_was_shown(
    dialog: Dialog, tmp_path: Path
) -> None:
    source = make_plugin(tmp_path / "tool")
    write(source / "hooks" / "hooks.json", json.dumps(HOOK))

    shown = await dialog("install", str(source))
    write(source / "commands" / "more.md", "More")
    changed = await dialog("install", str(source), agreed=True)
    installed = await dialog("install", str(source), agreed=True)

    assert "    Stop: echo stop\n" in shown
    assert shown.endswith(f"to agree, type: /plugin install --yes {source}")
    assert "2 commands: greet, more" in changed
    assert changed.endswith(f"to agree, type: /plugin install --yes {source}")
    assert installed.endswith("installed tool 1; new sessions load it in all folders")


async def test_a_session_has_every_action(dialog: Dialog, tmp_path: Path) -> None:
    source = make_plugin(tmp_path / "tool")
    content = {"name": "shop", "plugins": [{"name": "tool", "source": "./tool"}]}
    write(tmp_path / ".claude-plugin" / "marketplace.json", json.dumps(content))

    said = [
        await dialog("marketplace", "add", str(tmp_path)),
        await dialog("marketplace", "search", "tool"),
        await dialog("install", "tool@shop"),
        await dialog("install", "tool@shop", agreed=True),
        await dialog("list"),
        await dialog("show", "tool"),
        await dialog("disable", "tool"),
        await dialog("enable", "tool"),
        await dialog("update"),
        await dialog("remove", "tool"),
        await dialog("validate", str(source)),
        await dialog("marketplace", "list"),
        await dialog("marketplace", "update"),
        await dialog("marketplace", "remove", "shop"),
    ]

    assert [text.split("\n")[-1].split(" ")[0] for text in said] == [
        *("install", "tool@shop", "to", "installed", "tool@shop", "", "disabled", "enabled"),
        *("tool@shop", "removed", "", "shop", "updated", "removed"),
    ]


async def test_a_folder_that_is_both_and_one_that_only_an_entry_describes_are_validated(
    dialog: Dialog, tmp_path: Path
) -> None:
    both = make_plugin(tmp_path / "both")
    write(both / "plugins" / "some-lsp" / "README.md", "nothing else")
    entry = {"name": "some-lsp", "source": "./plugins/some-lsp", "strict": False}
    content = {"name": "shop", "plugins": [entry]}
    write(both / MARKETPLACE_FILE, json.dumps(content))

    said = await dialog("validate", str(both))

    assert said.startswith("the marketplace shop lists 1 plugin\nboth 1 is a plugin; it adds:\n")
    described = await dialog("validate", str(both / "plugins" / "some-lsp"))
    assert described.startswith("some-lsp is a plugin; it adds:\n")


async def test_a_name_that_people_trust_is_reserved_for_its_owner(
    plugins: Plugins, tmp_path: Path
) -> None:
    content = {"name": "claude-plugins-official", "plugins": []}
    write(tmp_path / "shop" / MARKETPLACE_FILE, json.dumps(content))
    commit_folder(tmp_path / "shop")
    source = {"source": {"source": "directory", "path": str(tmp_path / "shop")}}
    settings = {"extraKnownMarketplaces": {"claude-plugins-official": source}}
    write(tmp_path / "home/.clew/settings.json", json.dumps(settings))

    with pytest.raises(ConfigError, match=r"reserved for repositories of github\.com/anthropics"):
        await plugins.add_marketplace(f"file://{tmp_path / 'shop'}")
    with pytest.raises(ConfigError, match=r"reserved for repositories of github\.com/anthropics"):
        await install(plugins, "x@claude-plugins-official")


@pytest.mark.skipif(not ARCHIVE.exists(), reason="the archive of real plugins is not here")
async def test_real_marketplaces_are_added_searched_and_installed_from(
    plugins: Plugins, tmp_path: Path
) -> None:
    shops = [one.parents[1] for one in unpack(tmp_path / "real").rglob(MARKETPLACE_FILE)]
    for shop in sorted(shops):
        await plugins.add_marketplace(str(shop))

    offers = plugins.marketplaces.search([])
    local = [one.id for one in offers if isinstance(one.plugin.source, PathSource)]
    for offer in local:
        await install(plugins, offer)

    assert [one.name for one in plugins.marketplaces.list_known()] == [
        *("claude-plugins-official", "superpowers-dev", "superpowers-marketplace")
    ]
    assert [one.id for one in offers if one.plugin.problem] == []
    assert (len(offers), len(local)) == (297, 54)
    assert list_ids(plugins) == sorted(local)
    assert plugins.marketplaces.search(["hookify"])[0].id == "hookify@claude-plugins-official"


@pytest.mark.skipif(not ARCHIVE.exists(), reason="the archive of real plugins is not here")
async def test_a_real_marketplace_is_fetched_from_a_repository(
    plugins: Plugins, tmp_path: Path
) -> None:
    shop = next(unpack(tmp_path / "real").rglob("obra__superpowers"))
    commit = commit_folder(shop)

    await plugins.add_marketplace(f"file://{shop}")
    prepared = await install(plugins, "superpowers@superpowers-dev")

    assert len(prepared.summary.skills) == 14
    assert prepared.summary.runs_programs
    assert plugins.installed.get("superpowers").commit == commit
