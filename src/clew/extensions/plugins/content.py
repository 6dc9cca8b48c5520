"""The files of a plugin: copied with limits, and named by a hash of what they contain.

A plugin comes from people that the user may not know. So only folders, regular files and links
that stay inside are copied, and the hash is compared again before anything is loaded.
"""

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.sanitize import sanitize_line
from clew.files.safe_read import open_regular

_CHUNK = 1 << 20
_LEFT_OUT = frozenset({".git", ".hg", ".svn", ".DS_Store"})
_FILE, _PROGRAM, _FOLDER = 0o644, 0o755, 0o755
GENERATED: Final = frozenset({"__pycache__", "node_modules", ".venv"})
"""Folders that the programs of a plugin make for themselves when they run."""


class PluginLimits(Struct, frozen=True, kw_only=True):
    """How much a plugin may contain."""

    files: int = 20_000
    bytes: int = 300_000_000
    file_bytes: int = 100_000_000
    depth: int = 40


LIMITS: Final = PluginLimits()


class FileChanges(Struct, frozen=True, kw_only=True):
    """The paths of files that differ between two versions, each sorted."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    differ: bool = False
    """True when the hashes of the versions differ."""

    @property
    def paths(self) -> list[str]:
        """All of them, sorted."""
        return sorted((*self.added, *self.removed, *self.changed))


class Quota:
    """Counts what is written, and refuses what exceeds the limits."""

    def __init__(self, limits: PluginLimits = LIMITS) -> None:
        self.limits = limits
        self._files = 0
        self._bytes = 0

    def add_entry(self, name: str) -> None:
        """Count a file, a folder or a link.

        Raises:
            ConfigError: There are too many, or it is nested too deeply.
        """
        self._files += 1
        if self._files > self.limits.files:
            raise ConfigError(f"it has more than {self.limits.files:,} files")
        if name.count("/") >= self.limits.depth:
            raise ConfigError(f"{show(name)} is nested more than {self.limits.depth} levels deep")

    def add_bytes(self, count: int, name: str, so_far: int) -> None:
        """Count bytes of a file that has `so_far` bytes with them.

        Raises:
            ConfigError: The file, or all of them, are too large.
        """
        self._bytes += count
        if so_far > self.limits.file_bytes:
            raise ConfigError(f"{show(name)} has more than {self.limits.file_bytes:,} bytes")
        if self._bytes > self.limits.bytes:
            raise ConfigError(f"it has more than {self.limits.bytes:,} bytes")


def show(name: str) -> str:
    """Return a name from outside for a message."""
    return sanitize_line(os.fsencode(name).decode("utf-8", "replace"), 200)


def copy_tree(source: Path, target: Path, *, root: Path, limits: PluginLimits = LIMITS) -> None:
    """Copy the folder of a plugin; version control is left out.

    A link inside the folder stays a link. One that leads elsewhere in `root` is replaced by what
    it leads to, so that the plugins of a marketplace can share files.

    Args:
        source: The folder.
        target: Where to copy it; must not exist.
        root: The folder that links may lead to.
        limits: How much may be copied.

    Raises:
        ConfigError: It is too large, or has a link that leads out of `root`, or a special file.
        OSError: It cannot be read or written.
    """
    real = source.resolve(strict=True)
    if not real.is_dir():
        raise ConfigError(f"{source} is not a folder")
    top = root.resolve(strict=True)
    if not real.is_relative_to(top):
        raise ConfigError(f"{source} leads out of {root}")
    _Copy(real, top, Quota(limits)).copy_folder(real, target, "", (real,))


class _Copy:
    def __init__(self, source: Path, root: Path, quota: Quota) -> None:
        self._source = source
        self._root = root
        self._quota = quota

    def copy_folder(self, source: Path, target: Path, name: str, above: tuple[Path, ...]) -> None:
        target.mkdir(mode=_FOLDER)
        with os.scandir(source) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            if entry.name in _LEFT_OUT:
                continue
            inside = f"{name}/{entry.name}".lstrip("/")
            self._quota.add_entry(inside)
            path, to = source / entry.name, target / entry.name
            if entry.is_symlink():
                self._copy_link(path, to, inside, above)
            else:
                self._copy_any(path, to, inside, above)

    def _copy_any(self, path: Path, to: Path, inside: str, above: tuple[Path, ...]) -> None:
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            self.copy_folder(path, to, inside, above)
        elif stat.S_ISREG(mode):
            self._copy_file(path, to, inside)
        else:
            raise ConfigError(f"{show(inside)} is not a regular file")

    def _copy_link(self, path: Path, to: Path, inside: str, above: tuple[Path, ...]) -> None:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            # A link without a target stays one, as long as it cannot lead outside later.
            check_link(inside, str(path.readlink()))
            to.symlink_to(path.readlink())
            return
        if not real.is_relative_to(self._root):
            raise ConfigError(f"{show(inside)} is a link that leads out of the plugin, to {real}")
        if real.is_relative_to(self._source) and len(above) == 1:
            to.symlink_to(os.path.relpath(real, path.parent))
        elif real in above:
            raise ConfigError(f"{show(inside)} is a link that leads to a folder around it")
        else:
            self._copy_any(real, to, inside, (*above, real))

    def _copy_file(self, path: Path, to: Path, inside: str) -> None:
        size = 0
        with open_regular(path) as stream, to.open("xb") as out:
            while chunk := stream.read(_CHUNK):
                size += len(chunk)
                self._quota.add_bytes(len(chunk), inside, size)
                out.write(chunk)
            program = os.fstat(stream.fileno()).st_mode & 0o111
        to.chmod(_PROGRAM if program else _FILE)


def check_link(name: str, target: str) -> None:
    """Check that a link leads to a place inside the folder that has it.

    Args:
        name: The path of the link, relative to the folder.
        target: What it says.

    Raises:
        ConfigError: It leads outside.
    """
    inside = os.path.normpath(os.path.join(os.path.dirname(name), target))  # noqa: PTH118, PTH120
    outside = inside == ".." or inside.startswith("../")
    if os.path.isabs(target) or "\0" in target or outside:  # noqa: PTH117
        raise ConfigError(f"{show(name)} is a link that leads out of the plugin, to {show(target)}")


def compute_hash(
    folder: Path, *, ignored: Collection[str] = (), limits: PluginLimits = LIMITS
) -> str:
    """Return a hash of the names, contents, links and permissions to execute in a folder.

    Args:
        folder: The folder.
        ignored: Names of folders that do not count, wherever they are.
        limits: How much the folder may contain.

    Raises:
        ConfigError: It contains more than the limits allow, or a special file.
        OSError: It cannot be read.
    """
    quota, digest = Quota(limits), hashlib.sha256(b"clew plugin 1\0")
    for path, name in _walk(folder, "", ignored):
        quota.add_entry(name)
        mode = path.lstat().st_mode
        _add(digest, os.fsencode(name))
        if stat.S_ISLNK(mode):
            _add(digest, b"link")
            _add(digest, os.fsencode(path.readlink()))
        elif stat.S_ISDIR(mode):
            _add(digest, b"folder")
        elif stat.S_ISREG(mode):
            _add(digest, b"program" if mode & 0o111 else b"file")
            _add(digest, _hash_file(path, name, quota))
        else:
            raise ConfigError(f"{show(name)} is not a regular file")
    return digest.hexdigest()


def _add(digest: "hashlib._Hash", piece: bytes) -> None:
    digest.update(len(piece).to_bytes(8, "big"))
    digest.update(piece)


def _hash_file(path: Path, name: str, quota: Quota) -> bytes:
    digest, size = hashlib.sha256(), 0
    with open_regular(path) as stream:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            quota.add_bytes(len(chunk), name, size)
            digest.update(chunk)
    return digest.digest()


def find_generated(folder: Path) -> frozenset[str]:
    """Return the names of `GENERATED` that a folder contains."""
    names = {name.rpartition("/")[2] for path, name in _walk(folder, "") if path.is_dir()}
    return GENERATED & names


def _walk(folder: Path, above: str, ignored: Collection[str] = ()) -> Iterator[tuple[Path, str]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    for entry in entries:
        path, name = folder / entry.name, f"{above}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and entry.name in ignored:
            continue
        yield path, name
        if is_folder:
            yield from _walk(path, f"{name}/", ignored)


def list_files(folder: Path, *, ignored: Collection[str] = ()) -> dict[str, bytes]:
    """Return what each file and link in a folder is, by its path; to compare two versions.

    Args:
        folder: The folder.
        ignored: Names of folders that do not count, wherever they are.

    Raises:
        ConfigError: It contains more than the limits allow.
        OSError: It cannot be read.
    """
    quota, found = Quota(), {}
    for path, name in _walk(folder, "", ignored):
        quota.add_entry(name)
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            found[name] = b"link " + os.fsencode(path.readlink())
        elif stat.S_ISREG(mode):
            kind = b"program " if mode & 0o111 else b"file "
            found[name] = kind + _hash_file(path, name, quota)
    return found


def compare_files(
    before: Mapping[str, bytes], after: Mapping[str, bytes], *, differ: bool
) -> FileChanges:
    """Return which files of two versions differ, from what `list_files` says about each."""
    both = before.keys() & after.keys()
    return FileChanges(
        added=tuple(sorted(after.keys() - both)),
        removed=tuple(sorted(before.keys() - both)),
        changed=tuple(sorted(name for name in both if before[name] != after[name])),
        differ=differ,
    )
