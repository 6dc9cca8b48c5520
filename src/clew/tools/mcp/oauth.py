"""Logins to HTTP servers with OAuth: the SDK's flow, and tokens in private files.

A session uses and refreshes the tokens of a login, and never opens a browser: for that there is
`clew mcp login`.
"""

import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import msgspec
from anyio.abc import SocketAttribute, SocketStream
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.files.atomic import make_private_folder, replace_file
from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.names import clean_server

OpenPage = Callable[[str], Awaitable[None]]
"""Shows the page on which the user logs in."""
_Model = TypeVar("_Model", bound=BaseModel)
_PRIVATE = 0o600
_MARGIN = 30.0
"""Seconds before its end from which a token counts as expired."""
_MAX_REQUEST = 16_384
_PAGE = b"<!doctype html><title>Clew</title><p>You can close this page and return to Clew."
_HEADERS = (
    b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
)


def token_file(config: ServerConfig, folder: Path) -> Path:
    """Return the file with the tokens of a server; another address has another file."""
    digest = hashlib.sha256(config.url.encode()).hexdigest()[:12]
    return folder / f"{clean_server(config.name)}-{digest}.json"


class TokenFile:
    """Stores the tokens of one login in a file that only the user can read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; without the access token if it has expired, so it is refreshed."""
        data = self.read()
        tokens = _parse(OAuthToken, data.get("tokens"))
        if tokens is None:
            return None
        if (expires := data.get("expires_at")) and time.time() > float(expires) - _MARGIN:
            return tokens.model_copy(update={"access_token": ""})
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens, with the time at which they expire."""
        expires = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self.update(tokens=_dump(tokens), expires_at=expires)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client that was registered."""
        return _parse(OAuthClientInformationFull, self.read().get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the client that was registered."""
        self.update(client=_dump(client_info))

    def read(self) -> dict[str, Any]:
        """Return the content; nothing if the file is missing or damaged."""
        try:
            found = decode_json(self._path.read_bytes())
        except (OSError, msgspec.DecodeError):
            return {}
        return found if isinstance(found, dict) else {}

    def update(self, **values: Any) -> None:
        """Change some values; the file has mode 0600."""
        make_private_folder(self._path.parent)
        data = msgspec.json.encode({**self.read(), **values})
        replace_file(self._path, data, mode=_PRIVATE)


def stored_login(config: ServerConfig, folder: Path) -> httpx2.Auth:
    """Return what adds the tokens of an earlier login to requests, and refreshes them."""
    storage = TokenFile(token_file(config, folder))
    if not storage.read().get("tokens"):
        return _NoLogin()
    return _make_provider(config, storage, "http://127.0.0.1/callback", _refuse)


async def log_in(config: ServerConfig, folder: Path, open_page: OpenPage) -> None:
    """Have the user log in to a server, and store the tokens.

    A new login starts from nothing, because the client of an earlier one is registered for another
    address of the answer. The earlier login stays valid until the new one has succeeded.

    Raises:
        ConfigError: The login failed, or the server needs none.
    """
    path = token_file(config, folder)
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        await _log_in(config, TokenFile(new), open_page)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


async def _log_in(config: ServerConfig, storage: TokenFile, open_page: OpenPage) -> None:
    failure: Exception | None = None
    async with _listen(config.oauth.callback_port) as (address, wait_for_answer):
        provider = _make_provider(
            config, storage, address, open_page, wait_for_answer=wait_for_answer
        )
        try:
            async with httpx2.AsyncClient(auth=provider, timeout=30) as client:
                probe = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                accept = {"Accept": "application/json, text/event-stream"}
                await client.post(config.url, json=probe, headers={**config.headers, **accept})
        except (OAuthFlowError, httpx2.HTTPError, ValidationError) as error:
            failure = error
    # Raised here, because the tasks of the listener would put it into a group.
    if failure is not None:
        raise ConfigError(f"the login to {config.name} failed: {failure}") from failure
    if not storage.read().get("tokens"):
        raise ConfigError(f"the MCP server {config.name} did not ask for a login")
    context = provider.context
    storage.update(
        metadata=_dump(context.oauth_metadata), resource=_dump(context.protected_resource_metadata)
    )


def log_out(config: ServerConfig, folder: Path) -> bool:
    """Remove the tokens of a server; returns whether there were any."""
    path = token_file(config, folder)
    known = path.exists()
    path.unlink(missing_ok=True)
    return known


class _NoLogin(httpx2.Auth):
    """Says that a login is needed, as soon as a server asks for one."""

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            raise OAuthFlowError("the server needs a login")


async def _refuse(_: str) -> None:
    raise OAuthFlowError("the login has expired")


def _make_provider(
    config: ServerConfig,
    storage: TokenFile,
    address: str,
    open_page: OpenPage,
    *,
    wait_for_answer: Callable[[], Awaitable[AuthorizationCodeResult]] | None = None,
) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        client_name="Clew",
        redirect_uris=[AnyUrl(address)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        scope=config.oauth.scope or None,
        token_endpoint_auth_method="none",  # noqa: S106 - the name of a method
    )
    provider = OAuthClientProvider(
        server_url=config.url,
        client_metadata=metadata,
        storage=storage,
        redirect_handler=open_page,
        callback_handler=wait_for_answer,
    )
    data, context = storage.read(), provider.context
    context.oauth_metadata = _parse(OAuthMetadata, data.get("metadata"))
    context.protected_resource_metadata = _parse(ProtectedResourceMetadata, data.get("resource"))
    if config.oauth.client_id and "client" not in data:
        known = OAuthClientInformationFull(
            client_id=config.oauth.client_id, redirect_uris=metadata.redirect_uris
        )
        storage.update(client=_dump(known))
    return provider


@asynccontextmanager
async def _listen(
    port: int,
) -> AsyncGenerator[tuple[str, Callable[[], Awaitable[AuthorizationCodeResult]]], None]:
    """Wait on a loopback port for the page to which the browser is sent after the login."""
    send, receive = anyio.create_memory_object_stream[AuthorizationCodeResult](1)

    async def answer(stream: SocketStream) -> None:
        async with stream:
            found = _read_answer(await _read_head(stream))
            status = b"200 OK" if found is not None else b"404 Not Found"
            page = _PAGE if found is not None else b""
            await stream.send(_HEADERS % (status, len(page), page))
            if found is not None:
                await send.send(found)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    async with send, receive, listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        number = listener.extra(SocketAttribute.local_port)  # noqa: S610
        try:
            yield f"http://127.0.0.1:{number}/callback", receive.receive
        finally:
            tasks.cancel_scope.cancel()


async def _read_head(stream: SocketStream) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _MAX_REQUEST:
        try:
            data += await stream.receive()
        except anyio.EndOfStream:
            break
    return data


def _read_answer(request: bytes) -> AuthorizationCodeResult | None:
    """Return the answer of the authorization server in a request of the browser."""
    words = request.split(b"\r\n", 1)[0].decode("latin-1").split()
    if len(words) < 2 or words[0] != "GET":
        return None
    address = urlsplit(words[1])
    values = {key: found[0] for key, found in parse_qs(address.query).items()}
    if address.path != "/callback" or not values.keys() & {"code", "error"}:
        return None
    return AuthorizationCodeResult(
        code=values.get("code", ""), state=values.get("state"), iss=values.get("iss")
    )


def _dump(model: BaseModel | None) -> Any:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _parse(kind: type[_Model], data: Any) -> _Model | None:
    try:
        return None if data is None else kind.model_validate(data)
    except ValidationError:
        return None
