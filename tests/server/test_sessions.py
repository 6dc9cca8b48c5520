"""Sessions over HTTP: create, list, open, fork, export, delete, and questions nobody hears."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from clew.core.permissions import Approval
from clew.sdk.launch import launch
from clew.sdk.session_spec import SessionSpec
from clew.testing.fake_openai import Stall, delta, text_response, tool_call_response
from clew.testing.server import ScriptedResponse
from tests.server.places import Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.req("SRV-1")]

SECONDS = 60
WRITE = tool_call_response("Write", '{"file_path":"a.txt","content":"x"}')


async def run(api: Api, session: str, text: str = "go") -> None:
    """Submit a prompt and wait until its run has ended."""
    await api.call("POST", f"/sessions/{session}/prompts", {"text": text}, status=202)
    await wait_for_end(api, session)


async def wait_for_end(api: Api, session: str) -> None:
    with anyio.fail_after(SECONDS):
        while (await api.call("GET", f"/sessions/{session}"))["executing"]:
            await anyio.lowlevel.checkpoint()


async def names(api: Api, **query: Any) -> list[str]:
    """List the names of sessions."""
    page = await api.call("GET", "/sessions", **query)
    return [one["name"] for one in page["sessions"]]


async def test_sessions_are_listed_a_page_at_a_time_and_found_by_their_words(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, text_response("The parser is in lex.py")) as api:
        ids = [await api.open(name=name) for name in ("one", "two", "three")]
        await run(api, ids[0], "Where is the parser?")

        first = await api.call("GET", "/sessions", limit=2)
        rest = await api.call("GET", "/sessions", limit=2, after=first["next"])
        (hit,) = await api.call("GET", "/sessions/search", q="lex")

    listed = [one["name"] for page in (first, rest) for one in page["sessions"]]
    assert sorted(listed) == ["one", "three", "two"]
    assert listed[0] == "one"
    assert (len(first["sessions"]), rest["next"]) == (2, None)
    assert hit["session"]["id"] == ids[0]
    assert "lex.py" in hit["excerpt"]


async def test_a_session_can_be_in_a_folder_below_the_roots_only(tmp_path: Path) -> None:
    (tmp_path / "project" / "inner").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project" / "link").symlink_to(tmp_path / "elsewhere")
    async with serving(tmp_path) as api:
        inner = await api.call("POST", "/sessions", {"cwd": "inner", "name": "inner"}, status=201)
        for cwd in ("..", str(tmp_path / "elsewhere"), "link", "inner/../..", "/"):
            error = await api.call("POST", "/sessions", {"cwd": cwd}, status=403)
            assert "not below a folder that is served" in error["message"]
        missing = await api.call("POST", "/sessions", {"cwd": "missing"}, status=409)
        await api.call("POST", "/sessions", {"cwd": "\0"}, status=409)
        listed = await names(api, folder="inner")

    assert inner["cwd"] == str(tmp_path / "project" / "inner")
    assert "there is no folder" in missing["message"]
    assert listed == ["inner"]


async def test_sessions_of_other_folders_do_not_exist_for_the_server(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    environ = {"HOME": str(tmp_path), "CLEW_HOME": str(tmp_path / "clew")}
    async with serving(tmp_path) as api:
        spec = SessionSpec(cwd=str(other), base_url=api.model.url, model="gpt-4o", sandbox="off")
        async with launch(spec, environ=environ) as launched:
            foreign = launched.session.get_session_id()
            await launched.save()
        await api.open(name="mine")

        assert await names(api) == ["mine"]
        assert await api.call("GET", "/sessions/search", q="mine")
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/fork"), ("GET", "/export")):
            body: object = {} if method == "POST" else None
            error = await api.call(method, f"/sessions/{foreign}{path}", body, status=404)
            assert error["type"] == "SessionNotFound"


async def test_a_closed_session_is_opened_again_with_its_history(tmp_path: Path) -> None:
    async with serving(tmp_path, text_response("Hello")) as api:
        session = await api.open(permission_mode="plan")
        await run(api, session)
        await api.call("POST", f"/sessions/{session}/close", status=204)
        (before,) = (await api.call("GET", "/sessions"))["sessions"]

        snapshot = await api.call("POST", f"/sessions/{session}/resume")

    assert not before.get("is_open")
    assert snapshot["mode"] == "plan"
    assert snapshot["history"][-1]["data"].get("content", "Hello") == "Hello"


async def test_a_fork_has_the_entries_up_to_the_one_that_was_named(tmp_path: Path) -> None:
    async with serving(tmp_path, text_response("one"), text_response("two")) as api:
        session = await api.open()
        await run(api, session, "first")
        middle = (await api.call("GET", f"/sessions/{session}"))["last_entry"]
        await run(api, session, "second")

        place = f"/sessions/{session}/fork"
        fork = await api.call("POST", place, {"at": middle, "name": "copy"}, status=201)
        history = await api.call("GET", f"/sessions/{fork['session_id']}/history")

        for wrong, status in ((-1, 400), (0, 400), (99_999, 404)):
            await api.call("POST", place, {"at": wrong}, status=status)
        assert len((await api.call("GET", "/sessions"))["sessions"]) == 2

    assert fork["name"] == "copy"
    said = [item["data"].get("content") for item in history if item["category"] == "chat"]
    assert said == ["first", "one"]


async def test_an_export_is_a_document_or_can_be_imported(tmp_path: Path) -> None:
    async with serving(tmp_path, text_response("It is here.")) as api:
        session = await api.open()
        await run(api, session, "Where?")

        text = await api.call("GET", f"/sessions/{session}/export")
        lines = await api.call("GET", f"/sessions/{session}/export", format="json")

    assert "## You" in text
    assert "It is here." in text
    assert session in lines.splitlines()[0]
    assert len(lines.splitlines()) > 2


async def test_a_session_in_use_is_deleted_only_by_force(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.open()

        async with api.follow(f"/sessions/{session}/events") as events:
            error = await api.call("DELETE", f"/sessions/{session}", status=409)
            await api.call("DELETE", f"/sessions/{session}", status=204, force="true")
            with anyio.fail_after(SECONDS):
                assert [event async for event in events if event.name == "error"] == []
        await api.call("GET", f"/sessions/{session}", status=404)

    assert "force=true" in error["message"]


async def test_a_session_that_another_process_writes_to_is_busy(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "CLEW_HOME": str(tmp_path / "clew")}
    async with serving(tmp_path) as api:
        spec = SessionSpec(
            cwd=str(api.project), base_url=api.model.url, model="gpt-4o", sandbox="off"
        )
        async with launch(spec, environ=environ) as launched:
            session = launched.session.get_session_id()
            await launched.save()

            error = await api.call("GET", f"/sessions/{session}", status=409)

    assert error["type"] == "SessionBusy"


async def test_a_question_that_nobody_hears_waits_for_the_first_client(tmp_path: Path) -> None:
    async with serving(tmp_path, WRITE, text_response("done")) as api:
        session = await api.open()
        await api.call("POST", f"/sessions/{session}/prompts", {"text": "write"}, status=202)
        with anyio.fail_after(SECONDS):
            while not (await api.call("GET", "/sessions"))["sessions"][0].get("questions"):
                await anyio.lowlevel.checkpoint()

        snapshot = await api.call("GET", f"/sessions/{session}")
        (request,) = snapshot["permission_requests"]
        answer = {"request_id": request["request_id"], "approval": Approval.ONCE}
        await api.call("POST", f"/sessions/{session}/answers", answer, status=204)
        late = await api.call("POST", f"/sessions/{session}/answers", answer, status=409)
        await wait_for_end(api, session)

    assert request["tool_name"] == "Write"
    assert "not open" in late["message"]
    assert (tmp_path / "project" / "a.txt").read_text() == "x"


async def test_a_question_outlives_the_client_that_saw_it(tmp_path: Path) -> None:
    async with serving(tmp_path, WRITE, text_response("done")) as api:
        session = await api.open()
        seq = (await api.call("GET", f"/sessions/{session}"))["seq"]
        await api.call("POST", f"/sessions/{session}/prompts", {"text": "write"})
        with anyio.fail_after(SECONDS):
            async with api.follow(f"/sessions/{session}/events", after=seq) as events:
                async for event in events:
                    if event.name == "permission_request":
                        break
            while len(api.server.state.streams):
                await anyio.lowlevel.checkpoint()

        (request,) = (await api.call("GET", f"/sessions/{session}"))["permission_requests"]
        assert request["request_id"] == event.data["event"]["request_id"]
        body = {"request_id": request["request_id"], "approval": "no", "reply": "use b.txt"}
        await api.call("POST", f"/sessions/{session}/answers", body)
        await wait_for_end(api, session)
        results = [m for m in api.model.requests[-1]["messages"] if m["role"] == "tool"]

    assert "use b.txt" in results[-1]["content"]
    assert not (tmp_path / "project" / "a.txt").exists()


async def test_one_prompt_waits_and_another_is_refused(tmp_path: Path) -> None:
    stall = Stall()
    answer = ScriptedResponse(steps=[delta(content="Half"), stall, *text_response("").steps])
    async with serving(tmp_path, answer) as api:
        session = await api.open()
        place = f"/sessions/{session}"
        await api.call("POST", f"{place}/prompts", {"text": "one"})
        await stall.reached.wait()
        await api.call("POST", f"{place}/prompts", {"text": "two"}, status=202)

        full = await api.call("POST", f"{place}/prompts", {"text": "three"}, status=409)
        snapshot = await api.call("GET", place)
        cancelled = await api.call("DELETE", f"{place}/queue")
        again = await api.call("DELETE", f"{place}/queue")
        await api.call("POST", f"{place}/abort", status=204)
        await wait_for_end(api, session)

    assert full["type"] == "QueueFull"
    assert snapshot["queue"] == "two"
    assert (cancelled, again) == ({"cancelled": True}, {"cancelled": False})


async def test_the_session_that_was_unused_for_longest_makes_room(tmp_path: Path) -> None:
    async with serving(tmp_path, max_sessions=2) as api:
        first, second = await api.open(), await api.open()
        await api.call("GET", f"/sessions/{first}")

        async with api.follow(f"/sessions/{first}/events"):
            third = await api.open()
            async with api.follow(f"/sessions/{third}/events"):
                full = await api.call("POST", "/sessions", {}, status=503)
        sessions = api.server.state.find_service().sessions

        assert sessions.get(second) is None
        assert sessions.get(first) is not None
        assert full["type"] == "TooManySessions"
        with anyio.fail_after(SECONDS):
            while len(api.server.state.streams):
                await anyio.lowlevel.checkpoint()
        await api.call("GET", f"/sessions/{second}")


async def test_a_session_that_nobody_uses_is_closed_and_stays_stored(tmp_path: Path) -> None:
    async with serving(tmp_path, idle_seconds=0.02) as api:
        session = await api.open(name="idle")
        sessions = api.server.state.find_service().sessions

        with anyio.fail_after(SECONDS):
            while sessions.get(session) is not None:
                await anyio.lowlevel.checkpoint()

        assert await names(api) == ["idle"]
        assert (await api.call("GET", f"/sessions/{session}"))["name"] == "idle"


async def test_a_run_counts_as_use_of_its_session(tmp_path: Path) -> None:
    answer = ScriptedResponse(steps=[delta(content="Half"), Stall()])
    async with serving(tmp_path, answer, idle_seconds=0.02) as api:
        session = await api.open()
        await api.call("POST", f"/sessions/{session}/prompts", {"text": "go"}, status=202)
        live = api.server.state.find_service().sessions.get(session)
        assert live is not None
        asked = live.last_used

        with anyio.fail_after(SECONDS):
            while live.last_used == asked:
                await anyio.lowlevel.checkpoint()

        assert live.client.is_executing()


async def test_a_command_runs_by_its_name_and_reports_its_progress(tmp_path: Path) -> None:
    async with serving(tmp_path, text_response("Hello")) as api:
        session = await api.open()
        body = {"session_id": session, "arguments": "compact"}

        helped = await api.call("POST", "/commands/help", body)
        about = await api.call("GET", "/commands/compact")
        builtin = await api.call("GET", "/commands")
        unknown = await api.call("POST", "/commands/nothing", body, status=404)
        await api.call("GET", "/commands/nothing", status=404)
        odd = await api.call("POST", "/commands/help%20me", body, status=404)
        async with api.http.post(
            f"{api.server.url}/api/v1/commands/context",
            json={"session_id": session},
            headers={"Accept": "text/event-stream"},
        ) as reply:
            text = await reply.text()

    assert "compact" in helped["message"]
    assert "preview" in [one["name"] for one in about["subcommands"]]
    assert "help" in [one["name"] for one in builtin]
    assert (unknown["type"], odd["type"]) == ("UnknownCommand", "UnknownCommand")
    assert text.rstrip().rpartition("\n\n")[2].startswith("event: result\n")


async def test_wrong_requests_say_what_is_wrong(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.open()
        place = f"{api.server.url}/api/v1/sessions/{session}"
        errors = [
            await api.call("POST", f"/sessions/{session}/prompts", {"words": "hi"}, status=400),
            await api.call("GET", f"/sessions/{session}/history", status=400, limit="many"),
            await api.call("GET", f"/sessions/{session}/history", status=400, limit=0),
            await api.call("PUT", f"/sessions/{session}/mode", {"mode": "wild"}, status=400),
            await api.call("GET", "/nothing", status=404),
            await api.call("PATCH", "/sessions", status=405),
            await api.call("GET", f"/sessions/{session}/socket", status=426),
            await api.call("GET", f"/sessions/{session}/tasks/none", status=404),
        ]
        async with api.http.post(f"{place}/prompts", data="text=hi") as form:
            assert form.status == 415

    assert all(error["type"] and error["message"] for error in errors)
    assert "text" in errors[0]["message"]


async def test_the_metrics_count_what_happens(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.open()
        await api.call("GET", "/sessions/none", status=404)

        text = await api.call("GET", "/metrics")

    assert "clew_sessions_open 1" in text
    assert 'path="/api/v1/sessions/{session_id}",status="404"} 1' in text


async def test_the_agents_are_those_of_the_store_that_the_server_was_given(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"not a database" * 1_000)
    async with serving(tmp_path, spec={"store": str(tmp_path / "broken.db")}) as api:
        error = await api.call("GET", "/roster", status=503)

    assert "broken.db" in error["message"]


def _list_tools(request: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in request["tools"]}


async def test_a_session_that_was_closed_comes_back_with_its_restrictions(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.open(
            disallowed_tools=["Bash", "Agent"],
            append_system_prompt="Never mention Brutus.",
            language="Latin",
            max_turns=7,
        )
        await run(api, session)
        await api.call("POST", f"/sessions/{session}/close", status=204)
        await run(api, session)
        fork = (await api.call("POST", f"/sessions/{session}/fork", {}))["session_id"]
        await run(api, fork)
        live = api.server.state.find_service().sessions.get(session)
        assert live is not None
        assert live.client.session.state.options["max_turns"] == 7
        await run(api, await api.open())

    first, again, forked, other = api.model.requests
    for request in (first, again, forked):
        assert not _list_tools(request) & {"Bash", "Agent"}
        system = str(request["messages"][0]["content"])
        assert "Never mention Brutus." in system
        assert "Latin" in system
    assert {"Bash", "Agent"} <= _list_tools(other)
    assert "Brutus" not in str(other["messages"])


async def test_never_more_sessions_are_open_than_the_limit(tmp_path: Path) -> None:
    async with serving(tmp_path, max_sessions=2) as api:
        sessions = api.server.state.find_service().sessions
        await api.open()
        statuses: list[int] = []
        open_at_once: list[int] = []

        async def create() -> None:
            url = f"{api.server.url}/api/v1/sessions"
            async with api.http.post(url, json={}) as response:
                statuses.append(response.status)
                open_at_once.append(len(sessions.list_open()))

        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                for _ in range(6):
                    tasks.start_soon(create)

        assert set(statuses) <= {201, 503}
        assert 201 in statuses
        assert max(open_at_once) <= 2
        await api.open()
        assert len(sessions.list_open()) <= 2
