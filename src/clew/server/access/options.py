"""Options of the server's access checks: `AccessOptions`, `RequestLimits`."""

from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TypeAlias

Network: TypeAlias = IPv4Network | IPv6Network

PUBLIC_PATHS = ("/", "/favicon.ico", "/api/v1/health")
PUBLIC_FOLDERS = ("/page/",)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How much a client may ask for."""

    max_body: int = 32 << 20
    """Bytes of the body of a request; prompts carry images."""
    body_seconds: float = 60.0
    """How long a body may take."""
    head_seconds: float = 15.0
    """How long the first request of a connection may take to arrive."""
    keep_alive_seconds: float = 75.0
    """How long an idle connection stays open."""
    max_header: int = 8_190
    """Bytes of a header, and of the request line."""
    max_connections: int = 4_096
    requests_per_second: float = 200.0
    """Of one user, or of one address without a user, on average."""
    request_burst: int = 1_000
    failures_per_second: float = 0.5
    """Requests without a valid token, of one address."""
    failure_burst: int = 30
    streams_per_user: int = 256
    max_streams: int = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Who may use a server, and how much."""

    token: str = field(repr=False)
    """The owner's token: `tokens.load_token`."""
    users_file: Path | None = None
    """More users, if the file exists: `users.UsersFile`."""
    audit_file: Path | None = None
    """Where each request is recorded."""
    hosts: frozenset[str] = frozenset()
    """Host names that clients may use, besides `localhost` and IP addresses."""
    proxies: tuple[Network, ...] = ()
    """Proxies whose `X-Forwarded-*` headers count."""
    user_header: str = ""
    """The header in which a trusted proxy names the user; by default no header does."""
    public_paths: tuple[str, ...] = PUBLIC_PATHS
    """Paths that need no token."""
    public_folders: tuple[str, ...] = PUBLIC_FOLDERS
    """Starts of paths that need no token: the files of the page."""
    limits: RequestLimits = RequestLimits()
