"""Start the server, and stop it: streams end first, then requests, then sessions."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from aiohttp import web

from clew.core.errors import ConfigError
from clew.server.app import ServerState, make_app
from clew.server.options import ServerOptions


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that accepts requests."""

    host: str
    port: int
    state: ServerState

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@asynccontextmanager
async def run_server(options: ServerOptions) -> AsyncGenerator[RunningServer, None]:
    """Serve until the block ends; all sessions are closed then.

    Raises:
        ConfigError: The address cannot be used, for example because the port is taken.
    """
    async with anyio.create_task_group() as tasks:
        state = ServerState(options, tasks)
        app = make_app(state)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=options.shutdown_seconds,
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, options.host, options.port)
            await _start(site, options)
            host, port = runner.addresses[0][:2]
            yield RunningServer(options.host or host, port, state)
        finally:
            with anyio.CancelScope(shield=True):
                state.streams.stop()
                await runner.cleanup()
                await state.aclose()
            tasks.cancel_scope.cancel()


async def _start(site: web.TCPSite, options: ServerOptions) -> None:
    try:
        await site.start()
    except OSError as error:
        raise ConfigError(_explain(error, options)) from error


def _explain(error: OSError, options: ServerOptions) -> str:
    import errno  # noqa: PLC0415

    place = f"{options.host}:{options.port}"
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"port {options.port} of {options.host} is in use; stop the program that uses it,"
                " or choose another: clew serve --port 0 takes any free one"
            )
        case errno.EADDRNOTAVAIL:
            return f"this machine has no address {options.host}; use 127.0.0.1 or 0.0.0.0"
        case errno.EACCES:
            return f"{place} may not be used; ports below 1024 need rights: use --port 8765"
        case _:
            return f"cannot serve at {place}: {error.strerror or error}"
