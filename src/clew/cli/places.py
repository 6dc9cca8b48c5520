"""Where Clew keeps things on this machine."""

import hashlib
import os
import re
from pathlib import Path


def user_folder() -> Path:
    """Return the user's folder: `$CLEW_HOME`, or `~/.clew`."""
    return Path(os.environ.get("CLEW_HOME") or Path.home() / ".clew")


def store_path(cwd: Path) -> Path:
    """Return the file with the sessions of the project in `cwd`: one file a project."""
    folder = cwd.resolve()
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name) or "root"
    mark = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    return user_folder() / "projects" / f"{name}-{mark}" / "sessions.db"
