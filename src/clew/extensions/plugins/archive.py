"""Unpacks an archive from outside: .zip, .tar.gz, and the plain tar that git writes.

Nothing is written outside of the target: absolute paths, `..`, links that lead out, paths through
links and special files are refused, and so is an archive that unpacks to more than the limits.
"""

import gzip
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.extensions.plugins.content import LIMITS, PluginLimits, Quota, check_link, show
from clew.extensions.plugins.manifest import MANIFEST, PART_FOLDERS

_CHUNK = 1 << 16
_MAX_READ = 1 << 17
"""Bytes that a tar file may be read by at once: a header of it is read whole."""
_MAX_FIELDS = 100
"""Fields that a tar file may set for all that follows."""
_MAX_LINK = 4_096
_ENCRYPTED = 0x1
_GZIP = b"\x1f\x8b"
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    LookupError,
    OverflowError,
)
"""What the libraries raise for archives with wrong bytes."""

_Kind: TypeAlias = Literal["file", "folder", "link", "special"]


class _Member(Struct, frozen=True, kw_only=True):
    name: str
    kind: _Kind
    program: bool
    target: str
    """Where a link leads."""
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, target: Path, *, limits: PluginLimits = LIMITS) -> None:
    """Unpack an archive into a new folder.

    Args:
        archive: The file; its name says nothing, its content decides.
        target: The folder; must not exist.
        limits: How much it may contain.

    Raises:
        ConfigError: It is not an archive, damaged, hostile or too large.
        OSError: It cannot be read or written.
    """
    target.mkdir(mode=0o755)
    quota = Quota(limits)
    try:
        with _open_members(archive, limits) as members:
            for member in members:
                _write(member, target, quota)
    except _DAMAGED as error:
        raise ConfigError(
            f"{archive.name} is damaged, or has a form that Clew does not know: {error}"
        ) from error


def find_top(folder: Path) -> Path:
    """Return the only folder in a folder, as in archives of a release; otherwise the folder."""
    with os.scandir(folder) as found:
        entries = list(found)
    is_alone = len(entries) == 1 and entries[0].is_dir(follow_symlinks=False)
    is_part = is_alone and entries[0].name in (MANIFEST.parts[0], *PART_FOLDERS)
    return folder / entries[0].name if is_alone and not is_part else folder


@contextmanager
def _open_members(archive: Path, limits: PluginLimits) -> Iterator[Iterator[_Member]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            yield _list_zip(opened)
        return
    with archive.open("rb") as start:
        packed = start.read(2) == _GZIP
    with gzip.open(archive) if packed else archive.open("rb") as stream:
        bounded: Any = _BoundedStream(stream, limits)
        try:
            opened_tar = tarfile.open(fileobj=bounded, mode="r:")  # noqa: SIM115
        except _DAMAGED as error:
            raise ConfigError(f"{archive.name} is not a .zip or .tar.gz archive") from error
        with opened_tar:
            yield _list_tar(opened_tar)


class _BoundedStream:
    """A stream that refuses to be read by much at once, or further than the limits allow.

    A few bytes can unpack to a header of any size, which tarfile reads whole.
    """

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, limits: PluginLimits) -> None:
        self._stream = stream
        blocks = 8 * tarfile.BLOCKSIZE
        self._end = limits.bytes + limits.files * blocks + tarfile.RECORDSIZE
        self.tell = stream.tell
        self.seekable = stream.seekable

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ:
            raise ConfigError("it has headers that are too large")
        self._check(self._stream.tell() + size)
        return self._stream.read(size)

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET:
            self._check(place)
        return self._stream.seek(place, whence)

    def _check(self, place: int) -> None:
        if place > self._end:
            raise ConfigError(f"it unpacks to more than {self._end:,} bytes")


def _list_zip(opened: zipfile.ZipFile) -> Iterator[_Member]:
    for info in opened.infolist():
        mode = info.external_attr >> 16
        if info.flag_bits & _ENCRYPTED:
            raise ConfigError(f"{show(info.filename)} is encrypted")
        if info.compress_type not in _ZIP_METHODS:
            raise ConfigError(f"{show(info.filename)} is packed with an unusual method")
        is_link = stat.S_ISLNK(mode)
        target = ""
        if is_link:
            with opened.open(info) as stream:
                target = os.fsdecode(stream.read(_MAX_LINK + 1))
        yield _Member(
            name=info.filename,
            kind="link"
            if is_link
            else "folder"
            if info.filename.endswith("/")
            else _zip_kind(mode),
            program=bool(mode & 0o111),
            target=target,
            open=lambda info=info: opened.open(info),  # type: ignore[misc]
        )


def _zip_kind(mode: int) -> _Kind:
    return "file" if stat.S_IFMT(mode) in (0, stat.S_IFREG) else "special"


def _list_tar(opened: tarfile.TarFile) -> Iterator[_Member]:
    for info in opened:
        if len(opened.pax_headers) > _MAX_FIELDS:
            raise ConfigError("it has headers that are too large")
        kind: _Kind = "special"
        if info.isreg():
            kind = "file"
        elif info.isdir():
            kind = "folder"
        elif info.issym():
            kind = "link"
        yield _Member(
            name=info.name,
            kind=kind,
            program=bool(info.mode & 0o111),
            target=info.linkname,
            open=lambda info=info: _open_tar(opened, info),  # type: ignore[misc]
        )


def _open_tar(opened: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = opened.extractfile(info)
    if stream is None:
        raise ConfigError(f"{show(info.name)} has no content")
    return stream


def _write(member: _Member, target: Path, quota: Quota) -> None:
    name = _check_name(member.name)
    quota.add_entry(name)
    if not name:
        if member.kind != "folder":
            raise ConfigError("it has a file without a name")
        return
    path = target / name
    if member.kind == "special":
        raise ConfigError(f"{show(name)} is a hard link or a special file; remove it")
    _make_folders(target, path.parent if member.kind != "folder" else path, quota)
    if member.kind == "folder":
        return
    if path.is_symlink() or path.exists():
        raise ConfigError(f"{show(name)} is in the archive twice")
    if member.kind == "link":
        if len(member.target) > _MAX_LINK:
            raise ConfigError(f"{show(name)} is a link with a target that is too long")
        check_link(name, member.target)
        path.symlink_to(member.target)
    else:
        _write_file(member, path, name, quota)


def _check_name(name: str) -> str:
    """Return the path of a member; empty for the folder itself."""
    text = name.replace("\\", "/")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    drive = bool(parts) and len(parts[0]) == 2 and parts[0][1] == ":"
    if text.startswith("/") or ".." in parts or "\0" in text or drive:
        raise ConfigError(f"{show(name)} leads out of the archive")
    return "/".join(parts)


def _make_folders(target: Path, folder: Path, quota: Quota) -> None:
    """Make the folders above a member, and refuse to write through a link."""
    here = target
    for part in folder.relative_to(target).parts:
        here = here / part
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            raise ConfigError(f"{show(str(here.relative_to(target)))} is in the archive twice")
        if not here.exists():
            quota.add_entry(str(here.relative_to(target)))
            here.mkdir(mode=0o755)


def _write_file(member: _Member, path: Path, name: str, quota: Quota) -> None:
    size = 0
    with member.open() as stream, path.open("xb") as out:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            quota.add_bytes(len(chunk), name, size)
            out.write(chunk)
    path.chmod(0o755 if member.program else 0o644)
