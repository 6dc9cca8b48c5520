"""Facts about a project, detected from its files: languages, test commands, git branch.

Nothing is run and subfolders are not searched: a few names are looked up in each folder from the
working folder up to the root of the project. The facts are words of Clew, never text from the
project.
"""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from clew.extensions.project.instruction_roots import InstructionRoots
from clew.extensions.project.languages import ProjectFolder, Trait, traits
from clew.extensions.project.text_files import UnreadableFile, exists, read_text

_PLATFORMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


class ProjectFacts(Struct, frozen=True, kw_only=True):
    """Facts about a project; those of the nearest folder come first."""

    root: Path
    """The root of the repository, or the working folder if there is none."""
    languages: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    """Package managers and build tools."""
    tests: tuple[str, ...] = ()
    """Commands that probably run the tests."""
    markers: tuple[str, ...] = ()
    """The files that were detected, relative to `root`."""
    branch: str = ""
    platform: str = ""
    date: str = ""


def find_facts(roots: InstructionRoots, *, clock: Callable[[], float] = time.time) -> ProjectFacts:
    """Detect the facts of a project."""
    found = [
        (folder, trait)
        for folder in reversed(roots.folders)
        if folder.is_relative_to(roots.project)
        for trait in traits(ProjectFolder(folder=folder, root=roots.project))
    ]
    return ProjectFacts(
        root=roots.project,
        languages=_each(word for _, trait in found for word in trait.languages),
        managers=_each(trait.manager for _, trait in found),
        tests=_each(_command(folder, trait, roots.cwd) for folder, trait in found),
        markers=_each(roots.display_path(folder / trait.marker) for folder, trait in found),
        branch=read_branch(roots.folders),
        platform=_PLATFORMS.get(sys.platform, sys.platform),
        date=datetime.fromtimestamp(clock(), UTC).astimezone().date().isoformat(),
    )


def _command(folder: Path, trait: Trait, cwd: Path) -> str:
    if not trait.test or folder == cwd:
        return trait.test
    return f"{trait.test} (in {os.path.relpath(folder, cwd)})"


def _each(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_drop_empty(words)))


def _drop_empty(words: Iterable[str]) -> Iterator[str]:
    return (word for word in words if word)


_LIMIT = 4_096
_BRANCH = re.compile(r"ref: refs/heads/([^\s\x00-\x20\x7f~^:?*\[\\]{1,200})")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NO_BRANCH = ".invalid"
"""What HEAD names in a repository with the reftable format."""


def read_branch(folders: Sequence[Path]) -> str:
    """Return the git branch of the innermost repository in `folders`; empty if unknown.

    It is read from git's files; git is not run. Worktrees and submodules have a file with the
    path of their repository. `detached` means that no branch is checked out.

    Args:
        folders: From the outermost to the working folder.
    """
    for folder in reversed(folders):
        place = folder / ".git"
        if exists(place):
            return _head(place if place.is_dir() else _read_gitdir(place))
    return ""


def _head(repository: Path | None) -> str:
    # A link in place of HEAD is not followed: it may lead anywhere.
    head = "" if repository is None else _line(Path(os.path.realpath(repository), "HEAD"))
    if found := _BRANCH.fullmatch(head):
        return "" if found.group(1) == _NO_BRANCH else found.group(1)
    return "detached" if _COMMIT.fullmatch(head) else ""


def _read_gitdir(file: Path) -> Path | None:
    key, _, place = _line(Path(os.path.realpath(file))).partition(": ")
    return file.parent / place if key == "gitdir" and place else None


def _line(file: Path) -> str:
    try:
        return read_text(file, _LIMIT).text.strip()
    except UnreadableFile:
        return ""
