"""Checks of `SessionClient.tasks`: background tasks and job groups, the same for every client."""

import anyio

from clew.core.errors import BackgroundTaskError
from clew.core.events import BackgroundJobGroupEvent, BackgroundTaskEvent
from clew.core.tasks import JobGroupStatus, JobWaitPolicy, TaskKind, TaskStatus
from clew.providers.scripted import Pause, text_reply
from clew.sdk.client import SessionClient
from clew.testing.client_streams import SECONDS, OpenClient, expect, take_events

_START = "/agent run --detach look for the leak"


async def follows_background_tasks(open_client: OpenClient) -> None:
    """A task is listed, read and in the snapshot; its group completes with it."""
    pause = Pause()
    with anyio.fail_after(SECONDS):
        async with open_client([[pause, *text_reply("it is in the feed")]]) as client:
            start = (await client.snapshot()).seq
            assert await client.tasks.list() == ()
            task_id = await _start(client, pause)
            now = await client.tasks.get(task_id)
            assert (now.kind, now.status) == (TaskKind.AGENT, TaskStatus.RUNNING)
            (seen,) = (await client.snapshot()).tasks
            assert (seen.task_id, seen.state and seen.state.status) == (task_id, TaskStatus.RUNNING)
            group = await client.tasks.create_group([task_id], label="leaks")
            assert (group.policy, group.status) == (JobWaitPolicy.WAIT_ALL, JobGroupStatus.RUNNING)

            pause.release()
            done = await client.tasks.wait_group(group.group_id)

            (result,) = done.results
            assert (result.task_id, result.summary) == (task_id, "it is in the feed")
            assert await client.tasks.get_group(group.group_id) == done
            assert done in await client.tasks.list_groups()
            assert (await client.tasks.summarize_group(group.group_id)).completed == 1
            page = await client.tasks.read_log(task_id)
            assert any("it is in the feed" in line for line in page.lines)
            assert (await client.tasks.read_log(task_id, offset=1, limit=1)).offset == 1
            assert (await client.snapshot()).tasks == ()
            assert (await client.tasks.close(task_id)).status is TaskStatus.COMPLETED
            assert await client.tasks.list() == ()
            await _check_events(client, start, group.group_id)


async def _check_events(client: SessionClient, start: int, group_id: str) -> None:
    events = await take_events(client, start, (await client.snapshot()).seq)
    tasks = [one.event for one in events if isinstance(one.event, BackgroundTaskEvent)]
    groups = [one.event for one in events if isinstance(one.event, BackgroundJobGroupEvent)]
    stages = [str(event.stage) for event in tasks if event.stage != "updated"]
    assert stages == ["created", "started", "completed", "closed"]
    assert all(event.state is not None for event in tasks)
    changes = [str(event.stage) for event in groups if event.group_id == group_id]
    assert changes == ["created", "completed"]


async def cancels_a_background_task(open_client: OpenClient) -> None:
    """A cancelled task has ended when the call returns; an unknown one is an error of its kind."""
    pause = Pause()
    with anyio.fail_after(SECONDS):
        async with open_client([[pause, *text_reply("never")]]) as client:
            task_id = await _start(client, pause)
            await expect(BackgroundTaskError, client.tasks.close(task_id))

            ended = await client.tasks.cancel(task_id, reason="enough")

            assert (ended.status, ended.error) == (TaskStatus.CANCELLED, "enough")
            assert (await client.tasks.get(task_id)).status is TaskStatus.CANCELLED
            await expect(BackgroundTaskError, client.tasks.cancel(task_id))
            await expect(BackgroundTaskError, client.tasks.get("nothing"))
            await expect(BackgroundTaskError, client.tasks.get_group("nothing"))


async def _start(client: SessionClient, pause: Pause) -> str:
    outcome = await client.execute(_START)
    assert outcome.success, outcome.message
    await pause.reached.wait()
    (task,) = await client.tasks.list()
    return task.task_id
