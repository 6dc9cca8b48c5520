"""The stand-in server that ships: what it answers, and what it remembers."""

import aiohttp
import anyio
import pytest

from clew.testing.server import ScriptedResponse, Stall, serve

pytestmark = pytest.mark.anyio


def echo(body: bytes) -> ScriptedResponse:
    return ScriptedResponse(steps=[body[::-1]], content_type="text/plain")


async def test_any_method_and_path_is_answered_and_remembered() -> None:
    answer = ScriptedResponse(steps=[b'{"a":', b"1}"], headers={"x-team": "blue"}, status=201)
    async with serve(answer) as server, aiohttp.ClientSession() as client:
        async with client.get(f"{server.url}/v1/models?limit=2", headers={"x-key": "k"}) as found:
            assert await found.read() == b'{"a":1}'
            assert (found.status, found.headers["x-team"]) == (201, "blue")
        async with client.post(f"{server.url}/model/a%3Ab/converse", data=b"{}") as found:
            assert found.status == 201

    assert server.methods == ["GET", "POST"]
    assert server.paths == ["/v1/models?limit=2", "/model/a:b/converse"]
    assert server.bodies == [b"", b"{}"]
    assert server.headers[0]["x-key"] == "k"


async def test_answers_are_played_in_order_and_the_last_one_again() -> None:
    first = ScriptedResponse(steps=[b"one"], content_type="text/plain")
    async with serve(first, echo) as server, aiohttp.ClientSession() as client:
        found = []
        for body in (b"abc", b"def", b"ghi"):
            async with client.post(server.url, data=body) as answer:
                found.append(await answer.read())

    assert found == [b"one", b"fed", b"ihg"]


async def test_a_client_that_leaves_is_noticed() -> None:
    stall = Stall()
    async with (
        serve(ScriptedResponse(steps=[b"a", stall])) as server,
        aiohttp.ClientSession() as client,
    ):
        with anyio.fail_after(60):
            async with client.post(server.url) as answer:
                assert await answer.content.readany() == b"a"
                assert not server.client_left.is_set()
                answer.close()
            await server.client_left.wait()


async def test_two_servers_have_ports_of_their_own_and_a_port_can_be_chosen() -> None:
    async with serve() as one, serve() as other:
        assert one.url != other.url
        port = int(other.url.rpartition(":")[2])

    async with serve(port=port) as again:
        assert again.url == f"http://127.0.0.1:{port}"
