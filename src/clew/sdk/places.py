"""Where Clew keeps things on this machine."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


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
        user_home: Path | None = None,
        clew_home: Path | None = None,
    ) -> "Homes":
        """Return the folders that the environment names, unless the caller says otherwise."""
        user = user_home or Path.home()
        return cls(user=user, clew=clew_home or Path(environ.get("CLEW_HOME") or user / ".clew"))

    def project(self, cwd: Path) -> Path:
        """Return the folder for what is kept of the project in `cwd`."""
        folder = cwd.resolve()
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name) or "root"
        mark = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
        return self.clew / "projects" / f"{name}-{mark}"


def user_folder() -> Path:
    """Return the user's folder: `$CLEW_HOME`, or `~/.clew`."""
    return Homes.of(os.environ).clew


def store_path(cwd: Path) -> Path:
    """Return the file with the sessions of the project in `cwd`: one file a project."""
    return Homes.of(os.environ).project(cwd) / "sessions.db"
