"""The folders that a project's instructions may come from.

Instruction files are searched from the working folder up to the user's home, or up to the root of
the file system if the working folder is outside of it. The folder of a file decides what it may
import:

| the file is | and may import from |
|---|---|
| in the project (its repository, or the working folder if there is none) | the project |
| in a folder above the project | that folder |
| in one of the user's own folders (Clew's, `~/.claude`) | the home folder |

and each may import Markdown from the user's own folders, except files that belong to a single
project there. So an untrusted project cannot put a private key, or the memory of another project,
into a prompt.
"""

import os
import re
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

Zone: TypeAlias = tuple[Path, ...]
"""Folders that files may be imported from."""

_SECRET = re.compile(
    r"\.env(\..*)?|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.htpasswd|\.git-credentials|id_[a-z0-9_]+"
    r"|\.?credentials(\.json)?|.*\.(pem|key|p12|pfx|jks|keystore|kdbx)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"\.env\.(example|sample|template|dist)", re.IGNORECASE)


class InstructionRoots(Struct, frozen=True, kw_only=True):
    """A working folder and the folders that its instructions may come from; paths are resolved."""

    cwd: Path
    project: Path
    """The root of the repository, or `cwd` if there is none."""
    user_home: Path
    own: Zone
    """The user's folders with instructions for all projects."""
    folders: tuple[Path, ...]
    """The folders to search: outermost first, `cwd` last."""

    def zone(self, path: Path, importer: Zone | None = None) -> Zone:
        """Return the folders that the file at `path` may import from.

        Args:
            path: The resolved path of the file.
            importer: The zone of the file that imports it; None for a file that was searched for.
        """
        if path.is_relative_to(self.project):
            return (self.project,)
        if _within(path, self.own):
            return (self.user_home, *self.own)
        if importer is None or self.user_home in importer:
            return (path.parent,)
        return importer

    def refusal(self, path: Path, zone: Zone) -> str:
        """Return why a file with this zone may not import `path`; empty if it may."""
        if is_secret(path.name):
            return "which usually contains secrets; it was refused"
        if _within(path, zone):
            return ""
        if not _within(path, self.own):
            return "which is outside of the project and your own folders; it was refused"
        if _within(path, tuple(folder / "projects" for folder in self.own)):
            return "which belongs to another project; it was refused"
        if path.suffix.lower() != ".md":
            return "but only Markdown may be imported from your own folders; it was refused"
        return ""

    def display_path(self, path: Path) -> str:
        """Return `path` for display: relative to the project, below `~`, or absolute."""
        if path.is_relative_to(self.project):
            return path.relative_to(self.project).as_posix()
        if path.is_relative_to(self.user_home):
            return f"~/{path.relative_to(self.user_home).as_posix()}"
        return path.as_posix()


def find_roots(cwd: Path, *, user_home: Path, clew_home: Path) -> InstructionRoots:
    """Find the folders for `cwd`; from the disk, only the existence of `.git` is read."""
    cwd, user_home, clew_home = (Path(os.path.realpath(p)) for p in (cwd, user_home, clew_home))
    folders = _walk(cwd, user_home)
    return InstructionRoots(
        cwd=cwd,
        project=_project(folders, user_home),
        user_home=user_home,
        own=(clew_home, Path(os.path.realpath(user_home / ".claude"))),
        folders=folders,
    )


def is_secret(name: str) -> bool:
    """Return whether a file with this name usually contains secrets."""
    return _SECRET.fullmatch(name) is not None and _HARMLESS.fullmatch(name) is None


def _walk(cwd: Path, user_home: Path) -> tuple[Path, ...]:
    upward = [cwd, *cwd.parents]
    if user_home in upward:
        upward = upward[: upward.index(user_home) + 1]
    return tuple(reversed(upward))


def _project(folders: tuple[Path, ...], user_home: Path) -> Path:
    """Return the nearest repository; one that contains the home folder is not a project."""
    for folder in reversed(folders):
        has_home = folder == user_home or not folder.name
        if not has_home and os.path.lexists(folder / ".git"):
            return folder
    return folders[-1]


def _within(path: Path, zone: Zone) -> bool:
    return any(path.is_relative_to(folder) for folder in zone)
