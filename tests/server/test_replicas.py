"""Several servers on one PostgreSQL database: real processes, which are killed and paused."""

import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from clew.core.errors import EventsExpired
from clew.core.events import Envelope, RunCompleted, TextDelta
from clew.core.ids import EntryId
from clew.sdk.client import PromptInput, SessionClient
from clew.sdk.remote import RemoteServer
from clew.sdk.server_values import SessionRequest
from clew.testing.fake_openai import (
    FakeOpenAI,
    ScriptedResponse,
    Stall,
    delta,
    fake_openai,
    text_response,
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
            after = (await client.snapshot()).seq


def ends(envelope: Envelope) -> bool:
    return isinstance(envelope.event, RunCompleted)


async def read_texts(client: SessionClient) -> list[tuple[str, str]]:
    history = await client.history(after=EntryId(0), limit=100)
    return [(one.type, one.message.text) for one in history if one.message is not None]


async def wait_for(check: Callable[[], Awaitable[bool]]) -> None:
    while not await check():  # noqa: ASYNC110 - another process has no event
        await anyio.sleep(0.05)


def cut_answer() -> ScriptedResponse:
    """Return an answer that stops in the middle."""
    return ScriptedResponse(steps=[delta(content="Once "), delta(content="upon"), Stall()])


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
