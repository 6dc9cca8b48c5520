"""The user's own status line: a command that reads JSON and prints one line."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from clew.hooks.command import run_process

logger = logging.getLogger(__name__)

TIMEOUT: Final = 2.0
"""Seconds that the command may take."""


async def run_status_command(command: str, facts: Mapping[str, Any], *, cwd: Path) -> str:
    """Return the first line that a shell command prints; empty if it fails or takes too long.

    The line contains text of any program: sanitize it before you show it.

    Args:
        command: The command, from the user's settings or those of a trusted folder.
        facts: What it reads from standard input, as JSON.
        cwd: Where it runs.
    """
    with anyio.move_on_after(TIMEOUT):
        try:
            done = await run_process(
                ["/bin/sh", "-c", command],
                stdin=msgspec.json.encode(facts),
                cwd=cwd,
                env=os.environ,
            )
        except (OSError, ValueError) as error:
            logger.debug("the status-line command cannot run: %s", error)
            return ""
        return next(iter(done.stdout.splitlines()), "") if done.code == 0 else ""
    logger.debug("the status-line command took more than %s seconds", TIMEOUT)
    return ""
