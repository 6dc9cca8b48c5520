"""Several users of one server: nobody sees the sessions of another."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import anyio.lowlevel
import pytest
from msgspec import Struct

from clew.sdk.server_values import BASE
from clew.server.access import AccessOptions, RequestLimits, UsersFile
from clew.server.route import AnyRoute
from clew.server.routes import ROUTES
from tests.server.access.guarded_app import read_audit
from tests.server.places import Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.req("SRV-3")]

LIMITS = RequestLimits(failure_burst=1_000)
OWNER_TOKEN = "clew_" + "o" * 43


@asynccontextmanager
async def _serve_users(
    folder: Path, **options: Any
) -> AsyncGenerator[tuple[Api, dict[str, str]], None]:
    """Serve the owner and two users; the headers of the owner are the usual ones."""
    users = UsersFile(folder / "users.json")
    tokens = {"owner": OWNER_TOKEN, "ann": users.add("ann"), "bob": users.add("bob")}
    access = AccessOptions(token=OWNER_TOKEN, users_file=folder / "users.json", limits=LIMITS)
    async with serving(folder, access=access, **options) as api:
        yield api, {name: f"Bearer {token}" for name, token in tokens.items()}


async def _ask(
    api: Api, user: str, request: str, body: object = None, **query: str
) -> tuple[int, str]:
    """Send a request such as `GET /sessions`; return the status and the text of the answer."""
    method, _, path = request.partition(" ")
    async with api.http.request(
        method,
        f"{api.server.url}{BASE}{path}",
        json=body,
        params=query,
        headers={"Authorization": user},
    ) as response:
        return response.status, await response.text()


async def _open(api: Api, user: str) -> str:
    """Open a session that has said something; return its id."""
    status, text = await _ask(api, user, "POST /sessions", {})
    assert status == 201, text
    session_id = str(json.loads(text)["session_id"])
    headers = {"Authorization": user, "Accept": "text/event-stream"}
    path = f"{BASE}/sessions/{session_id}/prompts"
    async with api.http.post(
        api.server.url + path, json={"text": "Say something."}, headers=headers
    ) as response:
        assert response.status < 300, await response.text()
        await response.read()
    return session_id


def _names_session(route: AnyRoute) -> bool:
    """Return whether a request names a session, in the path, the query or the body."""
    body = route.body.__struct_fields__ if isinstance(route.body, type(Struct)) else ()
    return "session_id" in (*route.params.__struct_fields__, *body)


def _fill(route: AnyRoute, session_id: str) -> tuple[str, object, dict[str, str]]:
    """Return the path, the body and the query of the example, with this session."""
    query = dict(route.example.query)
    body = json.loads(json.dumps(route.example.body).replace("{session_id}", session_id))
    if "{session_id}" not in route.path and "session_id" in route.params.__struct_fields__:
        query["session_id"] = session_id
    path = route.path.replace("{session_id}", session_id).replace("{name}", "context")
    return path.replace("{", "").replace("}", ""), body, query


async def _refuse_socket(api: Api, user: str, path: str) -> None:
    """Check that a WebSocket of a session does not open."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with api.http.ws_connect(
            f"{api.server.url}{BASE}{path}", headers={"Authorization": user}
        ):
            pass
    assert refused.value.status == 404


async def test_no_route_gives_a_user_a_session_of_another(tmp_path: Path) -> None:
    async with _serve_users(tmp_path) as (api, users):
        mine, theirs = await _open(api, users["owner"]), await _open(api, users["ann"])
        routes = [route for route in ROUTES if _names_session(route)]
        for route in routes:
            for user, foreign in (("bob", mine), ("owner", theirs)):
                path, body, query = _fill(route, foreign)
                if path.endswith("/socket"):
                    await _refuse_socket(api, users[user], path)
                    continue
                request = f"{route.method} {path}"
                status, text = await _ask(api, users[user], request, body, **query)
                assert status in (400, 404), (route.name, status, text)
        for name, known in (("owner", mine), ("ann", theirs)):
            assert (await _ask(api, users[name], f"GET /sessions/{known}"))[0] == 200

    assert len(routes) > 40


async def test_lists_hold_only_what_the_user_has(tmp_path: Path) -> None:
    async with _serve_users(tmp_path) as (api, users):
        mine, theirs = await _open(api, users["owner"]), await _open(api, users["ann"])
        lists: dict[str, Any] = {}
        for name, header in users.items():
            answers = [
                await _ask(api, header, "GET /sessions"),
                await _ask(api, header, "GET /sessions/search", q="something"),
                await _ask(api, header, "GET /roster"),
            ]
            assert [status for status, _ in answers] == [200, 200, 200]
            lists[name] = "".join(text for _, text in answers)

    found = {name: (mine in text, theirs in text) for name, text in lists.items()}
    assert found == {"owner": (True, False), "ann": (False, True), "bob": (False, False)}


async def test_the_limit_on_open_sessions_counts_those_of_all_users(tmp_path: Path) -> None:
    async with _serve_users(tmp_path, max_sessions=1) as (api, users):
        mine, theirs = await _open(api, users["owner"]), await _open(api, users["ann"])
        services = api.server.state.services.by_user.values()
        opened = [live.id for service in services for live in service.sessions.list_open()]

        assert opened == [theirs]
        assert (await _ask(api, users["owner"], f"GET /sessions/{mine}"))[0] == 200


async def test_the_audit_log_names_the_session_of_a_command(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    async with serving(tmp_path, access=AccessOptions(token=OWNER_TOKEN, audit_file=log)) as api:
        session = await api.open()
        await api.call("POST", "/commands/help", {"session_id": session})

    assert read_audit(log)[-1].session == session


async def test_what_an_idle_user_had_open_is_given_back(tmp_path: Path) -> None:
    async with _serve_users(tmp_path, idle_seconds=0.02) as (api, users):
        session = await _open(api, users["ann"])
        services = api.server.state.services.by_user

        with anyio.fail_after(60):
            while "ann" in [user.name for user in services]:
                await anyio.lowlevel.checkpoint()

        assert (await _ask(api, users["ann"], f"GET /sessions/{session}"))[0] == 200


async def test_no_route_but_health_works_without_a_token(tmp_path: Path) -> None:
    async with _serve_users(tmp_path) as (api, _):
        open_to_all = []
        for route in ROUTES:
            path = route.path.replace("{", "").replace("}", "")
            status, _ = await _ask(api, "", f"{route.method} {path}")
            if status != 401:
                open_to_all.append(route.path)

    assert open_to_all == ["/health"]
