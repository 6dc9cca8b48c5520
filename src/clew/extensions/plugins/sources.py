"""Where a plugin or a marketplace comes from: values, and how people and files write them.

Everything here is pure: nothing is fetched, and no path is looked up.
"""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.redaction import redact

ARCHIVE_ENDINGS = (".zip", ".tar.gz", ".tgz")
_GITHUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_SCP_ADDRESS = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9._-]+:[^:].*")
_REF = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._/+-]*")
_COMMIT = re.compile(r"[0-9a-fA-F]{40}(?:[0-9a-fA-F]{24})?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PACKAGE = re.compile(r"(?:@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*")
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


class GitSource(Struct, frozen=True, kw_only=True, tag="git", tag_field="kind", omit_defaults=True):
    """A folder in a git repository."""

    url: str
    ref: str = ""
    """A branch or a tag; empty for the default branch."""
    commit: str = ""
    """The commit that the user or a marketplace pins; empty for the newest one."""
    folder: str = ""
    """The path of the folder in the repository; empty for all of it."""


class PathSource(
    Struct, frozen=True, kw_only=True, tag="path", tag_field="kind", omit_defaults=True
):
    """A folder, or an archive with one, on this machine."""

    path: str
    """Absolute."""
    root: str = ""
    """The folder that links may lead to: that of the marketplace. Empty for the path itself."""


class ArchiveSource(
    Struct, frozen=True, kw_only=True, tag="archive", tag_field="kind", omit_defaults=True
):
    """An archive on the network."""

    url: str
    sha256: str = ""
    """The hash that it must have, as hexadecimal digits; empty for any."""


class NpmSource(Struct, frozen=True, kw_only=True, tag="npm", tag_field="kind", omit_defaults=True):
    """A package of a registry of npm."""

    package: str
    version: str = ""
    """A version, a tag or a range such as `^1.2.0`; empty for the latest."""
    registry: str = ""
    """Its address; empty for the registry that npm is set up with."""


class UnsupportedSource(
    Struct, frozen=True, kw_only=True, tag="unsupported", tag_field="kind", omit_defaults=True
):
    """A source that Clew cannot install from."""

    reason: str


Source: TypeAlias = GitSource | PathSource
"""Where a marketplace can come from."""
PluginSource: TypeAlias = Source | ArchiveSource | NpmSource
AnySource: TypeAlias = PluginSource | UnsupportedSource


def describe_source(source: AnySource) -> str:
    """Return a source as people write it, without secrets."""
    match source:
        case GitSource():
            mark = source.commit[:12] or source.ref
            inside = f", folder {source.folder}" if source.folder else ""
            return redact(f"{source.url}{f'#{mark}' if mark else ''}{inside}")
        case PathSource():
            return source.path
        case ArchiveSource():
            return redact(source.url)
        case NpmSource():
            version = f"@{source.version}" if source.version else ""
            where = f" from {redact(source.registry)}" if source.registry else ""
            return f"npm package {source.package}{version}{where}"
        case UnsupportedSource():
            return source.reason


def parse_git_source(text: str) -> GitSource | None:
    """Return the repository that a user names; None if the text is not of that form.

    An address, `user@host:path`, or `owner/name` for GitHub; `#branch` may follow, and `@branch`
    after `owner/name`.

    Raises:
        ConfigError: The address has a protocol that Clew does not use, or a wrong branch.
    """
    address, _, ref = text.partition("#")
    if not ref and "://" not in address:
        short, _, at = address.partition("@")
        if at and _GITHUB.fullmatch(short):
            address, ref = short, at
    if _GITHUB.fullmatch(address):
        address = f"https://github.com/{address.removesuffix('.git')}.git"
    elif "://" not in address and not _SCP_ADDRESS.fullmatch(address):
        return None
    return make_git_source(address, ref=ref)


def make_git_source(url: str, *, ref: str = "", commit: str = "", folder: str = "") -> GitSource:
    """Return a source, checked.

    Raises:
        ConfigError: A part is not acceptable; the message says which.
    """
    find_protocol(url)
    if ref and (not _REF.fullmatch(ref) or ".." in ref or "@{" in ref):
        raise ConfigError(f"{ref[:100]!r} is not a branch or a tag")
    if commit and not _COMMIT.fullmatch(commit):
        raise ConfigError(f"{commit[:100]!r} is not a commit; write all of its 40 digits")
    if ref and not commit and _COMMIT.fullmatch(ref):
        ref, commit = "", ref
    return GitSource(url=url, ref=ref, commit=commit.lower(), folder=check_folder(folder))


def find_protocol(url: str) -> str:
    """Return the one protocol that git may use for an address.

    Raises:
        ConfigError: The protocol is not allowed, or there is no address.
    """
    shown = redact(url[:200])
    # Git runs a program for an address with `::` after its first word.
    before = url.partition("://")[0]
    unusual = any(sign <= " " or sign == "\x7f" for sign in url)
    if unusual or url.startswith("-") or "::" in before:
        raise ConfigError(f"{shown!r} is not an address of a git repository")
    if "://" not in url:
        if _SCP_ADDRESS.fullmatch(url):
            return "ssh"
        raise ConfigError(f"{shown!r} is not an address of a git repository")
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError as error:
        raise ConfigError(f"{shown!r} is not an address: {error}") from error
    if not url.lower().startswith(f"{parts.scheme}://"):
        raise ConfigError(f"{shown!r} is not an address of a git repository")
    if parts.scheme == "file" or (parts.scheme in ("https", "ssh") and host):
        return parts.scheme
    if parts.scheme == "http" and host in _LOOPBACK:
        return "http"
    hint = "is not encrypted" if parts.scheme in ("http", "git") else "is not supported"
    raise ConfigError(f"{shown}: {parts.scheme}:// {hint}; use https:// or ssh://")


def check_folder(text: str) -> str:
    """Return a path inside a repository, normalized; empty for all of it.

    Raises:
        ConfigError: It leads out of the repository.
    """
    path = PurePosixPath(text.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in text or "\0" in text:
        raise ConfigError(f"the folder {text[:200]!r} leads out of the repository")
    return "" if str(path) == "." else str(path)


def parse_source_object(data: Mapping[str, Any]) -> AnySource:
    """Return the source that an object of Claude Code's formats describes.

    These stand in `marketplace.json` and in `extraKnownMarketplaces`. A source that Clew cannot
    use is an `UnsupportedSource` with the reason.
    """
    try:
        return _parse_object(data)
    except ConfigError as error:
        return UnsupportedSource(reason=str(error))


def _parse_object(data: Mapping[str, Any]) -> AnySource:
    ref, commit, folder = (_text(data, name) for name in ("ref", "sha", "path"))
    match data.get("source"):
        case "github":
            repository = _text(data, "repo")
            if not _GITHUB.fullmatch(repository):
                raise ConfigError(f"{repository[:100]!r} is not owner/name of GitHub")
            url = f"https://github.com/{repository}.git"
            return make_git_source(url, ref=ref, commit=commit, folder=folder)
        case "url" | "git" | "git-subdir":
            url = _text(data, "url")
            if _GITHUB.fullmatch(url):
                url = f"https://github.com/{url}.git"
            if is_archive_url(url):
                return make_archive_source(url, sha256=commit)
            if url.endswith(".json"):
                raise ConfigError(f"{redact(url[:200])} is a file; name its git repository")
            return make_git_source(url, ref=ref, commit=commit, folder=folder)
        case "directory" | "file":
            return PathSource(path=folder) if folder else UnsupportedSource(reason="has no path")
        case "npm":
            return _parse_npm(data)
        case str(kind):
            return UnsupportedSource(reason=f"has the source {kind[:60]!r}, which is not supported")
        case _:
            return UnsupportedSource(reason="does not say what its source is")


def _parse_npm(data: Mapping[str, Any]) -> NpmSource:
    package, version = _text(data, "package"), _text(data, "version")
    if not _PACKAGE.fullmatch(package) or ".." in package:
        raise ConfigError(f"{package[:100]!r} is not the name of an npm package")
    if registry := _text(data, "registry"):
        check_download(registry)
    return NpmSource(package=package, version=version, registry=registry)


def is_archive_url(text: str) -> bool:
    """Return whether a text is the address of an archive, by its ending."""
    path = text.partition("?")[0].partition("#")[0]
    return "://" in text and path.lower().endswith(ARCHIVE_ENDINGS)


def make_archive_source(url: str, *, sha256: str = "") -> ArchiveSource:
    """Return a source, checked.

    Raises:
        ConfigError: The address or the hash is not acceptable.
    """
    if sha256 and not _SHA256.fullmatch(sha256):
        raise ConfigError("the hash of an archive has 64 hexadecimal digits (SHA-256)")
    return ArchiveSource(url=check_download(url), sha256=sha256.lower())


def check_download(url: str) -> str:
    """Return an address that a file may be downloaded from.

    Raises:
        ConfigError: It is neither encrypted nor on this machine.
    """
    if find_protocol(url) not in ("https", "http"):
        raise ConfigError(f"{redact(url[:200])}: files are downloaded from https:// only")
    return url


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    return (urlsplit(url).hostname or "") in _LOOPBACK


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name, "")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigError(f"{name} of the source must be a string")
    return value
