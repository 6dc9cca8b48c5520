"""Clew's MCP server over HTTP, as the conformance suite reaches it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from clew.sdk.mcp_memory import make_server
from clew.sdk.session_store import ProjectStore
from clew.stores.memory import MemoryStore
from tests.tools.mcp.sdk_server import PATH, serve_app


@asynccontextmanager
async def serve_memory() -> AsyncGenerator[str, None]:
    """Serve the sessions of an empty store; yields the address."""
    place = ProjectStore(store=MemoryStore(), folder=None)
    async with serve_app(make_server(place).streamable_http_app()) as port:
        yield f"http://127.0.0.1:{port}{PATH}"
