"""The branch a folder is on, read from git's own files; git itself is not run."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from clew.extensions.project.reading import Unreadable, exists, read_text

_LIMIT = 4_096
_BRANCH = re.compile(r"ref: refs/heads/([^\s\x00-\x20\x7f~^:?*\[\\]{1,200})")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NO_BRANCH = ".invalid"
"""What HEAD names in a repository whose branches are kept in a table."""


def branch(folders: Sequence[Path]) -> str:
    """Return the branch of the innermost of `folders` that is a repository; empty if unknown.

    A worktree and a submodule have a file that says where their repository is. Where no branch
    is checked out, it is called `detached`.

    Args:
        folders: From the outermost to the working folder.
    """
    for folder in reversed(folders):
        place = folder / ".git"
        if exists(place):
            return _head(place if place.is_dir() else _named(place))
    return ""


def _head(repository: Path | None) -> str:
    # A link in place of HEAD is not followed: it may lead to anything.
    head = "" if repository is None else _line(Path(os.path.realpath(repository), "HEAD"))
    if found := _BRANCH.fullmatch(head):
        return "" if found.group(1) == _NO_BRANCH else found.group(1)
    return "detached" if _COMMIT.fullmatch(head) else ""


def _named(file: Path) -> Path | None:
    key, _, place = _line(Path(os.path.realpath(file))).partition(": ")
    return file.parent / place if key == "gitdir" and place else None


def _line(file: Path) -> str:
    try:
        return read_text(file, _LIMIT).text.strip()
    except Unreadable:
        return ""
