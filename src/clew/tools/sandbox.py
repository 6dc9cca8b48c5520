"""What a sandbox needs to know of this machine and of the project it is for.

Only what exists is named: bubblewrap cannot mount over a path that is not there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Literal

from msgspec import Struct

from clew.core.errors import ConfigError

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


class SandboxPaths(Struct, frozen=True, kw_only=True):
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


def find_sandbox_paths(folder: Path, cwd: Path, extra: tuple[Path, ...] = ()) -> SandboxPaths:
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
    return SandboxPaths(
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


_PROBE_SECONDS = 10
_INSTALL = "install it with your package manager, for example: apt install bubblewrap"
_FORBIDDEN = (
    "the system or the container around it may forbid user namespaces, see "
    "kernel.apparmor_restrict_unprivileged_userns and kernel.unprivileged_userns_clone"
)


class SandboxMode(StrEnum):
    """Whether commands run in a sandbox."""

    OFF = "off"
    ON = "on"
    """Always: where that is impossible nothing runs."""
    AUTO = "auto"
    """Where it works."""


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """What a sandbox allows."""

    mode: SandboxMode = SandboxMode.AUTO
    network: bool = True
    home: Literal["read-only", "hidden"] = "read-only"
    """A hidden home is empty but for the project: no keys, and no programs installed there."""
    writable: tuple[Path, ...] = ()
    """Folders beside the project, the temporary ones and package caches."""


class Sandbox:
    """Puts command lines into bubblewrap. Making one tries it out, once."""

    def __init__(self, policy: SandboxPolicy | None = None, *, program: str = "bwrap") -> None:
        """Try the sandbox out.

        Raises:
            ConfigError: It must be on, and cannot be; the message says what to do.
        """
        self.policy = policy or SandboxPolicy()
        self._program = shutil.which(program) or ""
        self.problem = self._find_problem(program)
        """Why commands run without a sandbox; empty when they run in one."""
        if self.policy.mode is SandboxMode.ON and self.problem:
            raise ConfigError(f"commands shall run in a sandbox, but {self.problem}")

    @property
    def active(self) -> bool:
        """Do commands run in the sandbox?"""
        return not self.problem

    def describe(self) -> str:
        """Say in a sentence or two, to a person or a model, what commands can do."""
        if self.problem:
            return f"Commands run without a sandbox: {self.problem}."
        others = "".join(f", {path}" for path in self.policy.writable)
        return (
            f"Commands run in a sandbox: they can write only in the working folder{others}, "
            f"temporary folders and package caches; the network is "
            f"{'on' if self.policy.network else 'off'}; the home folder is {self.policy.home}. "
            "What they start ends with them."
        )

    def unsuited(self, folder: Path) -> str:
        """Say why the sandbox cannot serve the project in `folder`, or nothing if it can."""
        # Inside, no user but the own one exists, and root has no power over others' files.
        if os.getuid() == 0 and folder.stat().st_uid != 0:
            return "the working folder belongs to another user, so root cannot write there inside"
        return ""

    def wrap(self, command: Sequence[str], *, folder: Path, cwd: Path) -> list[str]:
        """Return the command line that runs `command` inside.

        Args:
            command: The program and its arguments.
            folder: The project; it can be written.
            cwd: Where the command runs.
        """
        grounds = find_sandbox_paths(folder, cwd, self.policy.writable)
        return [self._program, *arguments(self.policy, grounds), "--", *command]

    def _find_problem(self, program: str) -> str:
        if self.policy.mode is SandboxMode.OFF:
            return "it is switched off"
        if sys.platform != "linux":
            return "there is one for Linux only"
        if not self._program:
            return f"bubblewrap ({program}) is not installed; {_INSTALL}"
        return self._try_out()

    def _try_out(self) -> str:
        here = Path(tempfile.gettempdir())
        try:
            ran = subprocess.run(  # noqa: S603
                self.wrap(["true"], folder=here, cwd=here),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap does not run here: {error}"
        if ran.returncode == 0:
            return ""
        said = ran.stderr.decode(errors="replace").strip() or f"exit code {ran.returncode}"
        return f"bubblewrap does not work here ({said}); {_FORBIDDEN}"


def arguments(policy: SandboxPolicy, grounds: SandboxPaths) -> list[str]:
    """Return bubblewrap's options.

    No new session is asked for: the caller's group must be the one that signals reach, and
    there is no terminal to protect.
    """
    made = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent"]
    # Inside, root would keep the power to mount everything anew.
    made += ["--cap-drop", "ALL"]
    if not policy.network:
        made.append("--unshare-net")
    made += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    mounts = _mounts(policy, grounds)
    # A mount covers what is below it, so what is deeper comes later.
    for path in sorted(mounts, key=lambda path: (len(path.parts), path)):
        made += [*mounts[path], str(path)]
    return [*made, "--chdir", str(grounds.cwd)]


def _mounts(policy: SandboxPolicy, grounds: SandboxPaths) -> dict[Path, tuple[str, ...]]:
    hidden = policy.home == "hidden" and grounds.home != Path("/")
    writable = (*grounds.writable, grounds.folder)
    if not hidden:
        writable = (*grounds.caches, *writable)
    if policy.network and grounds.agent is not None:
        writable = (*writable, grounds.agent)
    empty = (*grounds.door_folders, *((grounds.home,) if hidden else ()))
    return {
        **dict.fromkeys(empty, ("--tmpfs",)),
        **dict.fromkeys(grounds.door_files, ("--ro-bind", "/dev/null")),
        **{path: ("--bind", str(path)) for path in writable},
        **{path: ("--ro-bind", str(path)) for path in grounds.guarded},
    }
