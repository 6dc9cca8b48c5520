"""The WebSocket of a session: calls, commands, events, questions, reconnection."""

import json
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from clew.sdk.client_json import METHODS
from clew.testing.fake_openai import ScriptedResponse, delta, text_response, tool_call_response
from clew.testing.server import Stall
from tests.server.places import Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.req("SRV-2")]

SECONDS = 60


def connect(api: Api, session: str, **query: Any) -> Any:
    """Open the WebSocket of a session."""
    url = f"{api.server.url}/api/v1/sessions/{session}/socket"
    return api.http.ws_connect(url, params={key: str(value) for key, value in query.items()})


async def read_until(socket: aiohttp.ClientWebSocketResponse, **wanted: Any) -> dict[str, Any]:
    """Read messages up to one that has these fields; an event's name counts as `event`."""
    with anyio.fail_after(SECONDS):
        while True:
            message = await socket.receive_json()
            found = {**message, "event": message.get("envelope", {}).get("event", {}).get("event")}
            if all(found.get(key) == value for key, value in wanted.items()):
                return dict(message)


async def test_a_prompt_and_its_events_go_over_one_connection(tmp_path: Path) -> None:
    async with serving(tmp_path, text_response("Hello", " there")) as api:
        session = await api.open()
        async with connect(api, session) as socket:
            await socket.send_json({"type": "subscribe"})
            call = {"type": "call", "id": 7, "method": "submit", "params": {"text": "Hi"}}
            await socket.send_json(call)

            result = await read_until(socket, type="result")
            done = await read_until(socket, event="complete")

    assert result["id"] == 7
    assert done["envelope"]["event"]["result"]["run_id"] == result["value"]
    assert done["envelope"]["event"]["result"]["response"] == "Hello there"


async def test_a_client_that_comes_back_gets_what_it_missed_once(tmp_path: Path) -> None:
    async with serving(tmp_path, text_response("one", " two", " three")) as api:
        session = await api.open()
        seq = (await api.call("GET", f"/sessions/{session}"))["seq"]
        await api.call("POST", f"/sessions/{session}/prompts", {"text": "count"})
        seen: list[int] = []
        async with connect(api, session, after=seq) as socket:
            seen += [(await read_until(socket, type="event"))["envelope"]["seq"] for _ in range(3)]

        async with connect(api, session, after=seen[-1]) as socket:
            with anyio.fail_after(SECONDS):
                while True:
                    message = await socket.receive_json()
                    seen.append(message["envelope"]["seq"])
                    if message["envelope"]["event"]["event"] == "complete":
                        break

    assert seen == list(range(seq + 1, seen[-1] + 1))


async def test_a_question_is_answered_over_the_connection(tmp_path: Path) -> None:
    write = tool_call_response("Write", '{"file_path":"a.txt","content":"x"}')
    async with serving(tmp_path, write, text_response("done")) as api:
        session = await api.open()
        async with connect(api, session) as socket:
            await socket.send_json({"type": "subscribe"})
            params = {"text": "write"}
            await socket.send_json({"type": "call", "id": 1, "method": "submit", "params": params})
            asked = await read_until(socket, event="permission_request")
            request_id = asked["envelope"]["event"]["request_id"]
            answer = {"request_id": request_id, "approval": "once"}
            await socket.send_json({"type": "call", "id": 2, "method": "answer", "params": answer})

            result = await read_until(socket, type="result", id=2)
            await read_until(socket, event="context_update")
            await read_until(socket, event="complete")

    assert result["value"] is None
    assert (tmp_path / "project" / "a.txt").read_text() == "x"


async def test_a_command_reports_progress_and_one_result(tmp_path: Path) -> None:
    answers = [text_response("word " * 400) for _ in range(6)]
    async with serving(tmp_path, *answers, text_response("a summary of it all")) as api:
        session = await api.open()
        async with connect(api, session) as socket:
            for number in range(6):
                call = {"type": "call", "id": number, "method": "submit", "params": {"text": "go"}}
                await socket.send_json({"type": "subscribe"})
                await socket.send_json(call)
                await read_until(socket, event="complete")
            request = {"type": "command_request", "command": "compact", "args": "--force", "id": 9}
            await socket.send_json(request)

            progress = await read_until(socket, type="command_progress")
            result = await read_until(socket, type="command_result")
            await socket.send_json({"type": "command_request", "command": "nothing"})
            failed = await read_until(socket, type="command_result")

    assert (progress["command"], progress["message"]) == ("compact", "compacting")
    assert (result["id"], result["success"], result["error"]) == (9, True, None)
    assert result["result"]["kind"] == "command"
    assert (failed["success"], failed["error"]["type"]) == (False, "UnknownCommand")


async def test_wrong_messages_are_answered_and_end_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.open()
        async with connect(api, session) as socket:
            await socket.send_str("nonsense")
            first = await read_until(socket, type="error")
            await socket.send_json({"type": "call", "id": 1, "method": "explode"})
            second = await read_until(socket, type="error")
            await socket.send_json({"type": "subscribe", "after": 1})
            third = await read_until(socket, type="error")
            await socket.send_json({"type": "call", "id": 2, "method": "snapshot"})
            result = await read_until(socket, type="result")

    assert first["error"]["type"] == "InvalidRequest"
    assert (second["id"], second["error"]["type"]) == (1, "SessionError")
    assert (third["id"], third["error"]["type"]) == (None, "EventsExpired")
    assert result["value"]["session_id"] == session


async def test_every_method_of_a_client_can_be_called(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.open()
        async with connect(api, session) as socket:
            for number, method in enumerate(METHODS):
                await socket.send_json({"type": "call", "id": number, "method": method})
                with anyio.fail_after(SECONDS):
                    answer = await socket.receive_json()

                assert answer["id"] == number
                assert "there is no method" not in str(answer)


async def test_a_connection_ends_with_its_session_after_the_last_event(tmp_path: Path) -> None:
    stalled = ScriptedResponse(steps=[delta(content="I begin"), Stall()])
    async with serving(tmp_path, stalled) as api:
        session = await api.open()
        seq = (await api.call("GET", f"/sessions/{session}"))["seq"]
        async with connect(api, session, after=seq) as socket, connect(api, session) as silent:
            await api.call("POST", f"/sessions/{session}/prompts", {"text": "go"})
            await read_until(socket, event="text_delta")
            live = api.server.state.find_service().sessions.get(session)
            assert live is not None

            await api.call("POST", f"/sessions/{session}/close", status=204)
            seen = await read_to_the_end(socket)
            alone = await read_to_the_end(silent)

    assert [one["type"] for one in seen[-2:]] == ["event", "stream_end"]
    assert "interrupted" in [one["envelope"]["event"]["event"] for one in seen[:-1]]
    assert seen[-2]["envelope"]["seq"] == live.client.session.bus.seq
    assert alone == [{"type": "stream_end"}]


async def read_to_the_end(socket: aiohttp.ClientWebSocketResponse) -> list[dict[str, Any]]:
    """Read all messages until the server closes the connection."""
    with anyio.fail_after(SECONDS):
        return [json.loads(message.data) async for message in socket]


COMPACT = (
    {"type": "call", "id": 1, "method": "execute", "params": {"line": "/compact --force"}},
    {"type": "command_request", "command": "compact", "args": "--force"},
)


@pytest.mark.parametrize("message", COMPACT, ids=lambda one: one["type"])
async def test_what_a_client_has_started_continues_when_it_leaves(
    tmp_path: Path, message: dict[str, Any]
) -> None:
    stall = Stall()
    answers = [text_response("word " * 400) for _ in range(6)]
    summary = text_response("a summary of it all")
    stalled = ScriptedResponse(steps=[stall, *summary.steps])
    async with serving(tmp_path, *answers, stalled) as api:
        session = await api.open()
        async with connect(api, session) as socket:
            await socket.send_json({"type": "subscribe"})
            for number in range(6):
                call = {"type": "call", "id": number, "method": "submit", "params": {"text": "go"}}
                await socket.send_json(call)
                await read_until(socket, event="complete")
            await socket.send_json(message)
            started = await read_until(socket, event="compaction_start")
            with anyio.fail_after(SECONDS):
                await stall.reached.wait()

        stall.release()
        seq = started["envelope"]["seq"]
        async with connect(api, session, after=seq) as socket:
            await read_until(socket, event="compaction")
