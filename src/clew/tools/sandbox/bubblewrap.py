"""The sandbox of bubblewrap: new namespaces, with mounts that hide or protect paths."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from clew.tools.sandbox.policy import SandboxPaths, SandboxPolicy

_INSTALL = "install it with your package manager, for example: apt install bubblewrap"
_FORBIDDEN = (
    "the system or the container around it may forbid user namespaces, see "
    "kernel.apparmor_restrict_unprivileged_userns and kernel.unprivileged_userns_clone"
)
_NO_FILE = ("--ro-bind", "/dev/null")
"""Bubblewrap mounts without devices, so `/dev/null` over a file cannot be opened."""
_NO_FOLDER = ("--perms", "0555", "--tmpfs")


class Bubblewrap:
    """Wraps command lines in bubblewrap."""

    name = "bubblewrap"
    ends_processes = True

    def __init__(self, program: str = "bwrap") -> None:
        self._wanted = program
        self._program = shutil.which(program) or ""

    def find_problem(self, policy: SandboxPolicy) -> str:
        """Return why bubblewrap cannot be tried here."""
        del policy
        if sys.platform != "linux":
            return "bubblewrap exists on Linux only"
        if not self._program:
            return f"bubblewrap ({self._wanted}) is not installed; {_INSTALL}"
        return ""

    def explain_failure(self, message: str) -> str:
        """Return why a trial failed."""
        return f"bubblewrap does not work here ({message}); {_FORBIDDEN}"

    def explain_unsuited(self, folder: Path) -> str:
        """Return why bubblewrap does not work for the project in `folder`."""
        return explain_other_owner(folder)

    def describe_limits(self, policy: SandboxPolicy) -> str:
        """Return nothing: mounts cover whatever exists when a command starts."""
        del policy
        return ""

    def wrap(
        self, command: Sequence[str], *, policy: SandboxPolicy, paths: SandboxPaths
    ) -> list[str]:
        """Return the command line that runs `command` in new namespaces."""
        return [self._program, *bubblewrap_options(policy, paths), "--", *command]


def explain_other_owner(folder: Path) -> str:
    """Return why a user namespace of root cannot write to `folder`, or an empty string."""
    # Inside, only the current user exists, and root cannot write files of other users.
    if os.getuid() == 0 and folder.stat().st_uid != 0:
        return "the working folder belongs to another user, so root cannot write there inside"
    return ""


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
    # Only now: mount points inside an empty folder must be made first.
    for path in sorted(paths.hidden):
        if mounts.get(path) == _NO_FOLDER:
            made += ["--remount-ro", str(path)]
    return [*made, "--chdir", str(paths.cwd)]


def _mounts(policy: SandboxPolicy, paths: SandboxPaths) -> dict[Path, tuple[str, ...]]:
    hidden = policy.home == "hidden" and paths.home != Path("/")
    writable = (*paths.writable, paths.folder)
    if not hidden:
        writable = (*paths.caches, *writable)
    if policy.network and paths.agent is not None:
        writable = (*writable, paths.agent)
    empty = (*paths.socket_folders, *((paths.home,) if hidden else ()))
    usual = {
        **dict.fromkeys(empty, ("--tmpfs",)),
        **dict.fromkeys(paths.socket_files, _NO_FILE),
        **{path: ("--bind", str(path)) for path in writable},
        **{path: ("--ro-bind", str(path)) for path in paths.guarded},
    }
    return _forbid(usual, paths)


def _forbid(
    mounts: dict[Path, tuple[str, ...]], paths: SandboxPaths
) -> dict[Path, tuple[str, ...]]:
    """Add mounts for forbidden paths, and remove those that would open something inside them."""
    forbidden: dict[Path, tuple[str, ...]] = {
        path: ("--ro-bind", str(path)) for path in paths.read_only
    }
    for path in paths.hidden:
        forbidden[path] = _NO_FOLDER if path.is_dir() else _NO_FILE
    kept = {
        path: mount
        for path, mount in mounts.items()
        if not any(path.is_relative_to(each) for each in forbidden)
    }
    inside_hidden = {
        path
        for path in forbidden
        if any(path != each and path.is_relative_to(each) for each in paths.hidden)
    }
    return {**kept, **{path: forbidden[path] for path in forbidden.keys() - inside_hidden}}
