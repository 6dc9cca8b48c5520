"""Sessions on a server: `RemoteServer` and `RemoteSession`, a `SessionClient` over HTTP."""

from clew.sdk.remote.server import RemoteServer, find_token
from clew.sdk.remote.session import RemoteSession

__all__ = ["RemoteServer", "RemoteSession", "find_token"]
