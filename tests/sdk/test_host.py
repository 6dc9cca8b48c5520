"""A host owns what lives long: background work, and what must be closed at the end."""

import anyio
import pytest

from clew.core.errors import SessionClosed
from clew.core.events import RunCompleted
from clew.providers.scripted import Pause, text_reply
from clew.sdk.client import PromptInput, wait_for_run
from clew.sdk.host import Host
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("INT-8")]


class Resource:
    def __init__(self, name: str, closed: list[str]) -> None:
        self._name = name
        self._closed = closed

    async def aclose(self) -> None:
        self._closed.append(self._name)
        if self._name == "broken":
            raise OSError("cannot close")


async def test_work_ends_with_the_host_and_resources_are_closed_newest_first() -> None:
    closed: list[str] = []
    started, ended = anyio.Event(), anyio.Event()

    async def work() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with Host() as host:
        for name in ("first", "broken", "last"):
            host.add(Resource(name, closed))
        host.start_soon(work)
        await started.wait()
        assert not ended.is_set()

    assert ended.is_set()
    assert closed == ["last", "broken", "first"]
    with pytest.raises(SessionClosed):
        host.start_soon(work)
    with pytest.raises(SessionClosed):
        await host.start()


async def test_an_error_in_background_work_ends_nothing_else() -> None:
    done = anyio.Event()

    async def broken() -> None:
        raise ZeroDivisionError

    async def fine() -> None:
        done.set()

    async with Host() as host:
        host.start_soon(broken)
        await anyio.wait_all_tasks_blocked()
        host.start_soon(fine)
        with anyio.fail_after(60):
            await done.wait()


async def test_a_host_may_be_started_and_closed_by_different_tasks() -> None:
    host = Host()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.start)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.aclose)

    assert not host.is_running


async def test_sessions_share_a_host_and_leave_it_running(place: Place) -> None:
    pause = Pause()
    async with Host() as host:
        async with place.session(["one"], host=host) as session:
            before = (await session.snapshot()).seq
            run_id = await session.submit(PromptInput(text="hi"))
            result = await wait_for_run(session, run_id, after=before)
            assert result.response == "one"
        assert host.is_running
        async with place.session([[pause, *text_reply("never")]], host=host) as session:
            await session.submit(PromptInput(text="hi"))
            await pause.reached.wait()
        assert host.is_running


async def test_a_submitted_prompt_runs_while_the_caller_does_something_else(place: Place) -> None:
    finished = anyio.Event()
    async with place.session(["one"]) as session:
        session.on("complete", lambda _: finished.set())
        await session.submit(PromptInput(text="hi"))
        assert not finished.is_set()
        with anyio.fail_after(60):
            await finished.wait()

        assert session.get_messages()[-1].text == "one"


async def test_a_session_that_is_shut_down_ends_the_submitted_prompt(place: Place) -> None:
    pause, seen = Pause(), list[object]()
    session = place.session([[pause, *text_reply("never")]])
    session.on_any(lambda envelope: seen.append(type(envelope.event)))
    async with session:
        await session.submit(PromptInput(text="hi"))
        await pause.reached.wait()

    assert RunCompleted not in seen
    with pytest.raises(SessionClosed):
        await session.submit(PromptInput(text="more"))
