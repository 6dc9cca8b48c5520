"""The contract between the choice of a sandbox and a mechanism of the system."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from clew.tools.sandbox.policy import SandboxPaths, SandboxPolicy


class SandboxBackend(Protocol):
    """One mechanism that restricts a process and its children."""

    name: str
    """As users know it: `bubblewrap`, `Landlock`, `seatbelt`."""
    ends_processes: bool
    """True if processes that a command leaves behind end with it."""

    def find_problem(self, policy: SandboxPolicy) -> str:
        """Return why the mechanism cannot be tried here, or an empty string."""
        ...

    def explain_failure(self, message: str) -> str:
        """Return why a trial failed, and what to do, from what the mechanism printed."""
        ...

    def explain_unsuited(self, folder: Path) -> str:
        """Return why it does not work for the project in `folder`, or an empty string."""
        ...

    def describe_limits(self, policy: SandboxPolicy) -> str:
        """Return a sentence on what it does not cover, or an empty string."""
        ...

    def wrap(
        self, command: Sequence[str], *, policy: SandboxPolicy, paths: SandboxPaths
    ) -> list[str]:
        """Return the command line that runs `command` restricted."""
        ...
