"""Servers made with the official SDK: over stdio, HTTP and SSE, with and without a login."""

import json
import socket
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx2
import pytest
from mcp.client.auth import OAuthFlowError

from clew.core.errors import ConfigError
from clew.sdk.host import Host
from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.oauth import TokenFile, log_in, log_out, token_file
from clew.tools.mcp.pool import McpPool
from clew.tools.mcp.source import McpToolSource
from clew.tools.mcp.stdio import MAX_MESSAGE
from clew.tools.mcp.values import ServerState
from clew.tools.protocol import Progress, ToolContext
from tests.tools.mcp.sdk_server import PATH, Logins, make_protected, make_server, serve_app

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-6")]

SERVER = Path(__file__).with_name("sdk_server.py")
FAST = (0.01, 0.01, 0.01)


def bind(port: int = 0) -> socket.socket:
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", port))
    return one


@asynccontextmanager
async def open_pool(
    config: ServerConfig, folder: Path, warnings: list[str] | None = None
) -> AsyncGenerator[McpPool, None]:
    async with Host() as host:
        pool = McpPool(
            [config], cwd=folder, environ={"PATH": "/bin:/usr/bin"}, tokens=folder, delays=FAST
        )
        host.add(pool)
        pool.subscribe((warnings if warnings is not None else []).append)
        pool.start(host.start_soon)
        assert await pool.wait_settled(60)
        yield pool


async def call(pool: McpPool, tool: str, folder: Path, **arguments: Any) -> str:
    found = McpToolSource(pool).find(f"mcp__example__{tool}")
    assert found is not None
    return (await found.run(arguments, ToolContext(cwd=folder))).text


async def check_everything(pool: McpPool, folder: Path) -> None:
    """Use each part of the example server."""
    lines: list[str] = []
    context = ToolContext(cwd=folder, progress=Progress(report=lines.append))
    connection = pool.connections["example"]
    tools = McpToolSource(pool)
    counted = tools.find("mcp__example__count")
    assert counted is not None

    assert await call(pool, "add", folder, a=2, b=3) == "5"
    assert (await counted.run({"steps": 2}, context)).text == "counted"
    assert lines == ["step 1 (1/2)", "step 2 (2/2)"]
    (prompt,) = pool.prompts
    text = await connection.calls.get_prompt(prompt, {"name": "Ada"}, context)
    assert text.text == "Say hello to Ada."
    assert (await connection.calls.read_resource("note://one", context)).text == "the note one"


@pytest.mark.slow("starts a process that imports the SDK")
async def test_a_server_of_the_sdk_works_over_stdio(tmp_path: Path) -> None:
    root = str(SERVER.parents[3])
    config = ServerConfig(
        name="example",
        transport="stdio",
        command=sys.executable,
        args=("-m", "tests.tools.mcp.sdk_server"),
        cwd=root,
    )

    with anyio.fail_after(60):
        async with open_pool(config, tmp_path) as pool:
            await check_everything(pool, tmp_path)
            assert pool.list_status()[0].version == "2026-07-28"


async def test_a_server_of_the_sdk_works_over_http(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with serve_app(make_server().streamable_http_app()) as port:
            url = f"http://127.0.0.1:{port}{PATH}"
            async with open_pool(
                ServerConfig(name="example", transport="http", url=url), tmp_path
            ) as pool:
                await check_everything(pool, tmp_path)


async def test_a_server_of_the_sdk_works_over_sse(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with serve_app(make_server().sse_app()) as port:
            url = f"http://127.0.0.1:{port}/sse"
            async with open_pool(
                ServerConfig(name="example", transport="sse", url=url), tmp_path
            ) as pool:
                await check_everything(pool, tmp_path)


async def test_an_http_server_that_comes_back_is_used_again(tmp_path: Path) -> None:
    at, warnings = bind(), list[str]()
    port = at.getsockname()[1]
    url = f"http://127.0.0.1:{port}{PATH}"
    config = ServerConfig(name="example", transport="http", url=url)

    with anyio.fail_after(60):
        async with AsyncExitStack() as stack:
            async with serve_app(make_server().streamable_http_app(), at):
                pool = await stack.enter_async_context(open_pool(config, tmp_path, warnings))
                before = await call(pool, "add", tmp_path, a=1, b=1)
            gone = await call(pool, "add", tmp_path, a=1, b=1)
            async with serve_app(make_server().streamable_http_app(), bind(port)):
                after = await call(pool, "add", tmp_path, a=1, b=2)

    assert (before, after) == ("2", "3")
    assert gone.startswith("Error: the MCP server example")
    assert any("not available" in text for text in warnings)


class ForgetfulServer:
    """An HTTP server of an older protocol, which forgets its clients when it is told to."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.calls = 0
        self.text = "added"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        while (part := await receive()).get("more_body"):
            body += part["body"]
        message = json.loads(body + part["body"]) if scope["method"] == "POST" else {}
        session = dict(scope["headers"]).get(b"mcp-session-id", b"").decode()
        status, result = self._answer(message, session)
        headers = [(b"content-type", b"application/json")]
        if message.get("method") == "initialize":
            self.sessions.add(new := str(uuid4()))
            headers.append((b"mcp-session-id", new.encode()))
        answer = {"jsonrpc": "2.0", "id": message.get("id"), **result} if result else None
        await send({"type": "http.response.start", "status": status, "headers": headers})
        text = json.dumps(answer).encode() if answer else b""
        await send({"type": "http.response.body", "body": text})

    def _answer(self, message: dict[str, Any], session: str) -> tuple[int, dict[str, Any]]:
        match message.get("method"):
            case "initialize":
                about = {"name": "example", "version": "1"}
                can: dict[str, Any] = {"capabilities": {"tools": {}}, "serverInfo": about}
                return 200, {"result": {"protocolVersion": "2025-06-18", **can}}
            case None:
                return 405, {}
            case _ if session and session not in self.sessions:
                return 404, {}
            case "tools/list":
                tool = {"name": "add", "inputSchema": {"type": "object"}}
                return 200, {"result": {"tools": [tool]}}
            case "tools/call":
                self.calls += 1
                return 200, {"result": {"content": [{"type": "text", "text": self.text}]}}
            case _ if "id" not in message:
                return 202, {}
            case _:
                return 400, {"error": {"code": -32601, "message": "there is no such method"}}


async def test_an_http_server_that_has_forgotten_its_clients_is_connected_again(
    tmp_path: Path,
) -> None:
    server = ForgetfulServer()

    with anyio.fail_after(60):
        async with serve_app(server) as port:
            url = f"http://127.0.0.1:{port}{PATH}"
            config = ServerConfig(name="example", transport="http", url=url)
            async with open_pool(config, tmp_path) as pool:
                before = await call(pool, "add", tmp_path)
                server.sessions.clear()
                after = await call(pool, "add", tmp_path)

    assert (before, after) == ("added", "added")
    assert server.calls == 2


async def test_an_answer_over_http_that_is_too_long_is_cut_off(tmp_path: Path) -> None:
    server = ForgetfulServer()

    with anyio.fail_after(60):
        async with serve_app(server) as port:
            url = f"http://127.0.0.1:{port}{PATH}"
            config = ServerConfig(name="example", transport="http", url=url)
            async with open_pool(config, tmp_path) as pool:
                server.text = "x" * MAX_MESSAGE
                long = await call(pool, "add", tmp_path)
                server.text = "short"
                short = await call(pool, "add", tmp_path)

    assert "it has more than 16,000,000 bytes" in long
    assert short == "short"


async def test_a_result_without_a_type_is_complete(tmp_path: Path) -> None:
    plain = str(SERVER.with_name("plain_server.py"))
    config = ServerConfig(
        name="example", transport="stdio", command=sys.executable, args=("-S", plain, "untyped")
    )

    with anyio.fail_after(60):
        async with open_pool(config, tmp_path) as pool:
            version = pool.list_status()[0].version
            text = await call(pool, "echo", tmp_path, text="hello")

    assert (version, text) == ("2026-07-28", "hello")


async def test_a_server_that_ends_again_and_again_is_given_up(tmp_path: Path) -> None:
    warnings: list[str] = []
    plain = str(SERVER.with_name("plain_server.py"))
    config = ServerConfig(
        name="example", transport="stdio", command=sys.executable, args=("-S", plain, "brief")
    )

    with anyio.fail_after(60):
        async with open_pool(config, tmp_path, warnings) as pool:
            while pool.list_status()[0].state is not ServerState.FAILED:  # noqa: ASYNC110
                await anyio.sleep(0.01)

    assert len(warnings) == 2
    assert "the MCP server example is not available" in warnings[0]
    assert warnings[1].endswith("/mcp shows it")


@asynccontextmanager
async def serve_protected(logins: Logins) -> AsyncGenerator[ServerConfig, None]:
    at = bind()
    address = f"http://127.0.0.1:{at.getsockname()[1]}"
    app = make_protected(logins, address).streamable_http_app()
    async with serve_app(app, at):
        yield ServerConfig(name="example", transport="http", url=f"{address}{PATH}")


async def visit(address: str) -> None:
    """Do what a browser does: open the page and follow where it leads."""
    async with httpx2.AsyncClient(follow_redirects=True) as browser:
        response = await browser.get(address)
        assert response.status_code == 200


async def test_a_login_is_stored_privately_and_used(tmp_path: Path) -> None:
    logins, folder = Logins(), tmp_path / "tokens"

    with anyio.fail_after(60):
        async with serve_protected(logins) as config:
            async with open_pool(config, folder) as pool:
                (before,) = pool.list_status()
            await log_in(config, folder, visit)
            async with open_pool(config, folder) as pool:
                said = await call(pool, "add", folder, a=1, b=1)

    assert before.state is ServerState.NEEDS_LOGIN
    assert before.error == "the MCP server example needs a login: clew mcp login example"
    assert said == "2"
    file = token_file(config, folder)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_an_expired_token_is_refreshed_without_the_user(tmp_path: Path) -> None:
    logins, folder = Logins(lifetime=1), tmp_path / "tokens"

    with anyio.fail_after(60):
        async with serve_protected(logins) as config:
            await log_in(config, folder, visit)
            logins.lifetime = 3_600
            logins.access.clear()
            async with open_pool(config, folder) as pool:
                said = await call(pool, "add", folder, a=1, b=2)

    assert said == "3"
    assert logins.refreshed == 1


async def test_a_second_login_registers_its_own_address_and_a_failed_one_changes_nothing(
    tmp_path: Path,
) -> None:
    logins, folder = Logins(), tmp_path / "tokens"

    async def give_up(_: str) -> None:
        raise OAuthFlowError("the page was closed")

    with anyio.fail_after(60):
        async with serve_protected(logins) as config:
            await log_in(config, folder, visit)
            logins.access.clear()
            logins.refresh.clear()
            await log_in(config, folder, visit)
            stored = token_file(config, folder).read_bytes()
            with pytest.raises(ConfigError, match="the page was closed"):
                await log_in(config, folder, give_up)

    assert len(logins.clients) == 3
    assert token_file(config, folder).read_bytes() == stored
    assert list(folder.iterdir()) == [token_file(config, folder)]


async def test_a_login_that_is_not_needed_or_fails_is_an_error(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with serve_app(make_server().streamable_http_app()) as port:
            url = f"http://127.0.0.1:{port}{PATH}"
            config = ServerConfig(name="example", transport="http", url=url)
            with pytest.raises(ConfigError, match="did not ask for a login"):
                await log_in(config, tmp_path, visit)

    assert not log_out(config, tmp_path)
    assert TokenFile(token_file(config, tmp_path)).read() == {}
