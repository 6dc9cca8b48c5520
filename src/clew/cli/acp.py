"""`clew acp`: serve an editor over standard input and output."""

import logging
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Mapping

import anyio

from clew.acp.agent import serve
from clew.cli.arguments import session_spec
from clew.cli.environment import own_environment
from clew.sdk.session_spec import SessionSpec
from clew.sdk.stdio import read_pieces, split_lines, write_to
from clew.tui.signals import ending_signals, exit_code


def run_acp(arguments: Namespace) -> int:
    """Serve until the editor closes standard input; what is printed goes to standard error."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if "CLEW_DEBUG" in os.environ else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    # Standard output is the protocol: nothing else in this process may write to it.
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        return anyio.run(_serve, output, session_spec(arguments), own_environment(arguments))
    finally:
        os.close(output)


async def _serve(output: int, defaults: SessionSpec, environ: Mapping[str, str] | None) -> int:
    left_by, stopping = 0, anyio.Event()

    async def watch() -> None:
        nonlocal left_by
        with anyio.open_signal_receiver(signal.SIGINT, *ending_signals()) as received:
            async for number in received:
                left_by = number
                stopping.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await serve(
            split_lines(read_pieces(sys.stdin.fileno())),
            write_to(output),
            defaults=defaults,
            environ=environ,
            stopping=stopping,
        )
        tasks.cancel_scope.cancel()
    return exit_code(left_by) if left_by else 0
