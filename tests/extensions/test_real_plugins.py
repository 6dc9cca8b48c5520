"""Every marketplace and plugin of a real collection loads, or gives a reason that is theirs."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.extensions.plugins.contribution import Plugin
from clew.extensions.plugins.manifest import parse_manifest
from clew.extensions.plugins.marketplace import Marketplace, parse_marketplace
from clew.extensions.plugins.reader import read_plugin
from clew.extensions.plugins.sources import GitSource, PathSource
from tests.extensions.archive import ARCHIVE, unpack
from tests.sdk.places import Place

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("PLG-1"),
    pytest.mark.skipif(not ARCHIVE.is_file(), reason="the collection is not here"),
]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("archive"))


def marketplaces_in(folder: Path) -> Iterator[tuple[Path, Marketplace]]:
    for file in sorted(folder.rglob(".claude-plugin/marketplace.json")):
        yield file.parent.parent, parse_marketplace(file.read_bytes())


def plugins_in(folder: Path) -> Iterator[Plugin]:
    """Read the plugins that the marketplaces list and that are in the collection."""
    for root, marketplace in marketplaces_in(folder):
        for entry in marketplace.plugins:
            if isinstance(entry.source, PathSource):
                listed = parse_manifest(entry.manifest, where=marketplace.name).manifest
                place = root / entry.source.path
                yield read_plugin(place, name=entry.name, listed=listed, strict=entry.strict)


def test_every_marketplace_is_read_and_every_source_is_known(collection: Path) -> None:
    found = dict(marketplaces_in(collection))

    assert {one.name: len(one.plugins) for one in found.values()} == {
        "claude-plugins-official": 286,
        "superpowers-dev": 1,
        "superpowers-marketplace": 10,
    }
    for marketplace in found.values():
        assert marketplace.problems == ()
        for entry in marketplace.plugins:
            assert isinstance(entry.source, GitSource | PathSource), entry
            parse_manifest(entry.manifest, where=marketplace.name)


def test_every_plugin_loads_and_what_is_not_used_has_a_reason(collection: Path) -> None:
    plugins = list(plugins_in(collection))
    plugins += (
        read_plugin(one.parent.parent) for one in collection.rglob("*/.claude-plugin/plugin.json")
    )
    reasons: Counter[tuple[str, str]] = Counter()
    for plugin in plugins:
        reasons.update((one.kind, str(one)) for one in plugin.contribution.warnings)
    for (kind, text), count in sorted(reasons.items()):
        print(f"{count:>3} {kind:<12} {text}")  # noqa: T201 - to be seen with -s or on failure

    assert len(plugins) == 95
    assert {text for kind, text in reasons if kind == "duplicate"} == {
        "commands/example-command.md has the name example-plugin:example-command of"
        " skills/example-command/SKILL.md; it is not used",
    }
    assert {kind for kind, _ in reasons} == {"duplicate", "unsupported"}
    assert {text for kind, text in reasons if kind == "unsupported"} == {
        "lspServers has no effect in Clew",
        "workflows has no effect in Clew",
        "hooks of plugin claude-security: unknown event UserPromptExpansion; ignored",
    }
    totals = Counter[str]()
    for plugin in {plugin.name: plugin for plugin in reversed(plugins)}.values():
        parts = plugin.contribution
        totals += Counter(
            skills=len(parts.skills),
            commands=len(parts.commands),
            agents=len(parts.agents),
            hooks=len(parts.hooks.hooks),
            servers=len(parts.servers),
        )
    assert totals == Counter(skills=45, commands=29, agents=31, hooks=17, servers=15)


async def test_all_of_them_fit_into_one_session(collection: Path, place_of_all: Place) -> None:
    # Servers would need programs and hosts that are not here.
    roots = [
        one.root
        for one in plugins_in(collection)
        if not one.contribution.is_empty and not one.contribution.servers
    ]

    async with place_of_all.session(["ok"], plugin_folders=roots, agents=True) as session:
        names = {one.name for one in await session.commands()}
        warnings = session.parts.warnings
        system = session.session.journal.view.setup.system

    assert {"hookify:help", "commit-commands:commit", "superpowers:brainstorming"} <= names
    assert "commit" in system
    print("\n".join(warnings))  # noqa: T201 - to be seen with -s or on failure
    assert any("type /hookify:help" in one for one in warnings)
    assert any("several plugins have an agent code-simplifier" in one for one in warnings)
    assert len(warnings) == 4


@pytest.fixture
def place_of_all(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.clew_home.mkdir()
    (place.clew_home / "settings.json").write_text('{"disableAllHooks": true}')
    return place
