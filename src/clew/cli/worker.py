"""`clew worker`: run durable agents until the process is ended."""

import logging
import sys
from argparse import Namespace
from datetime import datetime

import anyio
import msgspec

from clew.cli.environment import own_environment
from clew.core.sanitize import sanitize_line
from clew.sdk.folders import working_folder
from clew.sdk.worker import WorkerSpec, serve_store

_PACKAGE = "clew"
_FIELDS = ("task_id", "worker", "epoch", "status")
"""What a line of JSON says beside its message, where it is known."""
_LONGEST = 400


def run_worker(arguments: Namespace) -> int:
    """Serve the queue; returns the exit code."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if arguments.json else _Lines())
    log = logging.getLogger(_PACKAGE)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    spec = WorkerSpec(
        cwd=str(working_folder()),
        store=arguments.store,
        name=arguments.name,
        concurrency=arguments.concurrency,
        silent_after=arguments.silent_after,
        park_after=arguments.park_after,
    )

    def announce(name: str) -> None:
        note = "worker %s is ready; it runs %s agents at once. Ctrl-C ends it."
        log.info(note, name, spec.concurrency, extra={"worker": name})

    async def serve() -> None:
        await serve_store(spec, environ=own_environment(arguments), on_start=announce)

    try:
        anyio.run(serve)
    finally:
        log.removeHandler(handler)
    return 0


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        mark = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        return f"{at} {mark}{sanitize_line(record.getMessage(), _LONGEST)}"


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": record.created,
            "level": record.levelname.lower(),
            "message": sanitize_line(record.getMessage(), _LONGEST),
        }
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        return msgspec.json.encode(line).decode()
