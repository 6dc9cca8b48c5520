"""The options of the server."""

from collections.abc import Mapping
from dataclasses import dataclass

from clew.sdk.session_spec import SessionSpec
from clew.server.access import AccessOptions

HOST = "127.0.0.1"
PORT = 8765


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOptions:
    """How one of several servers on the same PostgreSQL database works with the others."""

    host: str = HOST
    """Where it listens for them, and the address at which they reach it."""
    port: int = 0
    """0 for any free port."""
    silent_after: float = 5.0
    """Seconds without a heartbeat after which the others take over its sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What `clew serve` serves, and where."""

    defaults: SessionSpec
    """What sessions get that a client does not say: the folder, the model and so on."""
    environ: Mapping[str, str]
    access: AccessOptions | None = None
    """Who may use the server; None lets everybody who reaches it, for tests and for programs that
    check access themselves."""
    roots: tuple[str, ...] = ()
    """Sessions may be in these folders and below; by default in that of `defaults`."""
    host: str = HOST
    port: int = PORT
    """0 for any free port."""
    max_sessions: int = 100
    """How many sessions may be open at once."""
    idle_seconds: float = 1_800.0
    """A session that was not used for so long is closed; it stays stored."""
    heartbeat_seconds: float = 15.0
    """Seconds of silence after which an event stream sends a comment."""
    stall_seconds: float = 60.0
    """A client that takes no data for so long is disconnected."""
    shutdown_seconds: float = 0.2
    """How long requests may still run when the server stops."""
    replica: ReplicaOptions | None = None
    """Share the sessions of a PostgreSQL database with other servers."""
