"""One MCP server: start it, list what it offers, call it, and restart it when it ends."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp.client.auth import OAuthFlowError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct

from clew._version import __version__
from clew.core.redaction import redact
from clew.core.sanitize import sanitize_line
from clew.tools.mcp.calls import (
    START_TIMEOUT,
    ServerCalls,
    ServerUnavailable,
    describe_error,
    find_cause,
    say_login,
)
from clew.tools.mcp.catalogue import read_catalogue
from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.questions import make_roots_callback
from clew.tools.mcp.stdio import ErrorTail
from clew.tools.mcp.transports import Signs, open_transport
from clew.tools.mcp.values import Catalogue, ServerState, ServerStatus

logger = logging.getLogger(__name__)

_RECONNECT_WAIT = 10.0
"""Seconds that a call waits for a server that is starting."""
_DELAYS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Seconds before each restart; after the last one the server counts as failed."""
_STEADY = 60.0
"""Seconds after which a server that ends is not one that cannot start."""
_LOGIN_WAIT = 60.0
"""Seconds after which a server that needs a login is tried again."""
_FIRST_FAILURE = (ServerState.RETRYING, 1)
_SHOWN = 300
_LIST_CHANGES = (
    mcp_types.ToolListChangedNotification
    | mcp_types.PromptListChangedNotification
    | mcp_types.ResourceListChangedNotification
)


class Surroundings(Struct, frozen=True, kw_only=True):
    """Where servers run, and who hears of them."""

    cwd: Path
    environ: Mapping[str, str]
    warn: Callable[[str], None]
    """Tells the users of the sessions."""
    changed: Callable[[], None]
    """Called when the state or the catalogue of a server has changed."""
    sampling: bool = False
    """Whether servers may ask the model."""
    make_auth: Callable[[ServerConfig], httpx2.Auth | None] | None = None
    delays: tuple[float, ...] = _DELAYS


class McpConnection:
    """Keeps one server running; `run` does the work until it is cancelled."""

    def __init__(self, config: ServerConfig, place: Surroundings) -> None:
        self.config = config
        self.place = place
        self._client: Client | None = None
        self._signs = Signs()
        self.calls = ServerCalls(
            config,
            require=self._require,
            lose=self._lose,
            was_forgotten=self._signs.was_forgotten,
        )
        self._settled = anyio.Event()
        """Set when the server is ready, or could not be started in either protocol."""
        self._ready = anyio.Event()
        self._wake = anyio.Event()
        self._stale = anyio.Event()
        self._failures = 0
        self._mode = "auto"
        """Some servers of older protocols end at the question which one to speak: those are
        started again in the mode `legacy`."""
        self.state = ServerState.STARTING
        self.error = ""
        self.output: tuple[str, ...] = ()
        self.catalogue = Catalogue()

    @property
    def status(self) -> ServerStatus:
        """The server as `/mcp` shows it."""
        found, client = self.catalogue, self._client
        return ServerStatus(
            name=self.config.name,
            state=self.state,
            transport=self.config.transport,
            target=sanitize_line(self.config.target, _SHOWN),
            origin=self.config.origin,
            error=self.error,
            output=self.output,
            version=client.protocol_version if client is not None else "",
            tools=len(found.tools),
            prompts=len(found.prompts),
            resources=len(found.resources),
        )

    async def wait_settled(self) -> None:
        """Wait until the server is ready, or could not be started in either protocol."""
        await self._settled.wait()

    async def run(self) -> None:
        """Start the server, and again after it ended, until this is cancelled."""
        try:
            while True:
                errors, was_ready = ErrorTail(), False
                answered, since = self.calls.answered, anyio.current_time()
                try:
                    async with self._open(errors) as client:
                        was_ready, since = True, anyio.current_time()
                        await self._serve(client)
                    why = "it ended"
                except Exception as error:  # noqa: BLE001 - whatever a server causes, others go on
                    if isinstance(find_cause(error), OAuthFlowError):
                        await self._wait_for_login()
                        continue
                    why = describe_error(error)
                if not was_ready:
                    self._mode = "auto" if self._mode == "legacy" else "legacy"
                lasted = anyio.current_time() - since > _STEADY or self.calls.answered > answered
                self._failures = 1 if was_ready and lasted else self._failures + 1
                self.output = tuple(_redact(self.config, line) for line in errors.last_lines)
                await self._pause(_add_output(why, self.output), was_ready=was_ready)
        finally:
            self._client = None
            self._set_state(ServerState.CLOSED, "the session has ended")

    async def _wait_for_login(self) -> None:
        """Report that the user must log in, once, and look for a login from time to time."""
        says = say_login(self.config.name)
        if self.state is not ServerState.NEEDS_LOGIN:
            self.place.warn(says)
        self._set_state(ServerState.NEEDS_LOGIN, says)
        await self._sleep(_LOGIN_WAIT)

    async def _pause(self, why: str, *, was_ready: bool) -> None:
        """Report that the server is gone, and wait before the next attempt."""
        delays, name = self.place.delays, self.config.name
        failed = self._failures > len(delays)
        if self._failures == 1:
            next_step = "Clew starts it again" if was_ready else "Clew tries again"
            self.place.warn(f"the MCP server {name} is not available: {why}; {next_step}")
        elif failed:
            what = "ends again and again" if was_ready else "could not be started"
            self.place.warn(f"the MCP server {name} {what}: {why}; /mcp shows it")
        self._set_state(ServerState.FAILED if failed else ServerState.RETRYING, why)
        await self._sleep(None if failed else delays[self._failures - 1])

    async def _sleep(self, seconds: float | None) -> None:
        """Wait that long, or until a call needs the server."""
        self._wake = anyio.Event()
        with anyio.move_on_after(seconds):
            await self._wake.wait()

    def _set_state(self, state: ServerState, error: str = "") -> None:
        self.state, self.error = state, _redact(self.config, error)
        if state is ServerState.READY:
            self.output = ()
            self._ready.set()
        elif self._ready.is_set():
            self._ready = anyio.Event()
        # The second attempt speaks the older protocol, so the first one decides little.
        if state is not ServerState.STARTING and (state, self._failures) != _FIRST_FAILURE:
            self._settled.set()
        self.place.changed()

    @asynccontextmanager
    async def _open(self, errors: ErrorTail) -> AsyncGenerator[Client, None]:
        """Connect, list what the server offers, and close everything at the end."""
        place, config = self.place, self.config
        self._signs.reset()
        self._stale = anyio.Event()
        auth = place.make_auth(config) if place.make_auth and config.transport != "stdio" else None
        transport = open_transport(
            config,
            cwd=place.cwd,
            environ=place.environ,
            errors=errors,
            auth=auth,
            signs=self._signs,
        )
        client = Client(
            transport,
            client_info=mcp_types.Implementation(name="clew", version=__version__),
            cache=None,
            mode=self._mode,
            message_handler=self._receive,
            elicitation_callback=self.calls.elicit,
            sampling_callback=self.calls.sample if place.sampling else None,
            list_roots_callback=make_roots_callback(place.cwd),
        )
        with anyio.fail_after(START_TIMEOUT) as limit:
            async with client:
                self.catalogue = await read_catalogue(client, config.name)
                limit.deadline = float("inf")
                self._client = client
                self._set_state(ServerState.READY)
                _report_problems(self)
                try:
                    yield client
                finally:
                    self._client = None

    async def _serve(self, client: Client) -> None:
        """Follow changes of the lists until the server is gone."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_changes, client)
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                tasks.start_soon(_listen, client, self.config.name, self._receive)
            await self._signs.lost.wait()
            tasks.cancel_scope.cancel()

    async def _follow_changes(self, client: Client) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            try:
                with anyio.fail_after(START_TIMEOUT):
                    self.catalogue = await read_catalogue(client, self.config.name)
            except (MCPError, TimeoutError, ValueError, RuntimeError) as error:
                why = describe_error(error)
                self.place.warn(f"the MCP server {self.config.name} lists no tools: {why}")
                continue
            _report_problems(self)
            self.place.changed()

    async def _receive(self, message: mcp_types.ServerNotification | Exception) -> None:
        if isinstance(message, _LIST_CHANGES):
            self._stale.set()

    async def _require(self) -> Client:
        """Return the client; a server that is starting gets a moment, a failed one a new chance."""
        if self._client is None and self.state is not ServerState.CLOSED:
            self._wake.set()
            with anyio.move_on_after(_RECONNECT_WAIT):
                await self._ready.wait()
        if self._client is None:
            why = f": {self.error}" if self.error else ""
            raise ServerUnavailable(
                f"the MCP server {self.config.name} is not available ({self.state}){why}"
            )
        return self._client

    def _lose(self) -> None:
        """Take note that the server is gone; `run` starts it again."""
        self._signs.lost.set()
        if self._client is not None:
            self._client = None
            self._set_state(ServerState.RETRYING, "it ended")


async def _listen(
    client: Client,
    name: str,
    receive: Callable[[mcp_types.ServerNotification], Awaitable[None]],
) -> None:
    """Subscribe to changes, where the protocol has no notifications without that."""
    try:
        async with client.listen(tools_list_changed=True, prompts_list_changed=True) as events:
            async for _ in events:
                await receive(mcp_types.ToolListChangedNotification())
    except (MCPError, RuntimeError, TimeoutError) as error:
        logger.debug("no changes from %s: %s", name, error)


def _redact(config: ServerConfig, text: str) -> str:
    return redact(text, extra_values=config.find_secrets())


def _report_problems(connection: McpConnection) -> None:
    if found := _shorten_list(connection.catalogue.problems):
        connection.place.warn(f"the MCP server {connection.config.name}: {found}; left out")


def _shorten_list(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - 1:,} more" if len(texts) > 1 else ""
    return f"{texts[0]}{more}" if texts else ""


def _add_output(why: str, output: Sequence[str]) -> str:
    return f"{why}; it last wrote: {sanitize_line(output[-1], _SHOWN)}" if output else why
