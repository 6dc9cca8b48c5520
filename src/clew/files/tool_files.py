"""Python files with tools: found in a folder and read once, so that trust is in their content."""

import os
from pathlib import Path

from msgspec import Struct

from clew.files.safe_read import read_regular

TOOL_FOLDER = "tools"
"""In `.clew` of the project, and in Clew's folder of the user."""
_MAX_FILES = 50
_MAX_BYTES = 1_000_000


class ToolFile(Struct, frozen=True, kw_only=True):
    """A Python file that defines tools, as it was read."""

    path: Path
    content: bytes
    problem: str = ""
    """Why the file cannot be used; empty for most."""


def read_tool_files(folder: Path) -> tuple[ToolFile, ...]:
    """Return the Python files of a folder, by name; none if there is no such folder. Blocks.

    Names that begin with an underscore or a dot are left out.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(".py") and not entry.name.startswith(("_", "."))
            )
    except OSError:
        return ()
    return tuple(_read(folder / name, at) for at, name in enumerate(names))


def _read(path: Path, at: int) -> ToolFile:
    if at >= _MAX_FILES:
        return ToolFile(path=path, content=b"", problem=f"only {_MAX_FILES} files are loaded")
    try:
        content = read_regular(path, limit=_MAX_BYTES + 1)
    except OSError as error:
        why = error.strerror or str(error)
        return ToolFile(path=path, content=b"", problem=f"it cannot be read: {why}")
    if len(content) > _MAX_BYTES:
        return ToolFile(path=path, content=b"", problem=f"it has more than {_MAX_BYTES:,} bytes")
    return ToolFile(path=path, content=content)
