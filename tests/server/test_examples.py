"""Every documented route works as its example says."""

from pathlib import Path

import anyio
import msgspec
import pytest

from clew.sdk.server_values import BASE
from clew.server.access.headers import EVENT_STREAM
from clew.server.openapi import make_document
from clew.server.route import JSON, AnyRoute, fill_example
from clew.server.routes import ROUTES
from clew.testing.fake_openai import text_response, tool_call_response
from clew.testing.server import ScriptedResponse, Stall
from tests.server.places import Api, read_events, serving

pytestmark = [pytest.mark.anyio, pytest.mark.req("SRV-1")]

LATE = (
    "POST /sessions/{session_id}/tasks/{task_id}/cancel",
    "POST /sessions/{session_id}/groups/{group_id}/wait",
    "POST /sessions/{session_id}/tasks/{task_id}/close",
    "POST /sessions/{session_id}/close",
    "DELETE /sessions/{session_id}",
)
"""Carried out last and in this order, because the others need what these end."""


def answer(body: bytes) -> ScriptedResponse:
    """Write a file where the prompt asks for one, and else say something."""
    last = msgspec.json.decode(body)["messages"][-1]
    if "look around" in str(last["content"]):
        return ScriptedResponse(steps=[Stall()])
    if last["role"] == "user" and "write" in str(last["content"]):
        return tool_call_response("Write", '{"file_path":"a.txt","content":"x"}')
    return text_response("It has a parser.")


async def test_every_example_of_the_documentation_works(tmp_path: Path) -> None:
    with anyio.fail_after(120):
        async with serving(tmp_path, answer) as api:
            values = await prepare(api)
            in_context = values | await prepare_context(api)
            for route in sorted(ROUTES, key=order):
                known = in_context if "/context" in route.path else values
                await carry_out(api, route, known)


def order(route: AnyRoute) -> int:
    """Return when an example is carried out; the session waits for the answer of the first."""
    name = f"{route.method} {route.path}"
    return LATE.index(name) + 1 if name in LATE else -name.endswith("/answers")


async def prepare(api: Api) -> dict[str, str]:
    """Make what the examples name: a session with a question, a task and a group."""
    session = await api.open()
    place = f"/sessions/{session}"
    await ask(api, session, "Where is the parser?")
    seq = (await api.call("GET", place))["seq"]
    await api.call("POST", f"{place}/lines", {"line": "/agent run --detach look around"})
    (task,) = await api.call("GET", f"{place}/tasks")
    body = {"task_ids": [task["task_id"]]}
    group = await api.call("POST", f"{place}/groups", body)
    await api.call("POST", f"{place}/prompts", {"text": "write a file"})
    async with api.follow(f"{place}/events", after=seq) as events:
        async for event in events:
            if event.name == "permission_request":
                break
    return {
        "session_id": session,
        "request_id": event.data["event"]["request_id"],
        "task_id": task["task_id"],
        "group_id": group["group_id"],
        "seq": str(seq),
        "model": "openai_chat/gpt-4o-mini",
        "name": "context",
    }


async def prepare_context(api: Api) -> dict[str, str]:
    """Make a session that is long enough to be compacted, and was once."""
    session = await api.open()
    for number in range(8):
        await ask(api, session, f"Number {number}: " + "where is the parser of dates? " * 60)
    place = f"/sessions/{session}/context"
    done = await api.call("POST", f"{place}/compact", {})
    await api.call("POST", f"{place}/undo", {})
    entry_id = str(done["compaction"]["entry_id"])
    return {"session_id": session, "entry_id": entry_id}


async def ask(api: Api, session: str, text: str) -> None:
    """Submit a prompt and wait for the end of its run."""
    url = f"{api.server.url}{BASE}/sessions/{session}/prompts"
    async with api.http.post(url, json={"text": text}, headers={"Accept": EVENT_STREAM}) as reply:
        assert reply.status == 200
        names = [event.name async for event in read_events(reply)]
    assert names[-1] == "complete"


async def carry_out(api: Api, route: AnyRoute, values: dict[str, str]) -> None:
    """Send the example of a route, and check its answer."""
    if "/pins/" in route.path:
        values = values | {"entry_id": "2"}
    url = api.server.url + BASE + fill_example(route.path, values)
    if route.status == 101:
        async with api.http.ws_connect(url):
            return
    for media in route.media:
        async with api.http.request(
            route.method,
            url,
            params=fill_example(dict(route.example.query), values),
            json=fill_example(route.example.body, values),
            headers={"Accept": media},
        ) as reply:
            if media == EVENT_STREAM:
                assert reply.status == 200
                async for event in read_events(reply):
                    assert event.data
                    if route.method == "GET":
                        break
                continue
            data = await reply.read()
            assert reply.status == route.success, (route.name, reply.status, data)
            if route.result is not None:
                assert reply.content_type in route.media
            if media == JSON and route.result is not None:
                msgspec.json.decode(data, type=route.result)


def test_the_document_describes_every_route_once() -> None:
    document = make_document(ROUTES)

    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len({one["operationId"] for one in operations}) == len(operations) == len(ROUTES)
    assert not [name for name in document["components"]["schemas"] if "." in name]
    event = document["components"]["schemas"]["Envelope"]["properties"]["event"]
    assert event["discriminator"]["mapping"]["text_delta"] == "#/components/schemas/TextDelta"
