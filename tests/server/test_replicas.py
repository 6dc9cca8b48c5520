"""Several servers on one PostgreSQL database: real processes, which are killed and paused."""

import json
import os
import re
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import anyio
import psycopg
import pytest

from clew.core.errors import EventsExpired, SessionNotFound
from clew.core.events import (
    Envelope,
    PermissionRequest,
    RunCompleted,
    RunInterrupted,
    TextDelta,
)
from clew.core.ids import EntryId
from clew.core.permissions import Approval, PermissionMode
from clew.sdk.client import PromptInput, SessionClient
from clew.sdk.remote import RemoteServer
from clew.sdk.server_values import SessionRequest
from clew.server.access.users import USERS_FILE, UsersFile
from clew.testing.fake_openai import (
    DONE,
    FakeOpenAI,
    ScriptedResponse,
    Stall,
    delta,
    fake_openai,
    text_response,
    tool_call_response,
)
from clew.testing.server import ResponseScript
from tests.forked_clew import ForkedClew, start_clew
from tests.stores.postgres import Server

pytestmark = [pytest.mark.anyio, pytest.mark.req("SRV-3"), pytest.mark.req("SRV-4")]

GUARD = 60.0


@dataclass(frozen=True)
class Replica:
    """One `clew serve`, and a client of it."""

    process: ForkedClew
    client: RemoteServer
    log: Path


@dataclass(frozen=True)
class Cluster:
    """Replicas that share a database and a model."""

    folder: Path
    store: str
    model: FakeOpenAI
    closing: AsyncExitStack

    async def start(self, name: str, *, silent_after: float = 20.0) -> Replica:
        """Start a replica; a client is connected to it."""
        project = self.folder / "project"
        project.mkdir(exist_ok=True)
        home, log = self.folder / "home", self.folder / f"{name}.log"
        arguments = ["--base-url", self.model.url, "--model", "gpt-4o", "--sandbox", "off"]
        arguments += ["serve", "--port", "0", "--replica", "127.0.0.1"]
        arguments += ["--silent-after", str(silent_after)]
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "CLEW_HOME": str(home)}
        streams = [
            os.open(os.devnull, os.O_RDONLY),
            os.open(os.devnull, os.O_WRONLY),
            os.open(log, os.O_WRONLY | os.O_CREAT),
        ]
        started = start_clew(
            arguments, streams, env={**environ, "CLEW_STORE": self.store}, cwd=project
        )
        process = await self.closing.enter_async_context(started)
        await wait_until(lambda: "Ctrl-C stops" in log.read_text())
        url = re.findall(r"open (\S+)/login", log.read_text())[0]
        token = (home / "server.token").read_text().strip()
        client = RemoteServer(url, token=token)
        return Replica(process, await self.closing.enter_async_context(client), log)


@asynccontextmanager
async def run_cluster(
    folder: Path, postgres: Server, *answers: ResponseScript
) -> AsyncGenerator[Cluster, None]:
    with anyio.fail_after(GUARD):
        async with fake_openai(*answers) as model, AsyncExitStack() as closing:
            yield Cluster(folder, postgres.fresh(), model, closing)


async def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - another process has no event
        await anyio.sleep(0.02)


async def collect(
    client: SessionClient,
    after: int,
    is_last: Callable[[Envelope], bool],
    found: list[Envelope],
) -> None:
    """Follow the events up to one; after a takeover, continue with a new snapshot."""
    while True:
        try:
            async with aclosing(client.events(after=after)) as events:
                async for envelope in events:
                    found.append(envelope)
                    if is_last(envelope):
                        return
        except EventsExpired:
            snapshot = await client.snapshot()
            if not snapshot.executing:
                return
            after = snapshot.seq


def ends(envelope: Envelope) -> bool:
    return isinstance(envelope.event, RunCompleted)


async def read_texts(client: SessionClient) -> list[tuple[str, str]]:
    history = await client.history(after=EntryId(0), limit=100)
    return [(one.type, one.message.text) for one in history if one.message is not None]


def cut_answer(stall: Stall | None = None) -> ScriptedResponse:
    """Return an answer that stops in the middle."""
    start, end = [delta(content="Once "), delta(content="upon")], [delta("stop"), DONE]
    return ScriptedResponse(steps=[*start, stall or Stall(), *end])


async def test_clients_of_two_replicas_see_the_same_events_and_one_takes_over_when_the_other_dies(
    tmp_path: Path, postgres: Server
) -> None:
    answers = [text_response("Hi"), cut_answer(), text_response("Once ", "upon ", "a time")]
    async with run_cluster(tmp_path, postgres, *answers) as cluster:
        first, second = await cluster.start("first"), await cluster.start("second")
        here = await first.client.create(SessionRequest())
        there = await second.client.open(here.session_id)
        start = (await there.snapshot()).seq
        seen: tuple[list[Envelope], list[Envelope]] = ([], [])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, here, start, ends, seen[0])
            tasks.start_soon(collect, there, start, ends, seen[1])
            await there.submit(PromptInput(text="Hello"))
        assert seen[0] == seen[1]

        after, rest = seen[1][-1].seq, list[Envelope]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, there, after, ends, rest)
            await there.submit(PromptInput(text="Tell a story"))
            await wait_until(lambda: any(isinstance(one.event, TextDelta) for one in rest))
            first.process.kill()
            await first.process.wait()

        assert await read_texts(there) == [
            ("user", "Hello"),
            ("assistant", "Hi"),
            ("user", "Tell a story"),
            ("assistant", "Once upon a time"),
        ]
        numbers = [one.seq for one in (*seen[1], *rest)]
        assert numbers == sorted(set(numbers))
        with pytest.raises(EventsExpired):
            await anext(there.events(after=after))


async def test_a_paused_replica_that_wakes_up_after_a_takeover_writes_nothing_and_forwards(
    tmp_path: Path, postgres: Server
) -> None:
    stall, story = Stall(), text_response("Once ", "upon ", "a time")
    answers = [cut_answer(stall), story, text_response("The end")]
    async with run_cluster(tmp_path, postgres, *answers) as cluster:
        first = await cluster.start("first", silent_after=2.0)
        second = await cluster.start("second", silent_after=2.0)
        here = await first.client.create(SessionRequest())
        there = await second.client.open(here.session_id)
        start, seen = (await there.snapshot()).seq, list[Envelope]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, there, start, ends, seen)
            await there.submit(PromptInput(text="Tell a story"))
            await wait_until(lambda: any(isinstance(one.event, TextDelta) for one in seen))
            first.process.send_signal(signal.SIGSTOP)
        told = await read_texts(there)
        # The rest of its answer is there when it wakes up, and it wants to write it.
        stall.release()
        first.process.send_signal(signal.SIGCONT)

        late: list[Envelope] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, there, (await there.snapshot()).seq, ends, late)
            await here.submit(PromptInput(text="And then?"))

        assert told == [("user", "Tell a story"), ("assistant", "Once upon a time")]
        expected = [*told, ("user", "And then?"), ("assistant", "The end")]
        assert await read_texts(here) == await read_texts(there) == expected
        opened = [(await one.client.list())[0].is_open for one in (first, second)]
        assert opened == [False, True]


async def test_the_run_of_a_user_continues_without_any_client(
    tmp_path: Path, postgres: Server
) -> None:
    (tmp_path / "home").mkdir()
    token = UsersFile(tmp_path / "home" / USERS_FILE).add("ann")
    answers = [cut_answer(), text_response("Once ", "upon ", "a time")]
    async with run_cluster(tmp_path, postgres, *answers) as cluster:
        first = await cluster.start("first", silent_after=5.0)
        second = await cluster.start("second", silent_after=5.0)
        async with RemoteServer(first.client.url, token=token) as ann:
            session = await ann.create(SessionRequest())
            await session.submit(PromptInput(text="Tell a story"))
            await wait_until(lambda: len(cluster.model.bodies) == 1)
            # The replicas tell each other whose sessions they have with their heartbeats.
            await wait_until(lambda: "ann" in read_users(cluster.store))
        first.process.kill()
        await first.process.wait()
        await wait_until(lambda: len(cluster.model.bodies) == 2)

        async with RemoteServer(second.client.url, token=token) as ann:
            opened = await ann.open(session.session_id)
            while (await opened.snapshot()).executing:  # noqa: ASYNC110 - in another process
                await anyio.sleep(0.02)
            told = await read_texts(opened)
        assert told == [("user", "Tell a story"), ("assistant", "Once upon a time")]
        with pytest.raises(SessionNotFound):
            await second.client.open(session.session_id)


def read_users(store: str) -> str:
    with psycopg.connect(store) as connection:
        return str(connection.execute("SELECT users FROM clew_replicas").fetchall())


async def test_a_replica_that_is_stopped_hands_its_runs_over(
    tmp_path: Path, postgres: Server
) -> None:
    answers = [cut_answer(), text_response("Once ", "upon ", "a time")]
    async with run_cluster(tmp_path, postgres, *answers) as cluster:
        first, second = await cluster.start("first"), await cluster.start("second")
        here = await first.client.create(SessionRequest())
        there = await second.client.open(here.session_id)
        start, seen = (await there.snapshot()).seq, list[Envelope]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, there, start, ends, seen)
            await there.submit(PromptInput(text="Tell a story"))
            await wait_until(lambda: any(isinstance(one.event, TextDelta) for one in seen))
            first.process.send_signal(signal.SIGTERM)

        assert await first.process.wait() == 0
        told = [("user", "Tell a story"), ("assistant", "Once upon a time")]
        assert await read_texts(there) == told


async def test_a_successor_asks_an_open_question_again(tmp_path: Path, postgres: Server) -> None:
    call = tool_call_response("Bash", '{"command": "echo once >> file"}')
    async with run_cluster(tmp_path, postgres, call, text_response("Done")) as cluster:
        first, second = await cluster.start("first"), await cluster.start("second")
        here = await first.client.create(SessionRequest())
        there = await second.client.open(here.session_id)
        start, seen = (await there.snapshot()).seq, list[Envelope]()
        await there.submit(PromptInput(text="Write"))
        await collect(there, start, lambda one: isinstance(one.event, PermissionRequest), seen)
        first.process.kill()
        await first.process.wait()

        while not (pending := (await there.snapshot()).permission_requests):  # noqa: ASYNC110
            await anyio.sleep(0.05)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, there, (await there.snapshot()).seq, ends, seen)
            await there.answer(pending[0].request_id, Approval.ONCE)

        assert (tmp_path / "project" / "file").read_text() == "once\n"
        assert (await read_texts(there))[-1] == ("assistant", "Done")


async def test_a_successor_does_not_repeat_a_command_that_had_begun(
    tmp_path: Path, postgres: Server
) -> None:
    gate = tmp_path / "project" / "gate"
    command = f"echo begun >> file; while [ ! -e {gate} ]; do sleep 0.05; done"
    call = tool_call_response("Bash", json.dumps({"command": command}))
    async with run_cluster(tmp_path, postgres, call, text_response("Done")) as cluster:
        first, second = await cluster.start("first"), await cluster.start("second")
        request = SessionRequest(permission_mode=PermissionMode.BYPASS)
        here = await first.client.create(request)
        there = await second.client.open(here.session_id)
        start, seen = (await there.snapshot()).seq, list[Envelope]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect, there, start, ends, seen)
            await there.submit(PromptInput(text="Write"))
            await wait_until((tmp_path / "project" / "file").exists)
            first.process.kill()
            await first.process.wait()
        gate.touch()

        assert (tmp_path / "project" / "file").read_text() == "begun\n"
        assert (await read_texts(there))[-1] == ("assistant", "Done")
        assert "outcome unknown" in cluster.model.bodies[-1].decode()


async def test_two_replicas_that_open_a_session_at_once_agree_on_one(
    tmp_path: Path, postgres: Server
) -> None:
    async with run_cluster(tmp_path, postgres, text_response("Hi")) as cluster:
        first, second = await cluster.start("first"), await cluster.start("second")
        session_id = (await first.client.create(SessionRequest())).session_id
        numbers: set[int] = set()

        async def open_there(replica: Replica) -> None:
            session = await replica.client.open(session_id)
            numbers.add((await session.snapshot()).seq)

        for _ in range(2):
            numbers.clear()
            await second.client.close(session_id)
            async with anyio.create_task_group() as tasks:
                for replica in (first, second, first, second):
                    tasks.start_soon(open_there, replica)

            assert len(numbers) == 1


async def test_commands_and_sockets_reach_a_session_of_another_replica(
    tmp_path: Path, postgres: Server
) -> None:
    async with run_cluster(tmp_path, postgres, text_response("Hi")) as cluster:
        first, second = await cluster.start("first"), await cluster.start("second")
        session_id = (await first.client.create(SessionRequest())).session_id
        token = (tmp_path / "home" / "server.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(f"{second.client.url}/api/v1/", headers=headers) as http:
            body = {"session_id": session_id, "arguments": "shared"}
            async with http.post("commands/rename", json=body) as reply:
                assert reply.status == 200, await reply.text()
            async with http.ws_connect(f"sessions/{session_id}/socket?after=0") as socket:
                expired = await socket.receive_json()
                await socket.send_json({"type": "call", "id": 1, "method": "snapshot"})
                answer = await socket.receive_json()
            async with http.get(f"sessions/{session_id}/socket") as reply:
                plain = reply.status
            async with http.delete(f"sessions/{session_id}", params={"force": "true"}) as reply:
                deleted = reply.status
            async with http.get(f"sessions/{session_id}") as reply:
                gone = reply.status

        assert expired["error"]["type"] == "EventsExpired"
        assert answer["value"]["name"] == "shared"
        assert (plain, deleted, gone) == (426, 204, 404)
        assert [one.id for one in await first.client.list()] == []


async def test_what_needs_no_answer_is_not_continued_and_strangers_are_refused(
    tmp_path: Path, postgres: Server
) -> None:
    async with run_cluster(tmp_path, postgres, cut_answer(), text_response("No")) as cluster:
        first, second = await cluster.start("first"), await cluster.start("second")
        here = await first.client.create(SessionRequest())
        there = await second.client.open(here.session_id)
        start, seen = (await there.snapshot()).seq, list[Envelope]()
        await there.submit(PromptInput(text="Tell a story"))
        await collect(there, start, lambda one: isinstance(one.event, TextDelta), seen)
        there.abort()
        ended = lambda one: isinstance(one.event, RunInterrupted)  # noqa: E731
        await collect(there, seen[-1].seq, ended, seen)
        await wait_until(lambda: read_settled(cluster.store) > 0)
        before = read_settled(cluster.store)
        # A request, a call and its result, to which the model owes no answer.
        await there.execute("!echo hi")
        await wait_until(lambda: read_settled(cluster.store) >= before + 3)
        with psycopg.connect(cluster.store) as connection:
            rows = connection.execute("SELECT address, secret FROM clew_replicas").fetchall()
        statuses = set()
        async with aiohttp.ClientSession() as http:
            for address, secret in rows:
                for token in ("", "wrong", secret[:-1]):
                    url = f"{address}/api/v1/sessions/{here.session_id}"
                    headers = {"Authorization": f"Bearer {token}", "X-Clew-User": "owner"}
                    async with http.get(url, headers=headers) as response:
                        statuses.add(response.status)
        first.process.kill()
        await first.process.wait()

        snapshot = await there.snapshot()

        assert statuses == {401}
        assert not snapshot.executing
        assert (await read_texts(there))[0] == ("user", "Tell a story")
        assert len(cluster.model.bodies) == 1


def read_settled(store: str) -> int:
    with psycopg.connect(store) as connection:
        rows = connection.execute("SELECT extra FROM clew_sessions").fetchall()
    return max(int(json.loads(extra).get("settled", 0)) for (extra,) in rows)
