"""Downloads the archive of a plugin: from an address, or of an npm package.

Only encrypted connections are used, and those to this machine; no credentials are sent.
"""

import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from subprocess import CalledProcessError
from urllib.parse import urljoin

import aiohttp
import anyio
import msgspec
from msgspec.structs import replace

from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.core.redaction import redact
from clew.extensions.plugins.content import LIMITS
from clew.extensions.plugins.npm import NpmArchive, choose_archive, list_url
from clew.extensions.plugins.sources import ArchiveSource, NpmSource, check_download, is_loopback

_SECONDS = 300.0
"""For the whole download."""
_MAX_LIST = 50_000_000
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REGISTRY_VARIABLE = "NPM_CONFIG_REGISTRY"
_NPM_LIST = "application/vnd.npm.install-v1+json, application/json;q=0.8"


async def download(source: ArchiveSource | NpmSource, staging: Path) -> Path:
    """Download the archive of a source; returns its file.

    Raises:
        ConfigError: It cannot be had, is too large, or has the wrong checksum.
    """
    target, url, digest = staging / "downloaded", "", b""
    try:
        with anyio.fail_after(_SECONDS):
            if isinstance(source, NpmSource):
                registry = check_download(source.registry or await _find_npm_registry(staging))
                source = replace(source, registry=registry)
                found = await _find_npm_archive(source)
                url, digest = check_download(found.url), found.digest
                # A registry on the network cannot lead to servers of this machine.
                if is_loopback(url) and not is_loopback(source.registry):
                    raise ConfigError(f"{redact(url)} is on this machine, its registry is not")
            else:
                url, digest = source.url, bytes.fromhex(source.sha256)
            await _save(url, target, digest)
    except TimeoutError as error:
        raise ConfigError(f"{redact(url)} did not arrive within {_SECONDS:.0f} seconds") from error
    return target


async def _find_npm_registry(folder: Path) -> str:
    """Return the registry of the user's npm, as a variable or its settings name it.

    Raises:
        ConfigError: npm is not installed, and no variable names a registry.
    """
    if named := os.environ.get(_REGISTRY_VARIABLE):
        return named
    try:
        # In a folder of Clew's: the settings of a project cannot name a registry.
        done = await anyio.run_process(["npm", "config", "get", "registry"], cwd=folder)
    except (OSError, CalledProcessError) as error:
        raise ConfigError(
            "no npm registry is known: install npm, or set the variable"
            f" {_REGISTRY_VARIABLE} to the address of one"
        ) from error
    return done.stdout.decode(errors="replace").strip()


async def _find_npm_archive(source: NpmSource) -> NpmArchive:
    content = bytearray()
    async with _get(list_url(source), accept=_NPM_LIST) as response:
        async for chunk in response.content.iter_any():
            content += chunk
            if len(content) > _MAX_LIST:
                raise ConfigError(f"the list of versions of {source.package} is too long")
    try:
        return choose_archive(decode_json(bytes(content)), source)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the registry did not answer with JSON: {error}") from error


async def _save(url: str, target: Path, digest: bytes) -> None:
    """Write a file; `digest` is the SHA-512 or SHA-256 that it must have, or empty."""
    check = hashlib.sha512() if len(digest) == hashlib.sha512().digest_size else hashlib.sha256()
    length = 0
    async with _get(url) as response, await anyio.open_file(target, "wb") as file:
        async for chunk in response.content.iter_any():
            length += len(chunk)
            if length > LIMITS.bytes:
                raise ConfigError(f"{redact(url)} has more than {LIMITS.bytes:,} bytes")
            check.update(chunk)
            await file.write(chunk)
    if digest and check.digest() != digest:
        raise ConfigError(f"{redact(url)} is not the file that was published: its checksum differs")


@asynccontextmanager
async def _get(url: str, *, accept: str = "*/*") -> AsyncGenerator[aiohttp.ClientResponse, None]:
    """Send a request, and follow redirects to addresses that are acceptable too."""
    first = is_loopback(url)
    # Bodies arrive as they are: what unpacks is limited elsewhere.
    headers = {"Accept": accept, "Accept-Encoding": "identity"}
    try:
        async with aiohttp.ClientSession(
            trust_env=not first, cookie_jar=aiohttp.DummyCookieJar(), headers=headers
        ) as client:
            for _ in range(_MAX_REDIRECTS):
                async with client.get(url, allow_redirects=False) as response:
                    if response.status not in _REDIRECTS:
                        _check_status(response, url)
                        yield response
                        return
                    url = check_download(urljoin(url, response.headers.get("Location", "")))
                    if is_loopback(url) and not first:
                        raise ConfigError("it leads to a server on this machine")
            raise ConfigError(f"{redact(url)} leads from one address to the next")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ConfigError(f"{redact(url)} cannot be fetched: {redact(str(error))}") from error


def _check_status(response: aiohttp.ClientResponse, url: str) -> None:
    if response.status == HTTPStatus.NOT_FOUND:
        raise ConfigError(f"{redact(url)} does not exist")
    if response.status != HTTPStatus.OK:
        raise ConfigError(f"{redact(url)} cannot be fetched: the server answered {response.status}")
