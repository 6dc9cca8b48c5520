"""The terminal of the editor, in which a session runs its commands."""

import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio

from clew.acp.connection import Connection, RpcError
from clew.acp.messages import (
    CreateTerminalParams,
    CreateTerminalResult,
    Empty,
    EnvVariable,
    ExitStatus,
    TerminalOutput,
    TerminalParams,
)
from clew.core.results import Report, TerminalResult

logger = logging.getLogger(__name__)

_MAX_BYTES = 1_000_000
"""The end of the output that the editor keeps."""
_TIMEOUT = 10.0
"""Seconds to wait for an answer that needs no command to end."""
_POLL = 0.5
"""Seconds between two looks at the output."""


class EditorTerminal:
    """Runs commands in terminals of the editor, one for each command.

    Args:
        connection: The editor.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.session_id = ""
        """The session that the commands are for; empty until it is open."""
        self.show: Callable[[str, str], None] = lambda _, __: None
        """Called with a call and its terminal."""

    async def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        seconds: float,
        report: Report,
        call_id: str,
    ) -> TerminalResult | None:
        """Run a command to its end; None if the editor cannot start it.

        When the call is cancelled or takes too long, the editor kills the command.
        """
        params = CreateTerminalParams(
            session_id=self.session_id,
            command=command[0],
            args=tuple(command[1:]),
            env=tuple(EnvVariable(name, value) for name, value in env.items()),
            cwd=str(cwd),
            output_byte_limit=_MAX_BYTES,
        )
        try:
            with anyio.fail_after(_TIMEOUT):
                made = await self._connection.request(
                    "terminal/create", params, CreateTerminalResult
                )
        except (RpcError, TimeoutError) as error:
            logger.warning("the editor has no terminal for a command: %s", error)
            return None
        terminal = TerminalParams(session_id=self.session_id, terminal_id=made.terminal_id)
        self.show(call_id, made.terminal_id)
        ended: ExitStatus | None = None
        output = ""
        try:
            with anyio.move_on_after(seconds):
                ended = await self._wait(terminal, report)
            output = await self._read(terminal)
        finally:
            with anyio.CancelScope(shield=True):
                if ended is None:
                    await self._call("terminal/kill", terminal)
                await self._call("terminal/release", terminal)
        return TerminalResult(output=output, code=_find_code(ended), timed_out=ended is None)

    async def _wait(self, terminal: TerminalParams, report: Report) -> ExitStatus:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow, terminal, report)
            try:
                ended = await self._connection.request(
                    "terminal/wait_for_exit", terminal, ExitStatus
                )
            except RpcError as error:
                logger.warning("the editor lost a terminal: %s", error)
                ended = ExitStatus(exit_code=1)
            tasks.cancel_scope.cancel()
        return ended

    async def _follow(self, terminal: TerminalParams, report: Report) -> None:
        while True:
            await anyio.sleep(_POLL)
            report(await self._read(terminal))

    async def _read(self, terminal: TerminalParams) -> str:
        with suppress(RpcError, TimeoutError), anyio.fail_after(_TIMEOUT):
            found = await self._connection.request("terminal/output", terminal, TerminalOutput)
            return found.output
        return ""

    async def _call(self, method: str, terminal: TerminalParams) -> None:
        with suppress(RpcError, TimeoutError), anyio.fail_after(_TIMEOUT):
            await self._connection.request(method, terminal, Empty)


def _find_code(ended: ExitStatus | None) -> int:
    """Return the exit code, or the negative number of the signal."""
    if ended is None:
        return -signal.SIGKILL
    if ended.signal:
        name = ended.signal.upper()
        number = getattr(signal, name if name.startswith("SIG") else f"SIG{name}", None)
        return -number if isinstance(number, signal.Signals) else 1
    return ended.exit_code or 0
