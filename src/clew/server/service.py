"""`Service`: what the routes act on, for one user."""

from collections.abc import Callable
from dataclasses import dataclass

from clew.server.event_stream import Streams
from clew.server.live_sessions import LiveSessions
from clew.server.metrics import Metrics
from clew.server.options import ServerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The sessions of one user, and what all users share."""

    sessions: LiveSessions
    options: ServerOptions
    streams: Streams
    metrics: Metrics
    document: Callable[[], bytes]
    """Returns the OpenAPI document."""
