"""Where a request comes from: the address behind proxies, its `Host` and its `Origin`.

A web page that a user visits can send requests to a server on the user's machine. `Host` reveals
a page whose domain was pointed at this machine (DNS rebinding), `Origin` and `Sec-Fetch-Site`
reveal a page of another site.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from clew.core.errors import AccessDenied, ConfigError
from clew.server.access.options import Network

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_BAD_PATH = re.compile(r"[\x00-\x1f\x7f\\]|(?:^|/)\.\.?(?:/|$)")
_ENCODED_SLASH = re.compile(r"%(?:2f|5c|00)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Where a request comes from."""

    address: str
    """The client's address; that of a proxy only if it says no other."""
    scheme: str
    """`http` or `https`, as the client sees it."""
    host: str
    """The value of `Host`, as the client sent it."""
    proxied: bool = False
    """Whether a trusted proxy passed the request on."""

    @property
    def port(self) -> int:
        """The port that the client connects to."""
        found = _HOST.fullmatch(self.host)
        return int(found[2]) if found and found[2] else _PORTS.get(self.scheme, 80)


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks of trusted proxies.

    Raises:
        ConfigError: A text is neither an address nor a network.
    """
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as error:
        raise ConfigError(
            f"a trusted proxy must be an address or a network, such as 10.0.0.0/8: {error}"
        ) from error


def find_client(
    peer: str, scheme: str, headers: Mapping[str, str], proxies: Sequence[Network]
) -> Client:
    """Return where a request comes from.

    Args:
        peer: The address at the other end of the connection.
        scheme: How the connection is made.
        headers: The headers, with repeated ones joined by commas.
        proxies: The proxies whose `X-Forwarded-*` headers count.
    """
    host = headers.get("Host", "")
    if not _is_within(peer, proxies):
        return Client(address=peer, scheme=scheme, host=host)
    address = peer
    for hop in reversed(_split(headers.get("X-Forwarded-For", ""))):
        if _parse_address(hop) is None:
            break
        address = hop
        if not _is_within(hop, proxies):
            break
    told = _split(headers.get("X-Forwarded-Proto", ""))[-1:]
    hosts = _split(headers.get("X-Forwarded-Host", ""))[-1:]
    return Client(
        address=address,
        scheme=told[0] if told and told[0] in ("http", "https") else scheme,
        host=hosts[0] if hosts else host,
        proxied=True,
    )


def check_path(raw: str, decoded: str) -> None:
    """Refuse paths that two programs may understand differently.

    Raises:
        AccessDenied: The path has an encoded slash, a backslash, a dot segment or a control
            character.
    """
    if _BAD_PATH.search(decoded) or _ENCODED_SLASH.search(raw):
        raise AccessDenied(
            "the path has an encoded slash, a backslash, a . or .. segment, or a control"
            " character; use the ids and names that the server gave you"
        )


def check_host(client: Client, hosts: frozenset[str]) -> None:
    """Refuse a request whose `Host` is not a name of this server.

    An IP address is always accepted: no page can have the origin of an address but the one that
    this address serves.

    Raises:
        AccessDenied: The name is missing or another one.
    """
    found = _HOST.fullmatch(client.host)
    name = found[1].lower().rstrip(".") if found else ""
    if name == "localhost" or name in hosts or _parse_address(name.strip("[]")) is not None:
        return
    raise AccessDenied(
        "the Host header does not name this server; use its address, or start the server with"
        " --allow-host NAME"
    )


def check_origin(
    client: Client, method: str, headers: Mapping[str, str], *, websocket: bool = False
) -> None:
    """Refuse a request that a page of another site made a browser send.

    Call it for requests that a browser signs by itself, with the cookie or at a proxy, and for
    WebSockets.

    Raises:
        AccessDenied: The request comes from another site, or changes something and does not say
            where it comes from.
    """
    origin = headers.get("Origin")
    if origin is not None:
        if not is_same_origin(origin, client):
            raise AccessDenied(
                "the request comes from a page of another origin; open the page of this server."
                " Behind a proxy, start the server with --trust-proxy ADDRESS"
            )
        return
    site = headers.get("Sec-Fetch-Site")
    if site not in (None, "same-origin", "none"):
        raise AccessDenied("the request comes from a page of another site")
    if websocket or (method not in _SAFE_METHODS and site is None):
        raise AccessDenied(
            "a WebSocket, and a change with a cookie, needs an Origin header; programs send the"
            " token instead: Authorization: Bearer TOKEN"
        )


def is_same_origin(origin: str, client: Client) -> bool:
    """Return whether an origin is that of the server's own page."""
    try:
        parts = urlsplit(origin)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return False
    found = _HOST.fullmatch(client.host)
    if found is None or parts.scheme != client.scheme:
        return False
    return (parts.hostname, port) == (found[1].lower().strip("[]"), client.port)


def _split(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _is_within(address: str, networks: Sequence[Network]) -> bool:
    found = _parse_address(address) if networks else None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found is not None and any(found in network for network in networks)
