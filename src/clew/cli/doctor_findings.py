"""What an examination of this machine is made on, and what it finds."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from msgspec import Struct


class Level(StrEnum):
    """How it stands with one thing."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing is wrong."""
    MISSING = "missing"
    """Clew works without it, though not as well."""
    BROKEN = "broken"
    """Clew cannot work like this."""


class Finding(Struct, frozen=True, kw_only=True):
    """One line of the result."""

    name: str
    level: Level
    text: str
    remedy: str = ""
    """What to do about it, where something can be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is examined."""

    cwd: Path
    user_home: Path
    clew_home: Path
    environ: Mapping[str, str]
    servers: Mapping[str, str]
    """Model servers that may run here: a name, and the address below which `models` is."""


Check = Callable[[Machine], Iterable[Finding]]
"""Looks at one thing. Raises `OSError` when it cannot even be looked at."""


def existing(path: Path) -> Path:
    """Return `path`, or the nearest folder above it that there is."""
    # Not `Path.exists`, which raises for what may not be seen.
    return next(place for place in (path, *path.parents) if os.path.exists(place))  # noqa: PTH110
