"""`RemoteSession` against a real server on loopback."""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import ConfigError, ServerUnreachable, SessionNotFound
from clew.core.events import Envelope, PermissionRequest, RunCompleted
from clew.core.permissions import Approval
from clew.providers.protocol import TextChunk
from clew.providers.scripted import Pause, ScriptedReply, text_reply
from clew.sdk.client import PromptInput, SessionClient, run_line, wait_for_run
from clew.sdk.client_json import METHODS
from clew.sdk.remote import RemoteServer
from clew.sdk.remote.addresses import ADDRESSES
from clew.sdk.remote.server import find_token
from clew.sdk.server_values import SessionRequest
from clew.sdk.session_spec import SessionSpec
from clew.server.options import ServerOptions
from clew.server.routes import ROUTES
from clew.server.run import RunningServer, run_server
from clew.testing.clients import CLIENT_CHECKS, ClientCheck
from clew.testing.fake_openai import text_response, tool_call_response
from tests.sdk.places import Place
from tests.server.cut_proxy import CutProxy
from tests.server.places import serving

pytestmark = [pytest.mark.anyio, pytest.mark.req("SRV-4")]


@asynccontextmanager
async def serve_sessions(folder: Path) -> AsyncGenerator[RunningServer, None]:
    environ = {"HOME": str(folder), "CLEW_HOME": str(folder / "clew")}
    options = ServerOptions(defaults=SessionSpec(cwd=str(folder)), environ=environ, port=0)
    async with run_server(options) as server:
        yield server


@asynccontextmanager
async def reach_session(
    folder: Path, replies: Sequence[ScriptedReply], *, through: CutProxy | None = None
) -> AsyncGenerator[SessionClient, None]:
    """Open a session with a scripted model, and yield a client of it over HTTP."""
    async with serve_sessions(folder) as server, Place(folder).session(replies) as session:
        sessions = server.state.find_service().sessions
        live = await sessions.adopt(session)
        url = server.url if through is None else await through.start(server.port)
        async with RemoteServer(url) as remote:
            yield await remote.open(live.id)
        await sessions.close(live.id)


@pytest.mark.parametrize("check", CLIENT_CHECKS, ids=lambda check: check.__name__)
async def test_a_session_on_a_server_keeps_the_contract(check: ClientCheck, tmp_path: Path) -> None:
    await check(lambda replies: reach_session(tmp_path, replies))


def test_every_method_has_an_address_that_the_server_serves() -> None:
    assert set(ADDRESSES) == set(METHODS)
    served = {(route.method, route.path) for route in ROUTES}
    for name, address in ADDRESSES.items():
        assert (address.method, re.sub(r"\?.*", "", address.path)) in served, name


async def test_sessions_are_created_listed_found_forked_and_deleted(tmp_path: Path) -> None:
    answers = (text_response("Fine."), text_response("Thanks."))
    with anyio.fail_after(60):
        async with serving(tmp_path, *answers) as api, RemoteServer(api.server.url) as server:
            session = await server.create(SessionRequest(name="first"))
            _, result = await run_line(session, "How are you, heron?")
            assert result is not None
            assert result.response == "Fine."

            copy = await server.fork(session.session_id, name="copy")
            assert {one.name for one in await server.list()} == {"first", "copy"}
            found = await server.search("heron")
            assert {one.session.id for one in found} == {session.session_id, copy.session_id}

            await server.close(copy.session_id)
            await server.delete(copy.session_id)
            assert [one.name for one in await server.list()] == ["first"]
            assert (await server.open("first")).session_id == session.session_id
            assert (await server.open(session.session_id[:6])).session_id == session.session_id
            with pytest.raises(SessionNotFound):
                await server.open("there-is-none")


async def test_a_lost_connection_continues_where_it_ended(tmp_path: Path) -> None:
    pauses = [Pause(), Pause()]
    reply: list[ScriptedReply] = [
        [TextChunk("One "), pauses[0], TextChunk("two "), pauses[1], *text_reply("three.")]
    ]
    async with CutProxy() as proxy, reach_session(tmp_path, reply, through=proxy) as client:
        with anyio.fail_after(60):
            start = (await client.snapshot()).seq
            run_id = await client.submit(PromptInput(text="go"))
            for pause in pauses:
                await pause.reached.wait()
                proxy.cut()
                pause.release()
            result = await wait_for_run(client, run_id, after=start)

            assert result.response == "One two three."
            assert proxy.connections > 1


@settings(max_examples=4)
@given(st.lists(st.integers(min_value=200, max_value=6_000), min_size=1, max_size=6))
async def test_a_client_that_is_cut_at_any_byte_gets_every_event_once(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int]
) -> None:
    """Each connection of the event stream is cut after so many bytes, then one is left alone."""
    words = [[TextChunk(f"{number} ") for number in range(20)] + text_reply("end.")]
    folder = tmp_path_factory.mktemp("cut")
    with anyio.fail_after(60):
        async with CutProxy(lengths) as proxy, reach_session(folder, words, through=proxy) as cut:
            start = (await cut.snapshot()).seq
            await cut.submit(PromptInput(text="go"))
            seen = await _read_run(cut, start)

            assert [one.seq for one in seen] == list(range(start + 1, start + 1 + len(seen)))
            assert seen == (await _read_run(cut, start))


async def test_a_question_is_answered_by_the_first_client_that_attaches(tmp_path: Path) -> None:
    answers = (tool_call_response("Bash", '{"command": "touch new"}'), text_response("Done."))
    with anyio.fail_after(60):
        async with serving(tmp_path, *answers) as api:
            async with RemoteServer(api.server.url) as server:
                session = await server.create()
                start = (await session.snapshot()).seq
                run_id = await session.submit(PromptInput(text="Make a file."))
                await _wait_for_question(session, start)

            async with RemoteServer(api.server.url) as server:
                first = await server.open(session.session_id)
                asked = (await first.snapshot()).permission_requests
                await first.answer(asked[0].request_id, Approval.ONCE)
                result = await wait_for_run(first, run_id, after=start)

            assert result.response == "Done."
            assert (api.project / "new").exists()


async def test_a_server_that_is_gone_is_a_clear_error(tmp_path: Path) -> None:
    async with serve_sessions(tmp_path) as server:
        url = server.url
    with anyio.fail_after(60):
        async with RemoteServer(url, patience=0.1) as remote:
            with pytest.raises(ServerUnreachable, match="is `clew serve` running there"):
                await remote.list()


async def test_a_proxy_whose_server_restarts_is_asked_again() -> None:
    """A proxy answers for the server with a page of its own; the server says when to come."""
    early = [
        web.Response(status=502, text="<html>Bad Gateway</html>", content_type="text/html"),
        web.Response(status=429, text="{}", headers={"Retry-After": "0"}),
    ]
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        if early:
            return early.pop(0)
        if request.path.endswith("/events"):
            return web.Response(text="event: stream_end\ndata: {}\n\n")
        return web.json_response({"sessions": [], "next": None})

    with anyio.fail_after(60):
        async with serve_app(answer) as url, RemoteServer(url) as server:
            assert await server.list() == ()
            early.append(web.Response(status=503, text="<html>"))
            events = server._attach("abc", None).events(after=1)
            assert [one async for one in events] == []
            early.append(web.Response(status=502, text="<html>"))
            with pytest.raises(ServerUnreachable, match="status 502"):
                await server.create()

    assert [path.rpartition("/")[2] for path in seen] == [
        *["sessions"] * 3,
        *["events"] * 2,
        "sessions",
    ]


@asynccontextmanager
async def serve_app(answer: Handler) -> AsyncGenerator[str, None]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    "address", ["ftp://a", "http://", "http://u:p@127.0.0.1", "http://127.0.0.1?token=x", "a:b:c"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="address of a server"):
        RemoteServer(address)


def test_a_token_is_not_sent_readably_to_another_machine(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use https"):
        RemoteServer("http://example.org", token="secret")
    RemoteServer("https://example.org", token="secret")
    RemoteServer("http://example.org", token="secret", insecure=True)


def test_the_token_is_found_in_the_file_of_this_machine_or_in_the_environment(
    tmp_path: Path,
) -> None:
    environ = {"HOME": str(tmp_path), "CLEW_HOME": str(tmp_path)}
    assert find_token("http://127.0.0.1:8765", environ) == ""
    (tmp_path / "server.token").write_text("own\n")
    assert find_token("127.0.0.1:8765", environ) == "own"
    assert find_token("https://example.org", environ) == ""
    assert find_token("https://a.org", {**environ, "CLEW_SERVER_TOKEN": "it"}) == "it"
    (tmp_path / "server.token").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot read the token"):
        find_token("localhost:8765", environ)


async def _wait_for_question(client: SessionClient, after: int) -> None:
    async with aclosing(client.events(after=after, answering=False)) as events:
        async for envelope in events:
            if isinstance(envelope.event, PermissionRequest):
                return


async def _read_run(client: SessionClient, after: int) -> list[Envelope]:
    seen = []
    async with aclosing(client.events(after=after)) as events:
        async for envelope in events:
            seen.append(envelope)
            if isinstance(envelope.event, RunCompleted):
                break
    return seen
