"""npm packages as sources of plugins: which version is meant, and where its archive is.

Everything here is pure. Clew takes the files of the package as they are: it installs none of its
dependencies and runs none of its scripts.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.sanitize import sanitize_line
from clew.extensions.plugins.sources import NpmSource

_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:\+[\w.-]+)?")
"""A release; versions such as `1.0.0-beta` are used only if they are named."""
_RANGE = re.compile(r"(\^|~|>=)?\s*v?(\d{1,9})(?:\.(\d{1,9}|[xX*]))?(?:\.(\d{1,9}|[xX*]))?")
_HASH = "sha512"

_Release: TypeAlias = tuple[int, int, int]


class NpmArchive(Struct, frozen=True, kw_only=True):
    """The archive of one version of a package."""

    version: str
    url: str
    digest: bytes
    """The SHA-512 that it must have."""


def list_url(source: NpmSource) -> str:
    """Return the address of the list of a package's versions."""
    return f"{source.registry.rstrip('/')}/{quote(source.package, safe='@')}"


def choose_archive(data: object, source: NpmSource) -> NpmArchive:
    """Return the archive of the newest version that a source means.

    Args:
        data: The list of versions, as the registry sent it.
        source: The package, and which of its versions.

    Raises:
        ConfigError: There is no such version, or the registry does not say how to check it.
    """
    if not isinstance(data, dict) or not isinstance(versions := data.get("versions"), dict):
        raise ConfigError(f"the registry has no list of versions of {source.package}")
    version = _choose_version(versions, data.get("dist-tags"), source.version or "latest")
    match versions.get(version):
        case {"dist": {"tarball": str(url), "integrity": str(integrity)}}:
            return NpmArchive(version=version, url=url, digest=_find_digest(integrity))
        case {"dist": {"tarball": str()}}:
            raise ConfigError(f"the registry has no checksum of {source.package}@{version}")
        case _:
            wanted = sanitize_line(source.version, 60)
            raise ConfigError(f"{source.package} has no version {wanted or 'that is the latest'}")


def _choose_version(versions: Mapping[str, Any], tags: object, wanted: str) -> str:
    if wanted in versions:
        return wanted
    if isinstance(tags, dict) and isinstance(tagged := tags.get(wanted), str):
        return tagged
    lowest, end = _parse_range(wanted)
    releases = {release: text for text in versions if (release := _parse(text)) is not None}
    fitting = [one for one in releases if lowest <= one and (end is None or one < end)]
    return releases[max(fitting)] if fitting else ""


def _parse(text: str) -> _Release | None:
    found = _VERSION.fullmatch(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _parse_range(text: str) -> tuple[_Release, _Release | None]:
    """Return the first version of a range, and the first one after it."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        shown = sanitize_line(text, 60)
        raise ConfigError(
            f"{shown!r} is not a version that Clew understands: write 1.2.3 or ^1.2.3"
        )
    numbers = [int(one) for one in found.groups()[1:] if one is not None and one.isdigit()]
    low = (*numbers, 0, 0)[:3]
    major, minor, patch = low[0], low[1], low[2]
    lowest = (major, minor, patch)
    match found[1]:
        case ">=":
            return lowest, None
        case "^" if major or len(numbers) == 1:
            return lowest, (major + 1, 0, 0)
        case "^" if minor or len(numbers) < len(lowest):
            return lowest, (0, minor + 1, 0)
        case "^":
            return lowest, (0, 0, patch + 1)
        case "~" if len(numbers) > 1:
            return lowest, (major, minor + 1, 0)
    ends = ((major + 1, 0, 0), (major, minor + 1, 0), (major, minor, patch + 1))
    return lowest, ends[len(numbers) - 1]


def _find_digest(integrity: str) -> bytes:
    for word in integrity.split():
        kind, _, text = word.partition("-")
        if kind == _HASH:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ConfigError("the checksum of the registry is damaged") from error
    raise ConfigError(f"the registry has no {_HASH} checksum of this version")
