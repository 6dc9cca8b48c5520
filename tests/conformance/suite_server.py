"""The server that the MCP conformance suite expects, built as `clew mcp serve` builds its own.

The suite names its tools, resources and prompts, and what they answer. They are values for
`build_server`; only what a server that reads has no use for (subscriptions, log levels,
completion) is added here.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCMessage

from clew.sdk.mcp_memory import build_server, make_server
from clew.sdk.session_store import ProjectStore
from clew.stores.memory import MemoryStore
from tests.conformance.suite_input import INPUT_PROMPTS, INPUT_TOOLS
from tests.conformance.suite_parts import PROMPTS, RESOURCES, TOOLS, read_template
from tests.tools.mcp.sdk_server import PATH, serve_app


def make_suite_server() -> MCPServer:
    """Return the server with everything that a scenario calls."""
    server = build_server(
        [*TOOLS, *INPUT_TOOLS], resources=RESOURCES, prompts=[*PROMPTS, *INPUT_PROMPTS]
    )
    server.resource("test://template/{name}/data", mime_type="application/json")(read_template)
    handlers = server._lowlevel_server  # the SDK has no other way to add these
    handlers.add_request_handler("completion/complete", mcp_types.CompleteRequestParams, complete)
    handlers.add_request_handler("logging/setLevel", mcp_types.SetLevelRequestParams, accept)
    handlers.add_request_handler("resources/subscribe", mcp_types.SubscribeRequestParams, accept)
    handlers.add_request_handler(
        "resources/unsubscribe", mcp_types.UnsubscribeRequestParams, accept
    )
    return server


async def accept(_: ServerRequestContext[object], __: object) -> mcp_types.EmptyResult:
    return mcp_types.EmptyResult()


async def complete(
    _: ServerRequestContext[object], params: mcp_types.CompleteRequestParams
) -> mcp_types.CompleteResult:
    begin = params.argument.value
    cities = [city for city in ("paris", "parma", "porto") if city.startswith(begin)]
    return mcp_types.CompleteResult(completion=mcp_types.Completion(values=cities))


class StoredEvents(EventStore):
    """Keeps the events of all streams, so that a client can continue one."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        seen = int(last_event_id)
        stream, _ = self._events[seen - 1]
        for number, (name, message) in enumerate(self._events[seen:], start=seen + 1):
            if name == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


@asynccontextmanager
async def serve_suite() -> AsyncGenerator[str, None]:
    """Serve it over HTTP; yields the address."""
    app = make_suite_server().streamable_http_app(event_store=StoredEvents(), retry_interval=100)
    async with serve_app(app) as port:
        yield f"http://127.0.0.1:{port}{PATH}"


@asynccontextmanager
async def serve_memory() -> AsyncGenerator[str, None]:
    """Serve what `clew mcp serve` offers, about an empty store, over HTTP; yields the address."""
    place = ProjectStore(store=MemoryStore(), folder=None)
    async with serve_app(make_server(place).streamable_http_app()) as port:
        yield f"http://127.0.0.1:{port}{PATH}"
