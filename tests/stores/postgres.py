"""A real PostgreSQL server for tests, on a socket in a folder of its own."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

_USERS = ("postgres", "nobody")
"""Whom the server runs as when the tests run as root, which it refuses to be."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is running; each test takes a database of its own."""

    folder: Path
    programs: Path
    fsync: bool = False
    """Wait for the disk at each commit; tests need not survive the end of the machine."""

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://clew@/{database}?host={self.folder}"

    def fresh(self) -> str:
        """Make an empty database and return its URL."""
        name = f"test_{uuid4().hex}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" STRATEGY = wal_log')
        return self.url(name)

    def start(self) -> None:
        fsync = "on" if self.fsync else "off"
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder}"
        options += f" -c fsync={fsync}"
        self.control("-o", options, "-l", str(self.folder / "log"), "start")

    def control(self, *arguments: str) -> None:
        _run([self.programs / "pg_ctl", "-D", self.folder / "data", "-w", *arguments])


@contextmanager
def server(*, fsync: bool = False) -> Iterator[Server]:
    """Run a server, or skip the test where PostgreSQL is not installed."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: initdb and pg_ctl were not found")
    folder = Path(tempfile.mkdtemp(prefix="clew-pg-"))
    user = _user()
    if user is not None:
        shutil.chown(folder, user)
    made = Server(folder, programs, fsync=fsync)
    data = folder / "data"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        _run([programs / "initdb", "-D", data, "-U", "clew", "-A", "trust", "-E", "UTF8", "-N"])
        made.start()
        stack.callback(made.control, "-m", "immediate", "stop")
        yield made


def _programs() -> Path | None:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("pg_ctl", path=os.pathsep.join([*map(str, places), os.environ["PATH"]]))
    if found is None or not Path(found).with_name("initdb").exists():
        return None
    return Path(found).parent


def _user() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(user for user in _USERS if user in known)


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(
        command,
        user=_user(),
        cwd="/",
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
