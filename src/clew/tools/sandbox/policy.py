"""What a sandbox allows, and the paths that it treats specially."""

import os
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Literal

from msgspec import Struct

from clew.core.permissions import DeniedPaths

_CACHES = (
    ".bun/install/cache",
    ".cache",
    ".cargo/git",
    ".cargo/registry",
    ".gradle/caches",
    ".local/share/pnpm",
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    ".yarn",
    "go/pkg",
)
_SOCKETS = (
    "/run/containerd",
    "/run/dbus",
    "/run/docker.sock",
    "/run/podman",
    "/run/systemd/private",
    "/run/user",
)
"""Services behind these sockets can run commands outside the sandbox."""
_SYSTEM = ("/dev", "/proc", "/sys")
_GUARDED = (".claude", ".clew", ".mcp.json", "clew.toml")
_GIT_GUARDED = ("hooks",)
"""What is there may run later, outside the sandbox."""


class SandboxMode(StrEnum):
    """Whether commands run in a sandbox."""

    OFF = "off"
    ON = "on"
    """Always: if the sandbox does not work, no command runs."""
    AUTO = "auto"
    """If the sandbox works."""


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """What a sandbox allows."""

    mode: SandboxMode = SandboxMode.AUTO
    network: bool = True
    home: Literal["read-only", "hidden"] = "read-only"
    """A hidden home is empty except for the project: no keys, and no programs installed there."""
    writable: tuple[Path, ...] = ()
    """Writable folders besides the project, temporary folders and package caches."""


class SandboxPaths(Struct, frozen=True, kw_only=True):
    """The paths that a sandbox treats specially, all of them resolved.

    Only existing paths are listed: nothing can be mounted over a missing one.
    """

    folder: Path
    cwd: Path
    home: Path
    caches: tuple[Path, ...] = ()
    """Caches of package managers, in the home folder."""
    writable: tuple[Path, ...] = ()
    """Writable folders besides the project and the caches."""
    guarded: tuple[Path, ...] = ()
    """Read-only folders inside writable ones."""
    socket_folders: tuple[Path, ...] = ()
    socket_files: tuple[Path, ...] = ()
    """Hidden sockets, and hidden folders of sockets."""
    agent: Path | None = None
    """The socket of the SSH agent, which is reachable as long as the network is."""
    hidden: tuple[Path, ...] = ()
    """Files and folders that rules forbid to read: they cannot be opened at all."""
    read_only: tuple[Path, ...] = ()
    """Files and folders that rules forbid to change."""


def find_sandbox_paths(
    folder: Path,
    cwd: Path,
    extra: tuple[Path, ...] = (),
    denied: DeniedPaths = DeniedPaths(),  # noqa: B008 - frozen
) -> SandboxPaths:
    """Find the paths for a command that runs in `cwd`.

    Args:
        folder: The project.
        cwd: The working directory of the command.
        extra: Other folders that the user made writable.
        denied: Paths that rules forbid; those that contain the project cannot be protected.
    """
    # Not `Path.resolve`, which raises an error for a circle of links.
    folder, home = (Path(os.path.realpath(place)) for place in (folder, Path.home()))
    temporary = sorted({Path("/tmp"), Path(tempfile.gettempdir())})  # noqa: S108
    git = find_git_folder(folder)
    sockets = _resolve_existing(*map(Path, _SOCKETS))
    agent = Path(os.environ.get("SSH_AUTH_SOCK") or "/nowhere")
    return SandboxPaths(
        folder=folder,
        cwd=cwd.resolve(),
        home=home,
        caches=_resolve_existing(*(home / cache for cache in _CACHES)),
        writable=_resolve_existing(*temporary, *extra, *((git,) if git else ())),
        guarded=_resolve_existing(
            *(folder / name for name in _GUARDED),
            *((git / name for name in _GIT_GUARDED) if git else ()),
        ),
        socket_folders=tuple(path for path in sockets if path.is_dir()),
        socket_files=tuple(path for path in sockets if not path.is_dir()),
        agent=agent.resolve() if agent.is_socket() else None,
        hidden=_protectable(denied.hidden, folder),
        read_only=_protectable(denied.read_only, folder),
    )


def _protectable(paths: tuple[str, ...], folder: Path) -> tuple[Path, ...]:
    found = _resolve_existing(*map(Path, paths))
    return tuple(
        path
        for path in found
        if not folder.is_relative_to(path) and not any(map(path.is_relative_to, _SYSTEM))
    )


def find_git_folder(folder: Path) -> Path | None:
    """Return git's folder for the project in `folder`, if there is one.

    It may be outside the project, when that is part of a repository or a worktree. A symbolic
    link is not followed, and a worktree's `.git` file counts only if the repository refers back
    to it: a command in the sandbox can create both, and would open any folder to itself.
    """
    mark = next((up / ".git" for up in (folder, *folder.parents) if (up / ".git").exists()), None)
    if mark is None or mark.is_symlink():
        return None
    if mark.is_dir():
        return mark
    try:
        own = (mark.parent / mark.read_text().removeprefix("gitdir:").strip()).resolve()
        back = Path((own / "gitdir").read_text().strip())
        git = own.parent.parent
        known = own.parent.name == "worktrees" and back.resolve() == mark.resolve()
    except (OSError, RuntimeError, ValueError):
        return None
    return git if known and (git / "HEAD").is_file() and (git / "objects").is_dir() else None


def _resolve_existing(*paths: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(_iter_existing(paths)))


def _iter_existing(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        try:
            yield path.resolve(strict=True)
        except (OSError, RuntimeError):
            continue
