"""The MCP servers of a project, shared by the sessions and subagents of one host."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from clew.core.redaction import redact
from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.values import ServerPrompt, ServerState, ServerStatus, ServerTool

if TYPE_CHECKING:
    # Loads the SDK, which takes long: only when a server is configured, and in a thread.
    from clew.tools.mcp.connection import McpConnection

logger = logging.getLogger(__name__)

Warn = Callable[[str], None]
StartSoon = Callable[[Callable[[], Awaitable[None]]], None]
_NOT_INSTALLED = "the MCP servers are not started: install Clew with `pip install 'clew[mcp]'`"


class McpPool:
    """Starts all servers in the background, and closes them at the end.

    Args:
        configs: The servers.
        cwd: The project's folder.
        environ: Environment variables; servers get few of them.
        sampling: Whether servers may ask the model.
        tokens: Where the tokens of logins are stored; None to ignore logins.
    """

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        sampling: bool = False,
        tokens: Path | None = None,
        delays: tuple[float, ...] | None = None,
    ) -> None:
        self.configs = tuple(configs)
        self._cwd, self._environ, self._sampling = cwd, environ, sampling
        self._tokens, self._delays = tokens, delays
        self._connections: dict[str, McpConnection] = {}
        self._listeners: list[Warn] = []
        self._scope = anyio.CancelScope()
        self._created = anyio.Event()
        self._ended = anyio.Event()
        self._started = False
        self._problem = ""
        self.version = 0
        """Counts the changes of what servers offer."""

    def start(self, start_soon: StartSoon) -> None:
        """Start the servers in the background; calling it again does nothing."""
        if not self._started:
            start_soon(self._run)
            self._started = True

    def subscribe(self, warn: Warn) -> Callable[[], None]:
        """Report warnings there, until the returned function is called."""
        self._listeners.append(warn)

        def unsubscribe() -> None:
            if warn in self._listeners:
                self._listeners.remove(warn)

        return unsubscribe

    @property
    def connections(self) -> Mapping[str, "McpConnection"]:
        """The servers by name."""
        return self._connections

    @property
    def tools(self) -> list[tuple[ServerTool, "McpConnection"]]:
        """The tools of all servers, sorted by name."""
        found = [(tool, one) for one in self._connections.values() for tool in one.catalogue.tools]
        return sorted(found, key=lambda pair: pair[0].spec.name)

    @property
    def prompts(self) -> list[ServerPrompt]:
        """The prompts of all servers, sorted by name."""
        found = (one for each in self._connections.values() for one in each.catalogue.prompts)
        return sorted(found, key=lambda prompt: prompt.name)

    def list_status(self) -> list[ServerStatus]:
        """Return all servers with their states, sorted by name."""
        found = [
            known.status
            if (known := self._connections.get(config.name)) is not None
            else ServerStatus(
                name=config.name,
                state=ServerState.FAILED if self._problem else ServerState.STARTING,
                transport=config.transport,
                target=config.target,
                origin=config.origin,
                error=self._problem,
            )
            for config in self.configs
        ]
        return sorted(found, key=lambda status: status.name)

    async def wait_settled(self, seconds: float | None) -> bool:
        """Wait until each server is ready or has failed once; returns False after that time."""
        with anyio.move_on_after(seconds):
            await self._created.wait()
            for connection in self._connections.values():
                await connection.wait_settled()
            return True
        return False

    async def aclose(self) -> None:
        """End all servers and wait until they are gone; calling it again does nothing."""
        self._scope.cancel()
        if self._started:
            with anyio.CancelScope(shield=True):
                await self._ended.wait()

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._create()
                self._created.set()
                async with anyio.create_task_group() as tasks:
                    for connection in self._connections.values():
                        tasks.start_soon(connection.run)
        finally:
            self._created.set()
            self._ended.set()

    async def _create(self) -> None:
        try:
            module = await to_thread.run_sync(import_module, "clew.tools.mcp.connection")
        except ImportError as error:
            logger.debug("the MCP SDK is missing: %s", error)
            self._problem = _NOT_INSTALLED
            self._warn(_NOT_INSTALLED)
            return
        place = module.Surroundings(
            cwd=self._cwd,
            environ=self._environ,
            warn=self._warn,
            changed=self._count_change,
            sampling=self._sampling,
            make_auth=self._make_auth if self._tokens is not None else None,
            **({} if self._delays is None else {"delays": self._delays}),
        )
        for config in self.configs:
            self._connections[config.name] = module.McpConnection(config, place)

    def _make_auth(self, config: ServerConfig) -> Any:
        from clew.tools.mcp.oauth import stored_login  # noqa: PLC0415 - loads the SDK

        assert self._tokens is not None  # noqa: S101 - checked where this is passed on
        return stored_login(config, self._tokens)

    def _count_change(self) -> None:
        self.version += 1

    def _warn(self, text: str) -> None:
        secrets = [value for config in self.configs for value in config.find_secrets()]
        text = redact(text, extra_values=secrets)
        for listener in tuple(self._listeners):
            listener(text)
