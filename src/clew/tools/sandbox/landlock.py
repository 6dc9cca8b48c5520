"""The sandbox of the Linux kernel (Landlock): a process gives up rights before it runs a command.

It needs no other program. Landlock only grants rights to whole folders, so a forbidden path inside
a writable folder needs a mount over it, in a user namespace. Where the kernel forbids these, the
folders above the path are opened entry by entry: commands then cannot create files in them.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from clew.tools.sandbox import landlock_exec
from clew.tools.sandbox.bubblewrap import explain_other_owner
from clew.tools.sandbox.policy import SandboxPaths, SandboxPolicy

_DEVICES = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"),
    *("/dev/ptmx", "/dev/pts", "/dev/shm"),  # noqa: S108
)
_TRUNCATE_VERSION = 3
"""The first version of Landlock that can forbid to truncate a file."""
_TCP_VERSION = 4
"""The first version of Landlock that can forbid TCP."""


class Landlock:
    """Wraps command lines in a program that restricts itself."""

    name = "Landlock"
    ends_processes = False

    def __init__(self, *, namespaces: bool | None = None) -> None:
        """Prepare the sandbox.

        Args:
            namespaces: Whether to use user namespaces for mounts; None tries it out.
        """
        self._version = landlock_exec.get_version() if sys.platform == "linux" else 0
        self._wanted = namespaces
        self._namespaces = False

    def find_problem(self, policy: SandboxPolicy) -> str:
        """Return why Landlock cannot be tried here."""
        if sys.platform != "linux":
            return "Landlock exists on Linux only"
        if self._version < 1:
            return "the kernel has no Landlock, or it is switched off (Linux 5.13 or newer has it)"
        self._namespaces = (
            landlock_exec.can_use_namespaces() if self._wanted is None else self._wanted
        )
        if not policy.network and not self._namespaces and self._version < _TCP_VERSION:
            return "this version of Landlock cannot switch the network off (Linux 6.7 or newer can)"
        return ""

    def explain_failure(self, message: str) -> str:
        """Return why a trial failed."""
        return f"Landlock does not work here ({message})"

    def explain_unsuited(self, folder: Path) -> str:
        """Return why Landlock does not work for the project in `folder`."""
        return explain_other_owner(folder) if self._namespaces else ""

    def describe_limits(self, policy: SandboxPolicy) -> str:
        """Return what Landlock does not cover on this kernel."""
        if self._namespaces:
            return ""
        network = "" if policy.network else " Only TCP is switched off."
        truncate = (
            "" if self._version >= _TRUNCATE_VERSION else " Forbidden files can be truncated."
        )
        return (
            "Commands cannot create files in a folder that contains a forbidden path. Names and "
            "permissions of forbidden files, .clew, .claude and local sockets are not "
            f"protected.{network}{truncate}"
        )

    def wrap(
        self, command: Sequence[str], *, policy: SandboxPolicy, paths: SandboxPaths
    ) -> list[str]:
        """Return the command line that runs `command` restricted."""
        access, masks = self._access(policy, paths)
        request = {
            "access": access,
            "masks": masks,
            "namespaces": self._namespaces,
            "network": policy.network,
            "cwd": str(paths.cwd),
        }
        program = str(Path(landlock_exec.__file__))
        return [sys.executable, "-I", "-S", program, json.dumps(request), *command]

    def _access(
        self, policy: SandboxPolicy, paths: SandboxPaths
    ) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Return the rights by path, and the mounts: `-` none, `r` read, `w` write."""
        hides_home = policy.home == "hidden" and paths.home != Path("/")
        access: dict[Path, str] = {Path("/"): "r", Path("/dev"): "-"}
        access |= {Path(device): "w" for device in _DEVICES if Path(device).exists()}
        if hides_home:
            access[paths.home] = "-"
        caches = () if hides_home else paths.caches
        access |= dict.fromkeys((*caches, *paths.writable, paths.folder), "w")
        forbidden = dict(_forbidden(paths))
        access = {
            path: right
            for path, right in access.items()
            if not any(path != each and path.is_relative_to(each) for each in forbidden)
        }
        if not self._namespaces:
            access |= forbidden
            return {str(path): right for path, right in access.items()}, []
        masked = {
            **dict.fromkeys((*paths.socket_folders, *paths.socket_files), "-"),
            **dict.fromkeys(paths.guarded, "r"),
            **forbidden,
        }
        masks = [(str(path), masked[path]) for path in sorted(masked, key=lambda p: len(p.parts))]
        return {str(path): right for path, right in access.items()}, masks


def _forbidden(paths: SandboxPaths) -> Iterator[tuple[Path, str]]:
    for path in paths.read_only:
        yield path, "r"
    for path in paths.hidden:
        yield path, "-"
