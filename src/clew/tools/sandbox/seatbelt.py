"""The sandbox of macOS: a profile for `sandbox-exec`, in which the last matching rule decides."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from clew.tools.sandbox.policy import SandboxPaths, SandboxPolicy

_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/dtracehelper", "/dev/stdout", "/dev/stderr")
_TEMPORARY = ("/private/tmp", "/private/var/folders", "/private/var/tmp")


class Seatbelt:
    """Wraps command lines in `sandbox-exec`."""

    name = "seatbelt"
    ends_processes = False

    def __init__(self, program: str = "sandbox-exec") -> None:
        self._program = shutil.which(program) or ""

    def find_problem(self, policy: SandboxPolicy) -> str:
        """Return why seatbelt cannot be tried here."""
        del policy
        if sys.platform != "darwin":
            return "seatbelt exists on macOS only"
        return "" if self._program else "sandbox-exec is missing"

    def explain_failure(self, message: str) -> str:
        """Return why a trial failed."""
        return f"sandbox-exec does not work here ({message})"

    def explain_unsuited(self, folder: Path) -> str:
        """Return nothing: seatbelt works in every folder."""
        del folder
        return ""

    def describe_limits(self, policy: SandboxPolicy) -> str:
        """Return nothing: rules cover whatever is at a path."""
        del policy
        return ""

    def wrap(
        self, command: Sequence[str], *, policy: SandboxPolicy, paths: SandboxPaths
    ) -> list[str]:
        """Return the command line that runs `command` under a profile."""
        return [self._program, "-p", seatbelt_profile(policy, paths), *command]


def seatbelt_profile(policy: SandboxPolicy, paths: SandboxPaths) -> str:
    """Return the profile for a command.

    A rule holds for the real path, so links and renamed folders do not open anything.
    """
    return "\n".join(_rules(policy, paths)) + "\n"


def _rules(policy: SandboxPolicy, paths: SandboxPaths) -> Iterator[str]:
    yield "(version 1)"
    yield "(allow default)"
    if not policy.network:
        yield "(deny network*)"
    hides_home = policy.home == "hidden" and paths.home != Path("/")
    yield "(deny file-write*)"
    if hides_home:
        yield f"(deny file-read* {_subpath(paths.home)})"
    caches = () if hides_home else paths.caches
    writable = (*map(Path, _TEMPORARY), *caches, *paths.writable, paths.folder)
    yield f"(allow file-write* {' '.join(map(_subpath, dict.fromkeys(writable)))})"
    yield f"(allow file-write* {' '.join(_literal(Path(name)) for name in _DEVICES)})"
    yield f"(allow file-read* {' '.join(map(_subpath, dict.fromkeys(writable)))})"
    sockets = (*paths.socket_folders, *paths.socket_files)
    if sockets:
        yield f"(deny file* network-outbound {' '.join(map(_subpath, sockets))})"
    # The last rule that matches decides, so what is forbidden comes last.
    protected = (*paths.guarded, *paths.read_only)
    if protected:
        yield f"(deny file-write* {' '.join(map(_subpath, protected))})"
    if paths.hidden:
        yield f"(deny file* {' '.join(map(_subpath, paths.hidden))})"
    for path in _parents((*protected, *paths.hidden)):
        # A folder above cannot be moved away, or its content would be under another path.
        yield f"(deny file-write-unlink {_literal(path)})"


def _parents(paths: Sequence[Path]) -> list[Path]:
    return sorted({parent for path in paths for parent in path.parents})


def _subpath(path: Path) -> str:
    return f"(subpath {_quote(path)})"


def _literal(path: Path) -> str:
    return f"(literal {_quote(path)})"


def _quote(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
