"""What a project is written in and how it is tested, told from the files that lie there.

Nothing is run and no folder below is looked into: a few names are asked for in each folder
from the working folder up to the root of the project. What comes out is a choice from our own
words, never a text of the project's.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from clew.extensions.project.git import branch
from clew.extensions.project.ground import Ground
from clew.extensions.project.languages import Look, Trait, traits

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


def find_facts(ground: Ground, *, clock: Callable[[], float] = time.time) -> ProjectFacts:
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
        branch=branch(ground.folders),
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
