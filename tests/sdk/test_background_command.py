"""`/background`: what runs in the background, on one line each, and what to do with it."""

import anyio
import pytest

from clew.providers.scripted import Pause, text_reply
from clew.sdk.client import CommandInfo
from clew.sdk.session import InteractiveSession
from tests.sdk.places import Place
from tests.sdk.test_background_tasks import SECONDS, Runner, open_session, spawn, wait_for

pytestmark = [pytest.mark.anyio, pytest.mark.req("CMD-2")]


async def run(session: InteractiveSession, line: str) -> str:
    return (await session.execute(line)).message


async def test_tasks_are_listed_with_what_they_do_and_how_they_ended(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner) as session:
            assert await run(session, "/background") == "nothing runs in the background"
            first = await spawn(session, runner, "make test")
            second = await spawn(session, runner, "make docs")
            runner.finish(second)
            await wait_for(session, second)
            listed = await session.execute("/background list")

    lines = listed.message.split("\n")
    assert lines[0].startswith(f"  {first}  running ")
    assert lines[0].endswith("make test: make test begins")
    assert lines[1].startswith(f"  {second}  completed ")
    assert lines[1].endswith("make docs: make docs is done")
    tasks = listed.data["tasks"]
    assert isinstance(tasks, list)
    assert [task["task_id"] for task in tasks] == [first, second]


async def test_a_part_of_an_id_is_enough_and_one_task_needs_none(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner) as session:
            task_id = await spawn(session, runner)
            for words in ("", task_id, task_id.removeprefix("task-"), task_id.upper()[5:]):
                said = await run(session, f"/background read {words}")
                assert said.startswith(f"{task_id} make test: running\n[stdout] line 0")


async def test_output_is_read_in_pages(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner) as session:
            task_id = await spawn(session, runner)
            page = await session.execute(f"/background read {task_id} 3")
            rest = await run(session, f"/background read {task_id} 9")
            wrong = await session.execute(f"/background read {task_id} x")

    assert page.message.split("\n")[1:] == ["[stdout] line 3", "[stdout] line 4"]
    assert isinstance(page.data["page"], dict)
    assert "no output after line 9" in rest
    assert not wrong.success
    assert "write /background read" in wrong.message


async def test_tasks_are_cancelled_closed_and_sent_messages(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner) as session:
            first = await spawn(session, runner, "one")
            second = await spawn(session, runner, "two")
            sent = await run(session, f"/background send {first} go on, please")
            early = await session.execute(f"/background close {first}")
            ended = await run(session, f"/background cancel {first} no longer needed")
            reason = (await session.tasks.get(first)).error
            closed = await run(session, f"/background close {first}")
            runner.finish(second)
            await wait_for(session, second)
            rest = await run(session, "/background close all")
            left = await session.tasks.list()

    assert sent == f"sent to {first}"
    assert runner.sent == [(first, "go on, please")]
    assert not early.success
    assert (ended, reason) == (f"{first} is cancelled", "no longer needed")
    assert closed == f"{first} is removed from the list"
    assert rest == "1 task removed from the list"
    assert left == ()


async def test_what_does_not_exist_is_explained(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner) as session:
            nothing = await session.execute("/background cancel x")
            first = await spawn(session, runner, "one")
            second = await spawn(session, runner, "two")
            which = await session.execute("/background read")
            unknown = await session.execute("/background read nope")
            several = await session.execute("/background read task-")
            silent = await session.execute(f"/background send {first}")
            odd = await session.execute("/background stop")

    failed = [nothing, which, unknown, several, silent, odd]
    assert not any(outcome.success for outcome in failed)
    assert nothing.message == "nothing runs in the background"
    assert which.message == f"which task? write /background read ID with one of: {first}, {second}"
    assert unknown.message == f"there is no task nope; the tasks are: {first}, {second}"
    assert several.message.startswith("several tasks match task-")
    assert silent.message.startswith("the message is missing")
    assert "there is no /background stop" in odd.message


async def test_the_menu_offers_the_tasks_that_a_word_can_be_about(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner) as session:
            runs = await spawn(session, runner, "one")
            done = await spawn(session, runner, "two")
            runner.finish(done)
            await wait_for(session, done)
            (background,) = [one for one in await session.commands() if one.name == "background"]

    def ids(command: CommandInfo) -> list[str]:
        return [one.name for one in command.subcommands]

    offered = {one.name: ids(one) for one in background.subcommands}
    assert offered == {
        "list": [],
        "read": [runs, done],
        "cancel": [runs],
        "close": [done],
        "send": [runs],
    }


async def test_a_task_can_be_cancelled_while_the_model_works(place: Place) -> None:
    runner, pause = Runner(), Pause()
    with anyio.fail_after(SECONDS):
        async with (
            open_session(place, runner, [pause, *text_reply("done")], "I see") as session,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(session.run, "work")
            await pause.reached.wait()
            task_id = await spawn(session, runner)
            said = await run(session, f"/background cancel {task_id}")
            assert session.is_executing()
            pause.release()

    assert said == f"{task_id} is cancelled"
