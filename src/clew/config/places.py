"""Where settings are: which files there may be, and in which order they count."""

import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct


class Scope(StrEnum):
    """Whose a file is."""

    USER = "user"
    """The user's own: it is obeyed."""
    PROJECT = "project"
    """It came with the folder, and nobody may have read it."""


class Convention(StrEnum):
    """Whose format a file is in."""

    CLEW = "clew"
    """Ours: a key that is not known is a mistake."""
    CLAUDE = "claude"
    """Claude Code's: it has many keys that mean nothing here."""


class Place(Struct, frozen=True, kw_only=True):
    """A file that may hold settings."""

    path: Path
    label: str
    """How people know it: `~/.clew/settings.json`, or a path in the project."""
    scope: Scope
    convention: Convention
    root: Path
    """The folder that a project's file must really be in."""


def places(cwd: Path, *, user_home: Path, clew_home: Path) -> tuple[Place, ...]:
    """Return all files that count in `cwd`, the one that counts least first."""
    return tuple(_each_once(_all(cwd, user_home, clew_home)))


def _all(cwd: Path, user_home: Path, clew_home: Path) -> Iterator[Place]:
    for name in ("clew.toml", "settings.json"):
        yield _user(clew_home / name, user_home, Convention.CLEW)
    yield _user(user_home / ".claude" / "settings.json", user_home, Convention.CLAUDE)
    yield _project(cwd, "clew.toml", Convention.CLEW)
    for folder, convention in ((".clew", Convention.CLEW), (".claude", Convention.CLAUDE)):
        for name in ("settings.json", "settings.local.json"):
            yield _project(cwd, f"{folder}/{name}", convention)


def _user(path: Path, home: Path, convention: Convention) -> Place:
    label = f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
    return Place(path=path, label=label, scope=Scope.USER, convention=convention, root=path.parent)


def _project(cwd: Path, name: str, convention: Convention) -> Place:
    return Place(path=cwd / name, label=name, scope=Scope.PROJECT, convention=convention, root=cwd)


def _each_once(found: Iterator[Place]) -> Iterator[Place]:
    """Leave out what was there already: in the home folder the user's files are the project's."""
    seen: set[Path] = set()
    for place in found:
        real = Path(os.path.realpath(place.path.parent), place.path.name)
        if real not in seen:
            seen.add(real)
            yield place
