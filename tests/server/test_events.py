"""Streams of events: order, reconnection, slow clients, the end of the server."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import anyio
import anyio.lowlevel
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import given
from hypothesis import strategies as st

from clew.core.events import Warned
from clew.sdk.server_values import BASE
from clew.server.access.headers import EVENT_STREAM
from clew.testing.fake_openai import Stall, delta, text_response
from clew.testing.server import ScriptedResponse
from tests.server.places import Api, SentEvent, read_events, serving

pytestmark = [pytest.mark.anyio, pytest.mark.req("SRV-1")]

SECONDS = 60
WORDS = [f"word{number} " for number in range(30)]


async def test_the_stream_of_a_prompt_ends_with_its_run(tmp_path: Path) -> None:
    async with serving(tmp_path, text_response("Hello", " there")) as api:
        session = await api.open()

        with anyio.fail_after(SECONDS):
            events = await prompt(api, session)

    assert [event.name for event in events][-1] == "complete"
    said = [event.data["event"]["text"] for event in events if event.name == "text_delta"]
    assert "".join(said) == "Hello there"
    assert all(event.id == event.data["seq"] for event in events)


async def test_two_clients_see_the_same_events_in_the_same_order(tmp_path: Path) -> None:
    seen: dict[str, list[int]] = {"first": [], "second": []}
    async with serving(tmp_path, text_response(*WORDS)) as api:
        session = await api.open()
        seq = (await api.call("GET", f"/sessions/{session}"))["seq"]

        async def watch(name: str, after: int) -> None:
            async with api.follow(f"/sessions/{session}/events", after=after) as events:
                seen[name] = [event.id for event in await read_run(events)]

        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch, "first", seq)
                await api.call("POST", f"/sessions/{session}/prompts", {"text": "go"})
                tasks.start_soon(watch, "second", seq)

    assert seen["first"] == seen["second"]
    assert seen["first"] == sorted(set(seen["first"]))


@dataclass(frozen=True)
class Finished:
    """A session whose run has ended, on a server in another thread."""

    portal: BlockingPortal
    api: Api
    url: str
    start: int
    expected: list[int]

    async def read(self, after: int, cut: int | None) -> list[int]:
        """Read that many bytes of the stream, or all; returns the ids of whole events."""
        data, end = b"", f"id: {self.expected[-1]}\n".encode()
        if after == self.expected[-1]:
            return []
        async with self.api.http.get(self.url, params={"after": str(after)}) as reply:
            while (cut is None or len(data) < cut) and not (end in data and data[-2:] == b"\n\n"):
                data += await reply.content.readany()
        whole = data[:cut].rpartition(b"\n\n")[0]
        return [int(line[4:]) for line in whole.split(b"\n") if line.startswith(b"id: ")]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    folder = tmp_path_factory.mktemp("cut")

    async def run_once(api: Api) -> tuple[str, int, list[int]]:
        session = await api.open()
        start = (await api.call("GET", f"/sessions/{session}"))["seq"]
        await prompt(api, session)
        end = (await api.call("GET", f"/sessions/{session}"))["seq"]
        url = f"{api.server.url}{BASE}/sessions/{session}/events"
        return url, start, list(range(start + 1, end + 1))

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(folder, text_response(*WORDS))) as api,
    ):
        yield Finished(portal, api, *portal.call(run_once, api))


@given(cuts=st.lists(st.integers(1, 4_000), max_size=6))
def test_a_client_that_is_cut_off_anywhere_and_comes_back_misses_and_repeats_nothing(
    finished: Finished, cuts: list[int]
) -> None:
    found: list[int] = []

    for cut in [*cuts, None]:
        found += finished.portal.call(finished.read, found[-1] if found else finished.start, cut)

    assert found == finished.expected


async def test_events_that_are_gone_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.open()

        error = await api.call("GET", f"/sessions/{session}/events", status=410, after=1)

    assert error["type"] == "EventsExpired"
    assert "new snapshot" in error["message"]


async def test_last_event_id_counts_before_after(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.open()
        events = await prompt(api, session)
        middle = events[len(events) // 2].id

        with anyio.fail_after(SECONDS):
            async with api.follow(
                f"/sessions/{session}/events", headers={"Last-Event-ID": str(middle)}, after=1
            ) as stream:
                later = await read_run(stream)

        url = f"{api.server.url}{BASE}/sessions/{session}/events"
        for wrong in ("soon", "9" * 5_000):
            async with api.http.get(url, headers={"Last-Event-ID": wrong}) as reply:
                assert reply.status == 400

    assert [event.id for event in later] == [event.id for event in events if event.id > middle]


async def test_a_client_that_falls_behind_is_told_to_take_a_new_snapshot(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.open()

        with anyio.fail_after(SECONDS):
            async with api.follow(f"/sessions/{session}/events") as events:
                publish_many(api, session, 5_000)
                (only,) = [event async for event in events]
            snapshot = await api.call("GET", f"/sessions/{session}")
            async with api.follow(f"/sessions/{session}/events", after=snapshot["seq"]) as events:
                publish_many(api, session, 1)
                event = await anext(events)

    assert (only.name, only.data["type"]) == ("stream_error", "EventsExpired")
    assert event.id == snapshot["seq"] + 1


async def test_large_events_arrive_whole(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session = await api.open()
        text = "x" * 300_000

        with anyio.fail_after(SECONDS):
            async with (
                api.follow(f"/sessions/{session}/events") as first,
                api.follow(f"/sessions/{session}/events") as second,
            ):
                publish_many(api, session, 20, text)
                found = [[await anext(events) for _ in range(20)] for events in (first, second)]

    assert all(event.data["event"]["text"] == text for events in found for event in events)


def publish_many(api: Api, session: str, count: int, text: str = "news") -> None:
    """Publish so fast that no client can read along."""
    live = api.server.state.find_service().sessions.get(session)
    assert live is not None
    for _ in range(count):
        live.client.session.bus.publish(Warned(text))


async def test_a_silent_stream_sends_heartbeats(tmp_path: Path) -> None:
    async with serving(tmp_path, heartbeat_seconds=0.01) as api:
        session = await api.open()
        url = f"{api.server.url}{BASE}/sessions/{session}/events"

        with anyio.fail_after(SECONDS):
            async with api.http.get(url) as reply:
                assert await reply.content.readline() == b": alive\n"


async def test_a_client_that_leaves_ends_its_stream_but_not_the_run(tmp_path: Path) -> None:
    stall = Stall()
    answer = ScriptedResponse(steps=[delta(content="Half"), stall, *text_response(" done").steps])
    async with serving(tmp_path, answer) as api:
        session = await api.open()

        with anyio.fail_after(SECONDS):
            async with submit(api, session) as reply:
                async for event in read_events(reply):
                    if event.name == "text_delta":
                        break
            while len(api.server.state.streams):
                await anyio.lowlevel.checkpoint()
            stall.release()
            while (await api.call("GET", f"/sessions/{session}"))["executing"]:
                await anyio.lowlevel.checkpoint()

        history = await api.call("GET", f"/sessions/{session}/history")
    assert "Half done" in [item["data"].get("content") for item in history]


async def test_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    ended = []
    async with serving(tmp_path) as api:
        session = await api.open()
        seq = (await api.call("GET", f"/sessions/{session}"))["seq"]
        url = f"{api.server.url}{BASE}/sessions/{session}/events"

        async with anyio.create_task_group() as tasks:
            tasks.cancel_scope.deadline = anyio.current_time() + SECONDS

            async def watch(*, task_status: anyio.abc.TaskStatus[None]) -> None:
                async with api.http.get(url, params={"after": str(seq)}) as reply:
                    task_status.started()
                    await reply.content.read()
                    ended.append(reply.status)

            for _ in range(5):
                await tasks.start(watch)
            api.server.state.streams.stop()

    assert ended == [200] * 5


def submit(api: Api, session: str) -> "aiohttp.client._RequestContextManager":
    """Submit a prompt and follow its run."""
    return api.http.post(
        f"{api.server.url}{BASE}/sessions/{session}/prompts",
        json={"text": "go"},
        headers={"Accept": EVENT_STREAM},
    )


async def prompt(api: Api, session: str, *, read: bool = True) -> list[SentEvent]:
    """Submit a prompt and wait for its end; returns its events."""
    async with submit(api, session) as reply:
        assert reply.status == 200
        if read:
            return [event async for event in read_events(reply)]
        await reply.content.read()
        return []


async def read_run(events: AsyncIterator[SentEvent]) -> list[SentEvent]:
    """Read events up to the end of a run."""
    found = []
    async for event in events:
        found.append(event)
        if event.name in ("complete", "error", "interrupted"):
            break
    return found
