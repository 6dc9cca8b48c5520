"""Chooses the sandbox that works on this machine, and wraps command lines in it.

A trial decides, not a version: a command is started in the sandbox with a forbidden file, and must
neither read nor change it. What worked once is not tried again in this process.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from clew.core.errors import ConfigError
from clew.core.permissions import DeniedPaths
from clew.tools.sandbox.bubblewrap import Bubblewrap
from clew.tools.sandbox.policy import SandboxMode, SandboxPolicy, find_sandbox_paths
from clew.tools.sandbox.protocol import SandboxBackend
from clew.tools.sandbox.seatbelt import Seatbelt

_PROBE_SECONDS = 10
_NOTHING_DENIED = DeniedPaths()
_STARTED = "started"


class _NoneWorks(Exception):
    """No mechanism works; the text says why."""


class Sandbox:
    """Wraps command lines. The constructor tries out which sandbox works."""

    def __init__(
        self,
        policy: SandboxPolicy | None = None,
        *,
        program: str = "bwrap",
        backends: Sequence[SandboxBackend] | None = None,
    ) -> None:
        """Find out which sandbox works.

        Args:
            policy: What commands may do.
            program: The program bubblewrap.
            backends: The mechanisms to try, the best one first; None for those of the system.

        Raises:
            ConfigError: The policy requires a sandbox and none works; the message says what to do.
        """
        self.policy = policy or SandboxPolicy()
        self._backend: SandboxBackend | None = None
        self.problem = ""
        """Why commands run without a sandbox; empty if they run in one."""
        try:
            if backends is None:
                found = shutil.which(program) or program
                self._backend = _choose_usual(self.policy, found)
            else:
                self._backend = _choose(self.policy, backends)
        except _NoneWorks as error:
            self.problem = str(error)
        if self.policy.mode is SandboxMode.ON and self.problem:
            raise ConfigError(f"the settings require a sandbox, but {self.problem}")

    @property
    def active(self) -> bool:
        """Do commands run in the sandbox?"""
        return self._backend is not None

    @property
    def name(self) -> str:
        """The mechanism in use: `bubblewrap`, `Landlock`, `seatbelt`, or an empty string."""
        return self._backend.name if self._backend else ""

    @property
    def ends_processes(self) -> bool:
        """Do processes that a command leaves behind end with it?"""
        return self._backend is not None and self._backend.ends_processes

    def describe(self) -> str:
        """Return a few sentences for the user or the model on what commands can do."""
        if self._backend is None:
            return f"Commands run without a sandbox: {self.problem}."
        others = "".join(f", {path}" for path in self.policy.writable)
        ends = "Processes that they start end with them." if self.ends_processes else ""
        return " ".join(
            filter(
                None,
                (
                    f"Commands run in a sandbox ({self.name}): they can write only in the working "
                    f"folder{others}, temporary folders and package caches; the network is "
                    f"{'on' if self.policy.network else 'off'}; the home folder is "
                    f"{self.policy.home}; files that deny rules name are unreachable.",
                    ends,
                    self.describe_limits(),
                ),
            )
        )

    def describe_limits(self) -> str:
        """Return what the sandbox does not cover on this machine, or an empty string."""
        return self._backend.describe_limits(self.policy) if self._backend else ""

    def explain_unsuited(self, folder: Path) -> str:
        """Return why the sandbox does not work for the project in `folder`, or an empty string."""
        return self._backend.explain_unsuited(folder) if self._backend else ""

    def wrap(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        cwd: Path,
        denied: DeniedPaths = _NOTHING_DENIED,
    ) -> list[str]:
        """Return the command line that runs `command` in the sandbox.

        Args:
            command: The program and its arguments.
            folder: The project, which is writable.
            cwd: The working directory of the command.
            denied: Paths that the command must not reach.
        """
        if self._backend is None:
            return list(command)
        paths = find_sandbox_paths(folder, cwd, self.policy.writable, denied)
        return self._backend.wrap(command, policy=self.policy, paths=paths)


@lru_cache(maxsize=64)
def _choose_usual(policy: SandboxPolicy, program: str) -> SandboxBackend:
    """Return the mechanism of the system that works. Starts processes for the first session only.

    If it stops working later, commands fail in it, and none runs unprotected.

    Raises:
        _NoneWorks: There is none. That is not cached: it can be installed at any time.
    """
    return _choose(policy, _usual(program))


def _choose(policy: SandboxPolicy, backends: Sequence[SandboxBackend]) -> SandboxBackend:
    """Return the first mechanism that works.

    Raises:
        _NoneWorks: There is none.
    """
    if policy.mode is SandboxMode.OFF:
        raise _NoneWorks("it is switched off")
    problems = []
    for backend in backends:
        problem = backend.find_problem(policy) or _try_out(backend, policy)
        if not problem:
            return backend
        problems.append(problem)
    raise _NoneWorks("; ".join(problems) or "there is none for this system")


def _try_out(backend: SandboxBackend, policy: SandboxPolicy) -> str:
    """Return why a mechanism does not keep a forbidden file from a command."""
    with tempfile.TemporaryDirectory(prefix="clew-sandbox-") as place:
        folder = Path(place).resolve()
        secret, canary = os.urandom(8).hex(), folder / "canary"
        canary.write_text(secret)
        paths = find_sandbox_paths(folder, folder, (), DeniedPaths(hidden=(str(canary),)))
        attempt = f"echo {_STARTED}; cat canary; echo changed > canary; true"
        command = backend.wrap(["sh", "-c", attempt], policy=policy, paths=paths)
        try:
            ran = subprocess.run(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return backend.explain_failure(str(error))
        if ran.returncode != 0 or _STARTED.encode() not in ran.stdout:
            said = ran.stderr.decode(errors="replace").strip()
            return backend.explain_failure(said or f"exit code {ran.returncode}")
        if secret.encode() in ran.stdout or canary.read_text() != secret:
            return backend.explain_failure("it does not protect a forbidden file")
    return ""


def _usual(program: str) -> Sequence[SandboxBackend]:
    if sys.platform == "darwin":
        return (Seatbelt(),)
    # It loads `ctypes`, and only a session that starts commands needs it.
    from clew.tools.sandbox.landlock import Landlock  # noqa: PLC0415

    return (Bubblewrap(program), Landlock())
