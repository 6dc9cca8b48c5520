"""Start the server, and stop it: streams end first, then requests, then sessions."""

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
from aiohttp import web
from anyio.abc import TaskGroup

from clew.core.errors import ConfigError
from clew.server.app import AppState, make_app, make_replica_app
from clew.server.options import ReplicaOptions, ServerOptions

_BACKLOG = 1_024


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that accepts requests."""

    host: str
    port: int
    state: AppState

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}"

    def make_login_link(self) -> str:
        """Return a link that signs the owner's browser in, once."""
        access = self.state.access
        return self.url if access is None else self.url + access.make_login_path()


@asynccontextmanager
async def run_server(options: ServerOptions) -> AsyncGenerator[RunningServer, None]:
    """Serve until the block ends; all sessions are closed then.

    Raises:
        ConfigError: The address cannot be used, for example because the port is taken.
    """
    async with _own_tasks() as tasks:
        state = AppState(options, tasks)
        app = make_app(state)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=options.shutdown_seconds,
            **(state.access.runner_options if state.access is not None else {}),
        )
        await runner.setup()
        inner: web.AppRunner | None = None
        try:
            if options.replica is not None:
                inner = await _listen_for_replicas(state, options.replica)
            await _start(_Site(runner, state), options)
            host, port = runner.addresses[0][:2]
            yield RunningServer(options.host or host, port, state)
        finally:
            with anyio.CancelScope(shield=True):
                state.streams.stop()
                await runner.cleanup()
                if inner is not None:
                    await inner.cleanup()
                await state.aclose()
            tasks.cancel_scope.cancel()


async def _listen_for_replicas(state: AppState, options: ReplicaOptions) -> web.AppRunner:
    """Join the other replicas, and accept the requests that they forward."""
    assert state.replicas is not None  # noqa: S101 - the options say so
    app = make_replica_app(state, state.replicas)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, options.host, options.port)
        await _start(site, replace(state.options, host=options.host, port=options.port))
        host = f"[{options.host}]" if ":" in options.host else options.host
        await state.join(f"http://{host}:{runner.addresses[0][1]}")
    except BaseException:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
        raise
    return runner


@asynccontextmanager
async def _own_tasks() -> AsyncGenerator[TaskGroup, None]:
    """Make a task group that passes on the error of its block as it is."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        error = group.exceptions[0]
        raise error from error.__cause__


class _Site(web.BaseSite):
    """Where the server listens; access is guarded from the first byte of a connection."""

    def __init__(self, runner: web.AppRunner, state: AppState) -> None:
        super().__init__(runner)
        self._state = state

    @property
    def name(self) -> str:
        """The address."""
        options = self._state.options
        return f"http://{options.host}:{options.port}"

    async def start(self) -> None:
        """Listen."""
        await super().start()
        options, access, server = self._state.options, self._state.access, self._runner.server
        assert server is not None  # noqa: S101 - the runner was set up
        self._server = await asyncio.get_running_loop().create_server(
            server if access is None else access.guard(server),
            options.host,
            options.port,
            backlog=_BACKLOG,
        )


async def _start(site: web.BaseSite, options: ServerOptions) -> None:
    try:
        await site.start()
    except OSError as error:
        raise ConfigError(_explain(error, options)) from error


def _explain(error: OSError, options: ServerOptions) -> str:
    place = f"{options.host}:{options.port}"
    if isinstance(error, socket.gaierror):
        return (
            f"there is no host {options.host!r}; use 127.0.0.1, 0.0.0.0 or a name of this machine"
        )
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
