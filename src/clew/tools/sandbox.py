"""Runs commands in a bubblewrap sandbox, where bubblewrap is installed and works.

Inside, commands can read the whole file system and write only to the project, temporary folders
and package caches. Processes see only each other and end with the command. The sandbox limits
accidents and injected commands. It does not protect against bugs in the kernel, nor does it
protect `.git/config`, which git must be able to write.
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

_PROBE_SECONDS = 10
_INSTALL = "install it with your package manager, for example: apt install bubblewrap"
_FORBIDDEN = (
    "the system or the container around it may forbid user namespaces, see "
    "kernel.apparmor_restrict_unprivileged_userns and kernel.unprivileged_userns_clone"
)
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
_GUARDED = (".claude", ".clew")
_GIT_GUARDED = ("hooks",)
"""Files in these folders may run later, outside the sandbox."""


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

    Only existing paths are listed: bubblewrap cannot mount over a missing one.
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


class Sandbox:
    """Wraps command lines in bubblewrap. The constructor checks once whether that works."""

    def __init__(self, policy: SandboxPolicy | None = None, *, program: str = "bwrap") -> None:
        """Check whether the sandbox works.

        Raises:
            ConfigError: The policy requires a sandbox that does not work; the message says what
                to do.
        """
        self.policy = policy or SandboxPolicy()
        self._program = shutil.which(program) or ""
        self.problem = self._find_problem(program)
        """Why commands run without a sandbox; empty if they run in one."""
        if self.policy.mode is SandboxMode.ON and self.problem:
            raise ConfigError(f"the settings require a sandbox, but {self.problem}")

    @property
    def active(self) -> bool:
        """Do commands run in the sandbox?"""
        return not self.problem

    def describe(self) -> str:
        """Return one or two sentences for the user or the model on what commands can do."""
        if self.problem:
            return f"Commands run without a sandbox: {self.problem}."
        others = "".join(f", {path}" for path in self.policy.writable)
        return (
            f"Commands run in a sandbox: they can write only in the working folder{others}, "
            f"temporary folders and package caches; the network is "
            f"{'on' if self.policy.network else 'off'}; the home folder is {self.policy.home}. "
            "Processes that they start end with them."
        )

    def explain_unsuited(self, folder: Path) -> str:
        """Return why the sandbox does not work for the project in `folder`, or an empty string."""
        # Inside, only the current user exists, and root cannot write files of other users.
        if os.getuid() == 0 and folder.stat().st_uid != 0:
            return "the working folder belongs to another user, so root cannot write there inside"
        return ""

    def wrap(self, command: Sequence[str], *, folder: Path, cwd: Path) -> list[str]:
        """Return the command line that runs `command` in the sandbox.

        Args:
            command: The program and its arguments.
            folder: The project, which is writable.
            cwd: The working directory of the command.
        """
        paths = find_sandbox_paths(folder, cwd, self.policy.writable)
        return [self._program, *bubblewrap_options(self.policy, paths), "--", *command]

    def _find_problem(self, program: str) -> str:
        if self.policy.mode is SandboxMode.OFF:
            return "it is switched off"
        if sys.platform != "linux":
            return "it exists on Linux only"
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


def bubblewrap_options(policy: SandboxPolicy, paths: SandboxPaths) -> list[str]:
    """Return bubblewrap's options.

    There is no new terminal session: signals must reach the process group of the caller, and
    there is no terminal to protect.
    """
    made = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent"]
    # Otherwise root could remount everything inside.
    made += ["--cap-drop", "ALL"]
    if not policy.network:
        made.append("--unshare-net")
    made += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    mounts = _mounts(policy, paths)
    # A mount hides everything below it, so deeper paths come later.
    for path in sorted(mounts, key=lambda path: (len(path.parts), path)):
        made += [*mounts[path], str(path)]
    return [*made, "--chdir", str(paths.cwd)]


def _mounts(policy: SandboxPolicy, paths: SandboxPaths) -> dict[Path, tuple[str, ...]]:
    hidden = policy.home == "hidden" and paths.home != Path("/")
    writable = (*paths.writable, paths.folder)
    if not hidden:
        writable = (*paths.caches, *writable)
    if policy.network and paths.agent is not None:
        writable = (*writable, paths.agent)
    empty = (*paths.socket_folders, *((paths.home,) if hidden else ()))
    return {
        **dict.fromkeys(empty, ("--tmpfs",)),
        **dict.fromkeys(paths.socket_files, ("--ro-bind", "/dev/null")),
        **{path: ("--bind", str(path)) for path in writable},
        **{path: ("--ro-bind", str(path)) for path in paths.guarded},
    }


def find_sandbox_paths(folder: Path, cwd: Path, extra: tuple[Path, ...] = ()) -> SandboxPaths:
    """Find the paths for a command that runs in `cwd`.

    Args:
        folder: The project.
        cwd: The working directory of the command.
        extra: Other folders that the user made writable.
    """
    folder, home = folder.resolve(), Path.home().resolve()
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
    except (OSError, ValueError):
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
