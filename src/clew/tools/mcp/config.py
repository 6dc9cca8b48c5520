"""The configuration of MCP servers: what one entry of `mcpServers` means.

Strings may refer to variables: `${NAME}`, `${NAME:-default}`, and `$ENV:NAME` as a whole value.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.secret_variables import is_secret_variable

Transport: TypeAlias = Literal["stdio", "http", "sse"]

CALL_TIMEOUT = 120.0
"""Seconds that a call may take without progress."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_REFERENCE = re.compile(r"\$ENV:([A-Za-z_]\w*)")
_TRANSPORTS: Mapping[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "sse": "sse",
}
_SHORTEST_SECRET = 8
_HTTP_URL = re.compile(r"https?://[^\s/]+", re.IGNORECASE)


class OAuthConfig(Struct, frozen=True, kw_only=True):
    """How to log in to a server."""

    client_id: str = ""
    """The id of a registered client; empty to register one."""
    callback_port: int = 0
    """The port for the browser's answer; 0 for any that is free."""
    scope: str = ""


class ServerConfig(Struct, frozen=True, kw_only=True):
    """One server, with all variables resolved."""

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str = ""
    """Where a program runs; empty for the project's folder."""
    url: str = ""
    headers: Mapping[str, str] = {}
    timeout: float = CALL_TIMEOUT
    """Seconds that a call may take without progress."""
    oauth: OAuthConfig = OAuthConfig()
    trusted: bool = False
    """True when the user configured it, so that its claims about tools are believed."""
    origin: str = ""
    """The file that configures it."""

    def __repr__(self) -> str:
        return f"ServerConfig({self.name!r})"

    @property
    def target(self) -> str:
        """The command line or the address, for people; without headers and variables."""
        return " ".join((self.command, *self.args)) if self.transport == "stdio" else self.url

    def find_secrets(self) -> tuple[str, ...]:
        """Return the values that must not appear in output: headers, and secret variables."""
        named = (value for name, value in self.env.items() if is_secret_variable(name))
        found = (*self.headers.values(), *named)
        words = (word for value in found for word in (value, value.rpartition(" ")[2]))
        return tuple(dict.fromkeys(word for word in words if len(word) >= _SHORTEST_SECRET))


def parse_server(
    name: str, entry: Mapping[str, Any], environ: Mapping[str, str], *, trusted: bool, origin: str
) -> ServerConfig:
    """Return the configuration of one server from an entry of `mcpServers`.

    Raises:
        ConfigError: Something is missing, or refers to a variable that is not set.
    """
    entry = _expand(entry, f"mcpServers.{name}", environ)
    command, url = entry.get("command", ""), entry.get("url", "")
    kind = entry.get("type") or ("stdio" if command else "http")
    transport = _TRANSPORTS[kind]
    if transport == "stdio" and not command:
        raise ConfigError(f"the MCP server {name} has no command")
    if transport != "stdio" and not _HTTP_URL.match(url):
        raise ConfigError(f"the MCP server {name} needs a url that begins with http:// or https://")
    oauth = entry.get("oauth") or {}
    timeout = entry.get("timeout")
    return ServerConfig(
        name=name,
        transport=transport,
        command=command,
        args=tuple(entry.get("args", ())),
        env={key: _to_text(value) for key, value in entry.get("env", {}).items()},
        cwd=entry.get("cwd", ""),
        url=url,
        headers=dict(entry.get("headers", {})),
        timeout=timeout / 1000 if timeout else CALL_TIMEOUT,
        oauth=OAuthConfig(
            client_id=oauth.get("clientId", ""),
            callback_port=oauth.get("callbackPort", 0),
            scope=oauth.get("scope", ""),
        ),
        trusted=trusted,
        origin=origin,
    )


def expand_variables(text: str, where: str, environ: Mapping[str, str]) -> str:
    """Replace references to variables in a text.

    Raises:
        ConfigError: A variable is not set and has no default.
    """

    def find(match: re.Match[str]) -> str:
        value = environ.get(match[1]) or (match[2] if match.lastindex == 2 else None)
        if value is None:
            raise ConfigError(f"{where} refers to the variable {match[1]}, which is not set")
        return value

    if (whole := _REFERENCE.fullmatch(text)) is not None:
        return find(whole)
    return _VARIABLE.sub(find, text)


def _expand(value: Any, where: str, environ: Mapping[str, str]) -> Any:
    match value:
        case str():
            return expand_variables(value, where, environ)
        case Mapping():
            return {key: _expand(inner, f"{where}.{key}", environ) for key, inner in value.items()}
        case Sequence():
            return [_expand(inner, where, environ) for inner in value]
        case _:
            return value


def _to_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
