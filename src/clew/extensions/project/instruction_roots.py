"""The folders a project's instructions may come from.

The walk goes from the working folder up to the user's home, or up to the root of the file
system when the working folder is outside it. What a file may import depends on where it is:

| the file is | and may import from |
|---|---|
| in the project (its repository, or the working folder if there is none) | the project |
| in a folder above the project | that folder |
| in one of the user's own folders (Clew's, `~/.claude`) | the home folder |

and each may import Markdown from the user's own folders, but nothing that is kept there for a
single project. So a project that nobody has looked at yet cannot carry a private key, or what
another project remembers, into a prompt.
"""

import os
import re
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

Zone: TypeAlias = tuple[Path, ...]
"""Folders from which something may be read."""

_SECRET = re.compile(
    r"\.env(\..*)?|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.htpasswd|\.git-credentials|id_[a-z0-9_]+"
    r"|\.?credentials(\.json)?|.*\.(pem|key|p12|pfx|jks|keystore|kdbx)",
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"\.env\.(example|sample|template|dist)", re.IGNORECASE)


class InstructionRoots(Struct, frozen=True, kw_only=True):
    """One working folder and what is around it; every path is resolved."""

    cwd: Path
    project: Path
    """The root of the repository, or `cwd` where there is none."""
    user_home: Path
    own: Zone
    """The folders in which the user keeps instructions for all projects."""
    folders: tuple[Path, ...]
    """The walk: outermost first, `cwd` last."""

    def zone(self, path: Path, importer: Zone | None = None) -> Zone:
        """Return what the file at `path` may import from.

        Args:
            path: Where the file really is.
            importer: The zone of the file that imported it; None for a file of the walk.
        """
        if path.is_relative_to(self.project):
            return (self.project,)
        if _within(path, self.own):
            return (self.user_home, *self.own)
        if importer is None or self.user_home in importer:
            return (path.parent,)
        return importer

    def refusal(self, path: Path, zone: Zone) -> str:
        """Say why a file with this zone may not import the one at `path`; empty if it may."""
        if is_secret(path.name):
            return "which usually holds secrets; it was refused"
        if _within(path, zone):
            return ""
        if not _within(path, self.own):
            return "which leads out of the project and of your own folders; it was refused"
        if _within(path, tuple(folder / "projects" for folder in self.own)):
            return "which is kept for one project and not for others; it was refused"
        if path.suffix.lower() != ".md":
            return "but only Markdown may be imported from your own folders; it was refused"
        return ""

    def shown(self, path: Path) -> str:
        """Return `path` as a reader knows it: below the project, below `~`, or whole."""
        if path.is_relative_to(self.project):
            return path.relative_to(self.project).as_posix()
        if path.is_relative_to(self.user_home):
            return f"~/{path.relative_to(self.user_home).as_posix()}"
        return path.as_posix()


def find_roots(cwd: Path, *, user_home: Path, clew_home: Path) -> InstructionRoots:
    """Look at what is around `cwd`; only the existence of `.git` is asked of the disk."""
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
    """Does a file of this name usually hold what nobody wants in a prompt?"""
    return _SECRET.fullmatch(name) is not None and _HARMLESS.fullmatch(name) is None


def _walk(cwd: Path, user_home: Path) -> tuple[Path, ...]:
    upward = [cwd, *cwd.parents]
    if user_home in upward:
        upward = upward[: upward.index(user_home) + 1]
    return tuple(reversed(upward))


def _project(folders: tuple[Path, ...], user_home: Path) -> Path:
    """Return the nearest repository; one that holds the whole home folder is no project."""
    for folder in reversed(folders):
        holds_all = folder == user_home or not folder.name
        if not holds_all and os.path.lexists(folder / ".git"):
            return folder
    return folders[-1]


def _within(path: Path, zone: Zone) -> bool:
    return any(path.is_relative_to(folder) for folder in zone)
