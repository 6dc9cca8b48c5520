"""Plugins from archives on the network, and from npm packages."""

import base64
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import ConfigError
from clew.extensions.plugins.marketplace import locate_plugin, parse_marketplace
from clew.extensions.plugins.npm import choose_archive
from clew.extensions.plugins.sources import GitSource, NpmSource, UnsupportedSource
from clew.sdk.folders import Homes
from clew.sdk.plugins import Plugins
from clew.testing.server import FakeServer, ScriptedResponse, serve

pytestmark = [pytest.mark.anyio, pytest.mark.req("PLG-1")]


def pack(files: Mapping[str, str], top: str = "package") -> bytes:
    """Return an archive as `npm pack` makes it: everything is in one folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def make_archive(version: str, top: str = "package") -> bytes:
    manifest = json.dumps({"name": "tools", "version": version})
    files = {".claude-plugin/plugin.json": manifest, "commands/go.md": f"Go {version}"}
    return pack({**files, "package.json": '{"scripts": {"postinstall": "touch ran"}}'}, top)


def integrity_of(archive: bytes) -> str:
    return f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"


def describe_package(url: str, archives: Mapping[str, bytes], **dist: Any) -> dict[str, Any]:
    """Return what a registry says about a package."""
    versions = {
        version: {
            "dist": {"tarball": f"{url}/{version}.tgz", "integrity": integrity_of(data), **dist}
        }
        for version, data in archives.items()
    }
    return {"versions": versions, "dist-tags": {"latest": max(archives)}}


def binary(data: bytes, **fields: Any) -> ScriptedResponse:
    return ScriptedResponse(steps=[data], content_type="application/octet-stream", **fields)


@pytest.fixture
def plugins(tmp_path: Path) -> Plugins:
    (tmp_path / "project").mkdir()
    homes = Homes(user=tmp_path / "home", clew=tmp_path / "home" / ".clew")
    return Plugins(tmp_path / "project", {}, homes=homes)


async def add_shop(plugins: Plugins, folder: Path, **source: str) -> None:
    """Add a marketplace of this machine with one plugin."""
    entry = {"name": "tools", "source": source}
    path = folder / ".claude-plugin" / "marketplace.json"
    path.parent.mkdir(parents=True)
    content = {"name": "shop", "owner": {"name": "Ann"}, "plugins": [entry]}
    path.write_text(json.dumps(content), encoding="utf-8")
    await plugins.add_marketplace(str(folder))


async def install(plugins: Plugins, text: str) -> str:
    """Install a plugin; returns its version."""
    async with plugins.prepare_install(text) as prepared:
        return (await prepared.accept()).version


def answer_registry(server: FakeServer, archives: Mapping[str, bytes], **dist: Any) -> None:
    """Let a server be a registry: the list of versions first, then the chosen archive."""
    listed = json.dumps(describe_package(server.url, archives, **dist)).encode()
    server.answers[len(server.paths) :] = [binary(listed), binary(archives[max(archives)])]


async def test_a_plugin_of_npm_is_installed_checked_and_updated(
    plugins: Plugins, tmp_path: Path
) -> None:
    async with serve() as server:
        source = {"source": "npm", "package": "@ann/tools", "version": "^1.0.0"}
        await add_shop(plugins, tmp_path / "shop", registry=server.url, **source)
        answer_registry(server, {"1.0.0": make_archive("1.0.0")})
        first = await install(plugins, "tools@shop")
        answer_registry(server, {"1.0.0": make_archive("1.0.0"), "1.2.0": make_archive("1.2.0")})
        async with plugins.prepare_update(plugins.installed.get("tools")) as update:
            second = (await update.accept()).version

    assert (first, second) == ("1.0.0", "1.2.0")
    assert server.paths == ["/@ann%2Ftools", "/1.0.0.tgz", "/@ann%2Ftools", "/1.2.0.tgz"]
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize("where", ["variable", "npm", "nowhere"])
async def test_the_registry_is_that_of_npm_unless_the_source_names_one(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.delenv("NPM_CONFIG_REGISTRY", raising=False)
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    async with serve() as server:
        await add_shop(plugins, tmp_path / "shop", source="npm", package="tools")
        answer_registry(server, {"1.0.0": make_archive("1.0.0")})
        if where == "variable":
            monkeypatch.setenv("NPM_CONFIG_REGISTRY", server.url)
        if where == "npm":
            (programs / "npm").write_text(
                f'#!/bin/sh\n[ "$*" = "config get registry" ] && echo {server.url}/\n'
            )
            (programs / "npm").chmod(0o700)
        if where == "nowhere":
            with pytest.raises(ConfigError, match="install npm, or set the variable NPM_CONFIG"):
                await install(plugins, "tools@shop")
        else:
            assert await install(plugins, "tools@shop") == "1.0.0"


async def test_an_archive_that_is_not_the_published_one_is_refused(
    plugins: Plugins, tmp_path: Path
) -> None:
    async with serve() as server:
        await add_shop(
            plugins, tmp_path / "shop", source="npm", package="tools", registry=server.url
        )
        answer_registry(server, {"1.0.0": make_archive("1.0.0")})
        server.answers[1] = binary(make_archive("6.6.6"))
        with pytest.raises(ConfigError, match="its checksum differs"):
            await install(plugins, "tools@shop")

    assert plugins.installed.list() == []


async def test_an_archive_is_installed_from_its_address(plugins: Plugins) -> None:
    async with serve(binary(make_archive("3", top="tools-3"))) as server:
        assert await install(plugins, f"{server.url}/tools.tar.gz") == "3"


async def test_a_marketplace_pins_the_hash_of_an_archive(plugins: Plugins, tmp_path: Path) -> None:
    archive = make_archive("3")
    digest = hashlib.sha256(archive).hexdigest()
    async with serve(binary(archive), binary(make_archive("4"))) as server:
        url = f"{server.url}/tools.tgz"
        await add_shop(plugins, tmp_path / "shop", source="url", url=url, sha=digest)
        assert await install(plugins, "tools@shop") == "3"
        with pytest.raises(ConfigError, match="its checksum differs"):
            await install(plugins, "tools@shop")


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (ScriptedResponse(steps=[], status=404), "does not exist"),
        (ScriptedResponse(steps=[], status=503), "the server answered 503"),
        (binary(b"no archive"), "is not a .zip or .tar.gz archive"),
        (
            ScriptedResponse(steps=[], status=302, headers={"Location": "http://example.com/x"}),
            "is not encrypted",
        ),
        (
            ScriptedResponse(steps=[], status=302, headers={"Location": "/x.zip"}),
            "leads from one address to the next",
        ),
    ],
)
async def test_a_download_that_fails_has_a_reason_and_changes_nothing(
    response: ScriptedResponse, says: str, plugins: Plugins
) -> None:
    async with serve(response) as server:
        with pytest.raises(ConfigError, match=says):
            await install(plugins, f"{server.url}/x.zip")

    assert plugins.installed.list() == []


VERSIONS = ["0.0.3", "0.2.0", "0.2.9", "0.3.0", "1.0.0", "1.4.2", "1.9.0", "2.0.0-beta", "2.1.0"]


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        ("", "1.9.0"),
        ("latest", "1.9.0"),
        ("next", "2.0.0-beta"),
        ("1.4.2", "1.4.2"),
        ("2.0.0-beta", "2.0.0-beta"),
        ("^1.0.0", "1.9.0"),
        ("^0.2.0", "0.2.9"),
        ("^0.0.3", "0.0.3"),
        ("^0", "0.3.0"),
        ("~1.4", "1.4.2"),
        ("~1", "1.9.0"),
        ("1.x", "1.9.0"),
        ("0.2", "0.2.9"),
        (">=1.0.0", "2.1.0"),
    ],
)
def test_the_newest_version_that_is_meant_is_chosen(wanted: str, version: str) -> None:
    data = describe_package("https://n.test", dict.fromkeys(VERSIONS, b"x"))
    data["dist-tags"] = {"latest": "1.9.0", "next": "2.0.0-beta"}

    found = choose_archive(data, NpmSource(package="tools", version=wanted))

    assert (found.version, found.url) == (version, f"https://n.test/{version}.tgz")


@pytest.mark.parametrize("wanted", ["3.0.0", "^5", "1 || 2", "nothing"])
def test_a_version_that_does_not_exist_is_an_error(wanted: str) -> None:
    data = describe_package("https://n.test", dict.fromkeys(VERSIONS, b"x"))

    with pytest.raises(ConfigError, match="version"):
        choose_archive(data, NpmSource(package="tools", version=wanted))


@pytest.mark.parametrize("integrity", [None, "", "sha1-abc", "sha512-!"])
def test_a_version_without_a_checksum_is_refused(integrity: str | None) -> None:
    data = describe_package("https://n.test", {"1.0.0": b"x"}, integrity=integrity)

    with pytest.raises(ConfigError, match="checksum"):
        choose_archive(data, NpmSource(package="tools"))


@pytest.mark.parametrize(
    "source",
    [
        {"source": "url", "url": "http://localhost:1234/tools.zip"},
        {"source": "npm", "package": "tools", "registry": "http://127.0.0.1:1234"},
    ],
)
def test_a_marketplace_of_the_network_cannot_name_servers_of_this_machine(
    source: dict[str, str],
) -> None:
    entry = {"name": "tools", "source": source}
    content = json.dumps({"name": "shop", "plugins": [entry]}).encode()
    (plugin,) = parse_marketplace(content).plugins

    found = locate_plugin(plugin, GitSource(url="https://example.com/shop.git"))

    assert isinstance(found, UnsupportedSource)
    assert "on this machine" in found.reason
