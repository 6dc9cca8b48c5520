"""What a project is written in and how it is tested, told from the files that lie there.

Nothing is run and no folder below is looked into: a few names are asked for in each folder
from the working folder up to the root of the project. What comes out is a choice from our own
words, never a text of the project's.
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
from clew.extensions.project.languages import Look, Trait, traits
from clew.extensions.project.text_files import UnreadableFile, exists, read_text

_PLATFORMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}


class ProjectFacts(Struct, frozen=True, kw_only=True):
    """Neutral facts about a project; the nearest folder's come first."""

    root: Path
    """The root of the repository, or the working folder where there is none."""
    languages: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    """Package managers and build tools."""
    tests: tuple[str, ...] = ()
    """Commands that probably run the tests."""
    markers: tuple[str, ...] = ()
    """The files that said so, below `root`."""
    branch: str = ""
    platform: str = ""
    date: str = ""


def find_facts(ground: InstructionRoots, *, clock: Callable[[], float] = time.time) -> ProjectFacts:
    """Look at the marker files of a project."""
    found = [
        (folder, trait)
        for folder in reversed(ground.folders)
        if folder.is_relative_to(ground.project)
        for trait in traits(Look(folder=folder, root=ground.project))
    ]
    return ProjectFacts(
        root=ground.project,
        languages=_each(word for _, trait in found for word in trait.languages),
        managers=_each(trait.manager for _, trait in found),
        tests=_each(_command(folder, trait, ground.cwd) for folder, trait in found),
        markers=_each(ground.shown(folder / trait.marker) for folder, trait in found),
        branch=read_branch(ground.folders),
        platform=_PLATFORMS.get(sys.platform, sys.platform),
        date=datetime.fromtimestamp(clock(), UTC).astimezone().date().isoformat(),
    )


def _command(folder: Path, trait: Trait, cwd: Path) -> str:
    if not trait.test or folder == cwd:
        return trait.test
    return f"{trait.test} (in {os.path.relpath(folder, cwd)})"


def _each(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_filled(words)))


def _filled(words: Iterable[str]) -> Iterator[str]:
    return (word for word in words if word)


_LIMIT = 4_096
_BRANCH = re.compile(r"ref: refs/heads/([^\s\x00-\x20\x7f~^:?*\[\\]{1,200})")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NO_BRANCH = ".invalid"
"""What HEAD names in a repository whose branches are kept in a table."""


def read_branch(folders: Sequence[Path]) -> str:
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
    except UnreadableFile:
        return ""
