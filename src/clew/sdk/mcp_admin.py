"""MCP servers from outside a session: add, list, remove, test, log in and out."""

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anyio import to_thread
from msgspec import Struct

from clew.config.display import redact_settings
from clew.config.updates import find_server_file, set_server
from clew.core.errors import ConfigError
from clew.core.redaction import redact
from clew.extensions.plugins.contribution import Plugin, PluginServer
from clew.sdk.folders import Homes
from clew.sdk.host import Host
from clew.sdk.mcp_servers import list_servers, token_folder
from clew.sdk.session_plugins import load_plugins
from clew.sdk.settings import LoadedSettings, load_project_settings, trust_record
from clew.tools.mcp.config import ServerConfig, find_transport
from clew.tools.mcp.pool import McpPool
from clew.tools.mcp.values import ServerState, ServerStatus

_TEST_SECONDS = 60.0
_NOT_STARTED = "not started: disabled, or a variable is missing"


class KnownServer(Struct, frozen=True, kw_only=True):
    """A server of the settings."""

    name: str
    transport: str
    target: str
    origin: str
    """The file that configures it."""
    entry: Mapping[str, Any]
    """As it is written there, without secrets."""
    problem: str = ""
    """Why it is not started."""


class ServerTest(Struct, frozen=True, kw_only=True):
    """What came of an attempt to start a server."""

    status: ServerStatus
    seconds: float
    tools: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """True when the server can be called."""
        return self.status.state is ServerState.READY


class McpServers:
    """The MCP servers that apply in one folder. Methods that are not async block.

    Args:
        cwd: The folder.
        environ: Environment variables; those of the process by default.
    """

    def __init__(self, cwd: Path, environ: Mapping[str, str] | None = None) -> None:
        self._cwd = cwd
        self._environ = os.environ if environ is None else environ
        self._homes = Homes.of(self._environ)

    def add(self, name: str, entry: Mapping[str, Any], *, scope: str = "user") -> str:
        """Add or replace a server; returns the file.

        Raises:
            ConfigError: The entry is wrong, or the file cannot be written.
        """
        if not name.strip() or any(sign in name for sign in "/\\\0\n"):
            raise ConfigError(f"{name!r} is not a name for an MCP server")
        if ("command" in entry) == ("url" in entry):
            raise ConfigError(f"the MCP server {name} needs either a command or a url")
        loaded = self._load()
        place = find_server_file(loaded, scope)
        set_server(loaded, place, name, entry, trust=trust_record(self._homes))
        return place.label

    def remove(self, name: str, *, scope: str = "user") -> str:
        """Remove a server; returns the file.

        Raises:
            ConfigError: There is none of that name, or the file cannot be written.
        """
        loaded = self._load()
        place = find_server_file(loaded, scope)
        try:
            set_server(loaded, place, name, None, trust=trust_record(self._homes))
        except ConfigError as error:
            origin = loaded.origins.get(("mcpServers", name))
            if origin is None:
                raise
            hint = f"it is in {origin[-1]}; choose its --scope"
            raise ConfigError(f"{error}; {hint}") from error
        return place.label

    def list_servers(self) -> list[KnownServer]:
        """Return the servers of all files, sorted by name, including those that are not started."""
        loaded = self._load()
        plugins = self._load_plugins(loaded)
        found = {one.name: one for one in list_servers(loaded, plugins=plugins).servers}
        entries = redact_settings(loaded).get("mcpServers", {})
        listed = [
            _describe(name, entry, found.get(name), loaded) for name, entry in entries.items()
        ]
        listed += [
            _describe_plugin_server(plugin, server, found.get(server.name))
            for plugin in plugins
            for server in plugin.contribution.servers
        ]
        listed += [
            KnownServer(
                name=one.key.removeprefix("mcpServers."),
                transport="",
                target=one.why,
                origin=one.path.name,
                entry={},
                problem="not started until you accept this folder: clew config accept",
            )
            for one in loaded.withheld
            if one.key.startswith("mcpServers.")
        ]
        return sorted(listed, key=lambda one: one.name)

    def get(self, name: str) -> KnownServer:
        """Return one server.

        Raises:
            ConfigError: There is none of that name.
        """
        for one in self.list_servers():
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.list_servers()) or "none"
        raise ConfigError(f"there is no MCP server {name}; there are: {known}")

    async def test(self, name: str) -> ServerTest:
        """Start a server, list what it offers, and end it.

        Raises:
            ConfigError: There is none of that name, or it cannot be started.
        """
        config = await to_thread.run_sync(self._find, name)
        warnings: list[str] = []
        started = time.monotonic()
        async with Host() as host:
            pool = McpPool(
                [config],
                cwd=self._cwd,
                environ=self._environ,
                tokens=token_folder(self._homes.clew),
            )
            host.add(pool)
            pool.subscribe(warnings.append)
            pool.start(host.start_soon)
            await pool.wait_settled(_TEST_SECONDS)
            (status,) = pool.list_status()
            connection = pool.connections.get(name)
            offers = connection.catalogue if connection is not None else None
        return ServerTest(
            status=status,
            seconds=time.monotonic() - started,
            tools=tuple(tool.spec.name for tool in offers.tools) if offers else (),
            prompts=tuple(prompt.name for prompt in offers.prompts) if offers else (),
            resources=tuple(one.uri for one in offers.resources) if offers else (),
            warnings=tuple(warnings),
        )

    async def login(self, name: str, open_page: Callable[[str], Awaitable[None]]) -> None:
        """Have the user log in to a server; `open_page` shows the page for that.

        Raises:
            ConfigError: The server needs no login, or the login failed.
        """
        config = await to_thread.run_sync(self._find_remote, name)
        from clew.tools.mcp.oauth import log_in  # noqa: PLC0415 - loads the SDK

        await log_in(config, token_folder(self._homes.clew), open_page)

    def logout(self, name: str) -> bool:
        """Remove the tokens of a login; returns whether there were any.

        Raises:
            ConfigError: There is no such server.
        """
        from clew.tools.mcp.oauth import log_out  # noqa: PLC0415 - loads the SDK

        return log_out(self._find_remote(name), token_folder(self._homes.clew))

    def _load(self) -> LoadedSettings:
        return load_project_settings(self._cwd, self._homes, self._environ)

    def _load_plugins(self, loaded: LoadedSettings) -> tuple[Plugin, ...]:
        return load_plugins(loaded, self._homes, self._cwd).plugins

    def _find(self, name: str) -> ServerConfig:
        loaded = self._load()
        known = list_servers(loaded, plugins=self._load_plugins(loaded))
        for one in known.servers:
            if one.name == name:
                return one
        for problem in known.problems:
            if f"the MCP server {name} " in problem:
                raise ConfigError(problem)
        problem = self.get(name).problem
        raise ConfigError(f"the MCP server {name} is {problem or 'disabled'}")

    def _find_remote(self, name: str) -> ServerConfig:
        config = self._find(name)
        if config.transport == "stdio":
            raise ConfigError(f"the MCP server {name} is a command; only HTTP servers have logins")
        return config


def _describe_plugin_server(
    plugin: Plugin, server: PluginServer, config: ServerConfig | None
) -> KnownServer:
    entry = server.entry
    command = " ".join((entry.get("command", ""), *entry.get("args", ())))
    return KnownServer(
        name=server.name,
        transport=find_transport(entry) or "",
        target=redact(command.strip() or entry.get("url", "")),
        origin=f"plugin {plugin.name}",
        entry={key: entry[key] for key in ("type", "command", "args", "url") if key in entry},
        problem="" if config is not None else _NOT_STARTED,
    )


def _describe(
    name: str, entry: Mapping[str, Any], config: ServerConfig | None, loaded: LoadedSettings
) -> KnownServer:
    command = " ".join((entry.get("command", ""), *entry.get("args", ())))
    kind = entry.get("type") or ("stdio" if "command" in entry else "http")
    return KnownServer(
        name=name,
        transport=kind,
        target=command.strip() or entry.get("url", ""),
        origin=loaded.origins.get(("mcpServers", name), ("",))[-1],
        entry=entry,
        problem="" if config is not None else _NOT_STARTED,
    )


def make_entry(
    target: str,
    arguments: Sequence[str],
    *,
    transport: str | None,
    env: Sequence[str] = (),
    headers: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the entry of `mcpServers` that the flags of `clew mcp add` describe.

    Raises:
        ConfigError: A flag is malformed.
    """
    is_address = target.startswith(("http://", "https://"))
    kind = transport or ("http" if is_address else "stdio")
    foreign = headers if kind == "stdio" else (*env, *arguments)
    if foreign:
        what = "no headers" if kind == "stdio" else "no variables and arguments"
        raise ConfigError(f"a server of the type {kind} has {what}: {foreign[0]}")
    if kind == "stdio":
        entry: dict[str, Any] = {"command": target}
        if arguments:
            entry["args"] = list(arguments)
        if env:
            entry["env"] = dict(_split(one, "=", "NAME=VALUE") for one in env)
        return entry
    if not is_address:
        raise ConfigError(f"{target} is not an address; write one such as https://example.com/mcp")
    entry = {"type": kind, "url": target}
    if headers:
        entry["headers"] = dict(_split(one, ":", "NAME: VALUE") for one in headers)
    return entry


def _split(text: str, sign: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found or not name.strip():
        raise ConfigError(f"{name!r} is not of the form {form}")
    return name.strip(), value.strip()
