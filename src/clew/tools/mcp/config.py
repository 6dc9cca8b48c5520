"""The configuration of MCP servers: what one entry of `mcpServers` means.

Strings may refer to variables: `${NAME}`, `${NAME:-default}`, and `$ENV:NAME` as a whole value.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.redaction import redact
from clew.core.redaction.classification import looks_random
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
_RANDOM = 12
"""Characters of a value that is a secret whatever its variable is called."""
_PLACE = re.compile(r"[/~.]|https?://", re.IGNORECASE)
_HTTP_URL = re.compile(r"https?://[^\s/]+", re.IGNORECASE)


class OAuthConfig(Struct, frozen=True, kw_only=True):
    """How to log in to a server."""

    client_id: str = ""
    """The id of a registered client; empty to register one."""
    callback_port: int = 0
    """The port for the browser's answer; 0 for any that is free."""
    scope: str = ""


class _Entry(Struct, frozen=True, kw_only=True, rename="camel"):
    """The types that an entry of `mcpServers` may have; other keys are ignored."""

    type: str = ""
    command: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str | bool | int | float] = {}
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    timeout: float | None = None
    oauth: Mapping[str, Any] | None = None


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
    shown: str = ""
    """The command line or the address with references in place of the values of variables."""
    secrets: tuple[str, ...] = ()
    """Values of variables that look like secrets, wherever the entry refers to them."""

    def __repr__(self) -> str:
        return f"ServerConfig({self.name!r})"

    @property
    def target(self) -> str:
        """The command line or the address, for people; without headers and variables."""
        plain = " ".join((self.command, *self.args)) if self.transport == "stdio" else self.url
        return redact(self.shown or plain, extra_values=self.find_secrets())

    def find_secrets(self) -> tuple[str, ...]:
        """Return the values that must not appear in output.

        Those are headers, variables with the name of a secret, and values of the user's variables
        that look like a secret, wherever the entry uses them.
        """
        named = (value for name, value in self.env.items() if is_secret_variable(name))
        found = (*self.headers.values(), *named, *self.secrets)
        words = (word for value in found for word in (value, value.rpartition(" ")[2]))
        return tuple(dict.fromkeys(word for word in words if len(word) >= _SHORTEST_SECRET))


def parse_server(
    name: str, entry: Mapping[str, Any], environ: Mapping[str, str], *, trusted: bool, origin: str
) -> ServerConfig:
    """Return the configuration of one server from an entry of `mcpServers`.

    Raises:
        ConfigError: Something is missing, or refers to a variable that is not set.
    """
    check_entry(name, entry)
    written, entry = entry, _expand(entry, f"mcpServers.{name}", environ)
    command, url = entry.get("command", ""), entry.get("url", "")
    transport = find_transport(entry)
    assert transport is not None  # noqa: S101 - it was checked
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
        shown=" ".join((str(written.get("command", "")), *map(str, written.get("args", ()))))
        if transport == "stdio"
        else str(written.get("url", "")),
        secrets=tuple(_find_secrets(written, environ)),
    )


def check_entry(name: str, entry: object) -> None:
    """Check an entry of `mcpServers` without the variables that it refers to.

    Raises:
        ConfigError: A value has the wrong type, or the entry says neither what to start nor what
            to connect to.
    """
    try:
        found = msgspec.convert(entry, _Entry)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the MCP server {name} is malformed: {error}") from error
    transport = find_transport({"type": found.type, "command": found.command})
    if transport is None:
        raise ConfigError(
            f"the MCP server {name} has an unknown type; write one of {', '.join(_TRANSPORTS)}"
        )
    if transport == "stdio" and not found.command:
        raise ConfigError(f"the MCP server {name} has no command")
    if transport != "stdio" and not found.url:
        raise ConfigError(f"the MCP server {name} has neither a command nor a url")


def find_transport(entry: Mapping[str, Any]) -> Transport | None:
    """Return how an entry is connected to: as its type says; None if the type is unknown."""
    kind = entry.get("type") or ("stdio" if entry.get("command") else "http")
    return _TRANSPORTS.get(kind)


def list_variables(value: Any) -> Iterator[str]:
    """Yield the names of the variables that an entry refers to."""
    match value:
        case str():
            if (whole := _REFERENCE.fullmatch(value)) is not None:
                yield whole[1]
            else:
                yield from (found[1] for found in _VARIABLE.finditer(value))
        case Mapping():
            for inner in value.values():
                yield from list_variables(inner)
        case Sequence():
            for inner in value:
                yield from list_variables(inner)
        case _:
            pass


def _find_secrets(entry: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys(list_variables(entry)):
        value = environ.get(name, "")
        # Variables such as HOME are no secrets: their values would be redacted in every output.
        if is_secret_variable(name) or (looks_random(value, _RANDOM) and not _PLACE.match(value)):
            yield value


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
