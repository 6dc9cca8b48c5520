"""`--log`: where a session's log is written, and how much of it."""

from argparse import Namespace
from pathlib import Path

from clew.log.protocol import SessionLogger
from clew.sdk.folders import store_path


def session_log(arguments: Namespace, cwd: Path) -> SessionLogger | None:
    """Return the log that `--log` asks for: beside the sessions of the folder."""
    if not arguments.log_level:
        return None
    from clew.log.events import LogLevel  # noqa: PLC0415 - seldom needed
    from clew.log.writer import SessionLog  # noqa: PLC0415

    return SessionLog(store_path(cwd).parent / "logs", level=LogLevel(arguments.log_level))
