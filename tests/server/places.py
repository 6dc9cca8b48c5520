"""A running server on loopback, with a scripted model, for tests."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from clew.sdk.session_spec import SessionSpec
from clew.server.access import AccessOptions
from clew.server.options import ServerOptions
from clew.server.run import RunningServer, run_server
from clew.testing.fake_openai import FakeOpenAI, fake_openai, text_response
from clew.testing.server import ResponseScript


@dataclass(frozen=True)
class Api:
    """A client of the server, and what is behind it."""

    http: aiohttp.ClientSession
    server: RunningServer
    model: FakeOpenAI
    project: Path

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        status: int | None = None,
        **query: Any,
    ) -> Any:
        """Call a route and return the decoded answer."""
        async with self.http.request(
            method,
            f"{self.server.url}/api/v1{path}",
            json=body,
            params={key: str(value) for key, value in query.items()},
        ) as response:
            text = await response.text()
            expected = response.status == status if status else response.status < 400
            assert expected, (response.status, text)
            return json.loads(text) if response.content_type == "application/json" else text

    async def open(self, **fields: Any) -> str:
        """Create a session and return its id."""
        snapshot = await self.call("POST", "/sessions", fields, status=201)
        return str(snapshot["session_id"])

    @asynccontextmanager
    async def follow(
        self, path: str, *, headers: dict[str, str] | None = None, **query: Any
    ) -> AsyncGenerator[AsyncIterator["SentEvent"], None]:
        """Follow a stream of server-sent events."""
        async with self.http.get(
            f"{self.server.url}/api/v1{path}",
            params={key: str(value) for key, value in query.items()},
            headers=headers,
        ) as response:
            assert response.status == 200, await response.text()
            yield read_events(response)


@dataclass(frozen=True)
class SentEvent:
    """One server-sent event."""

    id: int
    name: str
    data: Any


async def read_events(response: aiohttp.ClientResponse) -> AsyncIterator[SentEvent]:
    """Yield the events of a stream; comments are left out."""
    fields: dict[str, str] = {}
    async for raw in response.content:
        line = raw.decode().rstrip("\n")
        if not line:
            if "data" in fields:
                data = json.loads(fields["data"])
                yield SentEvent(int(fields.get("id", 0)), fields.get("event", ""), data)
            fields = {}
        elif not line.startswith(":"):
            key, _, value = line.partition(": ")
            fields[key] = value


@asynccontextmanager
async def serving(
    folder: Path,
    *answers: ResponseScript,
    spec: dict[str, Any] | None = None,
    access: AccessOptions | None = None,
    **options: Any,
) -> AsyncGenerator[Api, None]:
    """Run a server for `folder / project` whose model gives these answers."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    async with fake_openai(*(answers or (text_response("Hello"),))) as model:
        defaults = SessionSpec(
            cwd=str(project), base_url=model.url, model="gpt-4o", sandbox="off", **(spec or {})
        )
        environ = {"HOME": str(folder), "CLEW_HOME": str(folder / "clew")}
        given = {"access": access, "port": 0, **options}
        wanted = ServerOptions(defaults=defaults, environ=environ, **given)
        headers = {"Authorization": f"Bearer {access.token}"} if access else {}
        async with (
            run_server(wanted) as server,
            aiohttp.ClientSession(headers=headers) as http,
        ):
            yield Api(http, server, model, project)
