"""Where plugins come from: what people and files write, and marketplaces."""

import json
from typing import Any

import pytest

from clew.core.errors import ConfigError
from clew.extensions.plugins.marketplace import (
    Marketplace,
    locate_plugin,
    parse_marketplace,
    search,
)
from clew.extensions.plugins.sources import (
    ArchiveSource,
    GitSource,
    NpmSource,
    PathSource,
    UnsupportedSource,
    describe_source,
    parse_git_source,
    parse_source_object,
)
from tests.rows import each_row

pytestmark = pytest.mark.req("PLG-1")

GITHUB = "https://github.com/ann/tools.git"
SHA = "0123456789abcdef0123456789abcdef01234567"


@each_row(
    ("text", "source"),
    [
        ("ann/tools", GitSource(url=GITHUB)),
        ("ann/tools#dev", GitSource(url=GITHUB, ref="dev")),
        ("ann/tools@v1.2", GitSource(url=GITHUB, ref="v1.2")),
        (f"ann/tools#{SHA}", GitSource(url=GITHUB, commit=SHA)),
        ("https://example.com/x.git", GitSource(url="https://example.com/x.git")),
        ("git@example.com:ann/x.git", GitSource(url="git@example.com:ann/x.git")),
        ("ssh://git@example.com/x", GitSource(url="ssh://git@example.com/x")),
        ("file:///srv/x.git#main", GitSource(url="file:///srv/x.git", ref="main")),
        ("http://127.0.0.1:80/x", GitSource(url="http://127.0.0.1:80/x")),
        ("plain", None),
    ],
)
def test_a_repository_is_named_as_people_write_it(text: str, source: GitSource | None) -> None:
    assert parse_git_source(text) == source


@each_row(
    "text",
    [
        "http://example.com/x.git",
        "git://example.com/x.git",
        "ext::sh -c id",
        "file::ext://x",
        "https::ext://x",
        "file:x://y",
        "ext://sh",
        "ftp://example.com/x",
        "https://",
        "https://example.com/x y",
        "--upload-pack=id://x",
        "ann/tools#--upload-pack=id",
        "ann/tools#a..b",
        "https://[::1/x",
    ],
)
def test_an_address_that_could_run_or_leak_something_is_refused(text: str) -> None:
    try:
        found = parse_git_source(text)
    except ConfigError:
        return
    assert found is None


@pytest.mark.parametrize(
    ("entry", "source"),
    [
        ({"source": "github", "repo": "ann/tools"}, GitSource(url=GITHUB)),
        (
            {"source": "github", "repo": "ann/tools", "ref": "v1", "sha": SHA},
            GitSource(url=GITHUB, ref="v1", commit=SHA),
        ),
        (
            {"source": "git-subdir", "url": GITHUB, "path": "./plugins/a/"},
            GitSource(url=GITHUB, folder="plugins/a"),
        ),
        (
            {"source": "git-subdir", "url": "ann/tools", "path": "a"},
            GitSource(url=GITHUB, folder="a"),
        ),
        ({"source": "url", "url": GITHUB}, GitSource(url=GITHUB)),
        ({"source": "directory", "path": "/srv/x"}, PathSource(path="/srv/x")),
        ({"source": "npm", "package": "@ann/tools"}, NpmSource(package="@ann/tools")),
        (
            {"source": "npm", "package": "tools", "version": "^2", "registry": "https://n.test/r"},
            NpmSource(package="tools", version="^2", registry="https://n.test/r"),
        ),
        (
            {"source": "url", "url": "https://example.com/x.zip?y", "sha": "AB" * 32},
            ArchiveSource(url="https://example.com/x.zip?y", sha256="ab" * 32),
        ),
    ],
)
def test_sources_of_claude_code_are_understood(entry: dict[str, Any], source: object) -> None:
    assert parse_source_object(entry) == source


@each_row(
    "entry",
    [
        {},
        {"source": "npm", "package": "../x"},
        {"source": "npm", "package": "x", "registry": "http://example.com"},
        {"source": "npm", "package": "x", "version": 2},
        {"source": "url", "url": "http://example.com/x.zip"},
        {"source": "url", "url": "https://example.com/x.zip", "sha": "ab"},
        {"source": "url", "url": "https://[::1/x.zip"},
        {"source": "npm", "package": "x", "registry": "https://[::1"},
        {"source": "hg", "url": "x"},
        {"source": "github", "repo": "ann"},
        {"source": "github", "repo": 3},
        {"source": "url", "url": "https://example.com/marketplace.json"},
        {"source": "url", "url": GITHUB, "path": "../../etc"},
        {"source": "url", "url": GITHUB, "sha": "main"},
        {"source": "url", "url": GITHUB, "ref": "-x"},
        {"source": "git-subdir", "url": GITHUB, "path": "/etc"},
    ],
)
def test_a_source_that_cannot_be_used_has_a_reason(entry: dict[str, Any]) -> None:
    found = parse_source_object(entry)

    assert isinstance(found, UnsupportedSource)
    assert found.reason


def test_a_password_in_an_address_is_not_shown() -> None:
    source = GitSource(url="https://ann:s3cretpass@example.com/x.git")

    assert "s3cretpass" not in describe_source(source)


def parse(**data: Any) -> Marketplace:
    return parse_marketplace(json.dumps({"name": "shop", "plugins": [], **data}).encode())


def test_a_marketplace_has_an_owner_plugins_and_renames() -> None:
    found = parse(
        owner={"name": "Ann"},
        metadata={"description": "tools", "version": "3", "pluginRoot": "./plugins"},
        plugins=[
            {"name": "a", "source": "a", "keywords": ["x"], "strict": False, "skills": ["./s"]},
            {"name": "b", "source": "./other/b", "author": "Bo"},
            {"name": "b", "source": "./b"},
            {"name": "../evil", "source": "./e"},
            "text",
        ],
        renames={"old": "older", "older": "a"},
    )

    assert (found.owner, found.description, found.version) == ("Ann", "tools", "3")
    assert [one.source for one in found.plugins] == [
        PathSource(path="plugins/a"),
        PathSource(path="other/b"),
    ]
    assert found.find("old") == found.plugins[0]
    assert found.plugins[0].manifest == {"name": "a", "keywords": ["x"], "skills": ["./s"]}
    assert not found.plugins[0].strict
    assert len(found.problems) == 3


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"name": "x"}', b'{"name": "../x", "plugins": []}', b"[" * 10_000],
)
def test_a_file_that_is_no_marketplace_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigError):
        parse_marketplace(content)


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../../b", "C:\\x"])
def test_a_path_out_of_the_marketplace_is_refused(path: str) -> None:
    (plugin,) = parse(plugins=[{"name": "a", "source": path}]).plugins

    assert "leads out of the marketplace" in plugin.problem


def test_a_plugin_in_a_marketplace_is_fetched_at_the_commit_of_the_list() -> None:
    (plugin,) = parse(plugins=[{"name": "a", "source": "./p/a"}]).plugins

    in_git = locate_plugin(plugin, GitSource(url=GITHUB, ref="main", commit=SHA))
    in_folder = locate_plugin(plugin, PathSource(path="/srv/shop"))

    assert in_git == GitSource(url=GITHUB, ref="main", commit=SHA, folder="p/a")
    assert in_folder == PathSource(path="/srv/shop/p/a", root="/srv/shop")


@pytest.mark.parametrize("url", ["file:///home/ann/private", "http://localhost:80/x.git"])
def test_a_marketplace_of_the_network_cannot_name_repositories_of_this_machine(url: str) -> None:
    (plugin,) = parse(plugins=[{"name": "a", "source": {"source": "url", "url": url}}]).plugins

    assert isinstance(locate_plugin(plugin, GitSource(url=GITHUB)), UnsupportedSource)
    assert locate_plugin(plugin, PathSource(path="/srv/shop")) == GitSource(url=url)


def test_a_search_wants_all_words_and_puts_names_first() -> None:
    plugins = parse(
        plugins=[
            {"name": "alpha", "source": "./a", "description": "reviews code"},
            {"name": "review", "source": "./b", "description": "for code"},
            {"name": "gamma", "source": "./c", "description": "code only"},
        ]
    ).plugins

    assert [one.name for one in search(plugins, ["Review", "code"])] == ["review", "alpha"]
