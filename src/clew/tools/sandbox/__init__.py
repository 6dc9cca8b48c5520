"""Runs commands in a sandbox of the system: bubblewrap, Landlock or seatbelt.

Inside, commands can read the whole file system except for what deny rules forbid, and write only
to the project, temporary folders and package caches. The sandbox limits accidents and injected
commands. It does not protect against bugs in the kernel, nor does it protect `.git/config`, which
git must be able to write.
"""

from clew.tools.sandbox.bubblewrap import bubblewrap_options
from clew.tools.sandbox.policy import (
    SandboxMode,
    SandboxPaths,
    SandboxPolicy,
    find_git_folder,
    find_sandbox_paths,
)
from clew.tools.sandbox.seatbelt import seatbelt_profile
from clew.tools.sandbox.selection import Sandbox

__all__ = [
    "Sandbox",
    "SandboxMode",
    "SandboxPaths",
    "SandboxPolicy",
    "bubblewrap_options",
    "find_git_folder",
    "find_sandbox_paths",
    "seatbelt_profile",
]
