"""What a sandbox needs to know of this machine and of the project it is for.

Only what exists is named: bubblewrap cannot mount over a path that is not there.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

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
_DOORS = (
    "/run/containerd",
    "/run/dbus",
    "/run/docker.sock",
    "/run/podman",
    "/run/systemd/private",
    "/run/user",
)
"""Whoever can speak to these can have commands run outside the sandbox."""
_GUARDED = (".claude", ".clew")
_GIT_GUARDED = ("hooks",)
"""What is written here may be run later, outside the sandbox."""


class Grounds(Struct, frozen=True, kw_only=True):
    """The paths that a sandbox treats in a way of their own. All are real: no links."""

    folder: Path
    cwd: Path
    home: Path
    caches: tuple[Path, ...] = ()
    """Of package managers, below the home folder."""
    writable: tuple[Path, ...] = ()
    """Beside the folder and the caches."""
    guarded: tuple[Path, ...] = ()
    """Inside what is writable, but read-only."""
    door_folders: tuple[Path, ...] = ()
    door_files: tuple[Path, ...] = ()
    """Sockets, and folders of sockets, that are hidden."""
    agent: Path | None = None
    """The socket of the SSH agent, which stays reachable while the network is."""


def survey(folder: Path, cwd: Path, extra: tuple[Path, ...] = ()) -> Grounds:
    """Look at the project in `folder`, where a command is about to run in `cwd`.

    Args:
        folder: The project.
        cwd: Where the command runs.
        extra: Other folders that the user made writable.
    """
    folder, home = folder.resolve(), Path.home().resolve()
    temporary = sorted({Path("/tmp"), Path(tempfile.gettempdir())})  # noqa: S108
    git = git_folder(folder)
    doors = _real(*map(Path, _DOORS))
    agent = Path(os.environ.get("SSH_AUTH_SOCK") or "/nowhere")
    return Grounds(
        folder=folder,
        cwd=cwd.resolve(),
        home=home,
        caches=_real(*(home / cache for cache in _CACHES)),
        writable=_real(*temporary, *extra, *((git,) if git else ())),
        guarded=_real(
            *(folder / name for name in _GUARDED),
            *((git / name for name in _GIT_GUARDED) if git else ()),
        ),
        door_folders=tuple(door for door in doors if door.is_dir()),
        door_files=tuple(door for door in doors if not door.is_dir()),
        agent=agent.resolve() if agent.is_socket() else None,
    )


def git_folder(folder: Path) -> Path | None:
    """Return where git keeps the history of the project in `folder`, if it has one.

    That may be outside the project, when this is a part of a repository or a worktree.
    A link is not followed, and what a worktree's `.git` file says is believed only when
    the repository says so too: both can be made from inside a sandbox, and would open any
    folder to it.
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
    except (OSError, ValueError):
        return None
    return git if known and (git / "HEAD").is_file() and (git / "objects").is_dir() else None


def _real(*paths: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(_existing(paths)))


def _existing(paths: tuple[Path, ...]) -> Iterator[Path]:
    for path in paths:
        try:
            yield path.resolve(strict=True)
        except (OSError, RuntimeError):
            continue
