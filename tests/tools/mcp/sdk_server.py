"""A server made with the official SDK, over stdio or in this process, also with a login."""

import secrets
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

PATH = "/mcp"


def make_server(**options: Any) -> MCPServer:
    """Return a server with three tools, a prompt and a resource."""
    server = MCPServer("example", instructions="An example.", **options)

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    async def count(context: Context, steps: int) -> str:
        """Count, with progress."""
        for step in range(steps):
            await context.report_progress(step + 1, steps, f"step {step + 1}")
        return "counted"

    @server.tool()
    async def wait() -> str:
        """Wait for ever."""
        await anyio.sleep_forever()
        return "never"

    @server.prompt()
    def greet(name: str) -> str:
        """Return a greeting."""
        return f"Say hello to {name}."

    @server.resource("note://{name}")
    def note(name: str) -> str:
        return f"the note {name}"

    return server


@asynccontextmanager
async def serve_app(app: Any, at: socket.socket | None = None) -> AsyncGenerator[int, None]:
    """Serve an ASGI application on a loopback port, or on a socket."""
    # Of the parsers of uvicorn, only h11 removes spaces around the value of a header.
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="critical", lifespan="on", http="h11"
    )
    server = uvicorn.Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server._serve, None if at is None else [at])
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for that
            await anyio.sleep(0.01)
        try:
            yield server.servers[0].sockets[0].getsockname()[1]
        finally:
            server.should_exit = True
            server.force_exit = True


@dataclass
class Logins:
    """An authorization server that lets everybody in, and remembers what it issued."""

    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)
    lifetime: int = 3_600
    refreshed: int = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        assert client.client_id is not None
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            client_id=client.client_id,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            expires_at=time.time() + 60,
            scopes=params.scopes or [],
            code_challenge=params.code_challenge,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(authorization_code.client_id)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,
        refresh_token: RefreshToken,
        scopes: list[str],
    ) -> OAuthToken:
        self.refreshed += 1
        return self._issue(refresh_token.client_id)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)

    def _issue(self, client_id: str) -> OAuthToken:
        token, again = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        self.access[token] = AccessToken(token=token, client_id=client_id, scopes=[])
        self.refresh[again] = RefreshToken(token=again, client_id=client_id, scopes=[])
        return OAuthToken(
            access_token=token, refresh_token=again, expires_in=self.lifetime, scope=""
        )


def make_protected(logins: Logins, address: str) -> MCPServer:
    """Return a server that asks for a login."""
    return make_server(
        auth_server_provider=logins,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(address),
            resource_server_url=AnyHttpUrl(f"{address}{PATH}"),
            validate_token_resource=False,
            client_registration_options=ClientRegistrationOptions(enabled=True),
        ),
    )


if __name__ == "__main__":
    anyio.run(make_server().run_stdio_async)
