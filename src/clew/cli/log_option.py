"""`--log`: where a session's log is written, and how much of it."""

from argparse import Namespace
from pathlib import Path

from clew.cli.places import store_path
from clew.session.log.events import LogLevel
from clew.session.log.writer import SessionLog


def session_log(arguments: Namespace, cwd: Path) -> SessionLog | None:
    """Return the log that `--log` asks for: beside the sessions of the folder."""
    if not arguments.log_level:
        return None
    return SessionLog(store_path(cwd).parent / "logs", level=LogLevel(arguments.log_level))
