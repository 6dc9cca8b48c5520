"""The folders that Clew works in and keeps its files in."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from clew.core.errors import ConfigError


class Homes(Struct, frozen=True, kw_only=True):
    """The user's own folders."""

    user: Path
    """The home folder; `.claude` in it is read too."""
    clew: Path
    """Clew's own folder in it, or where `CLEW_HOME` says."""

    @classmethod
    def of(
        cls,
        environ: Mapping[str, str],
        *,
        user_home: Path | str | None = None,
        clew_home: Path | str | None = None,
    ) -> "Homes":
        """Return the folders that the environment names, or those that are given."""
        user = Path(user_home or Path.home())
        return cls(user=user, clew=Path(clew_home or environ.get("CLEW_HOME") or user / ".clew"))

    def project(self, cwd: Path) -> Path:
        """Return the folder for the sessions, logs and checkpoints of the project in `cwd`."""
        folder = cwd.resolve()
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name) or "root"
        mark = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
        return self.clew / "projects" / f"{name}-{mark}"

    def find_settings_folder(self, cwd: Path) -> Path:
        """Return the folder whose settings hold in `cwd`.

        In a worktree that Clew made, these are the settings of the project that it was made for,
        which the user may have accepted, and which need not be committed.
        """
        try:
            parts = cwd.resolve().relative_to((self.clew / "projects").resolve()).parts
        except ValueError:
            return cwd
        if parts[1:2] != ("worktrees",) or len(parts) < 3:
            return cwd
        # Few sessions run in a worktree.
        from clew.runtime.worktree_records import find_parent_folder  # noqa: PLC0415

        return find_parent_folder(self.clew / "projects" / parts[0] / "worktrees", cwd)


def user_folder() -> Path:
    """Return the user's folder: `$CLEW_HOME`, or `~/.clew`."""
    return Homes.of(os.environ).clew


def store_path(cwd: Path) -> Path:
    """Return the database with the sessions of the project in `cwd`."""
    return Homes.of(os.environ).project(cwd) / "sessions.db"


def working_folder() -> Path:
    """Return the current folder.

    Raises:
        ConfigError: It was deleted, or cannot be read.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError(
            f"the working folder cannot be used ({error.strerror}); change to another one"
        ) from error
