"""Conformance checks for task stores: run them on a store of your own.

@pytest.mark.anyio
@pytest.mark.parametrize("check", TASK_STORE_CHECKS)
async def test_my_task_store_keeps_the_contract(check):
    await check(MyTaskStore())

`clew.testing.task_blobs` has the checks for blobs, `clew.testing.shared_tasks` those for two stores
in one place.
"""

from collections.abc import Awaitable, Callable

import anyio
from msgspec.structs import replace

from clew.core.errors import SessionBusy, SessionError, SessionNotFound
from clew.core.events import PermissionRequest
from clew.core.ids import SessionId
from clew.core.permissions import Approval, PermissionAnswer, Risk
from clew.core.tasks import TaskKind, TaskState, TaskStatus
from clew.stores.task_protocol import ScheduleRow, TaskRow, TaskStore
from clew.testing.stores import (
    A,
    expect_error,
)

TaskStoreCheck = Callable[[TaskStore], Awaitable[None]]

YES = PermissionAnswer(approval=Approval.ONCE)
NO = PermissionAnswer(approval=Approval.NO, reply="not now")
_WRITERS = 8


def a_task(
    task_id: str = "t", *, status: TaskStatus = TaskStatus.QUEUED, session: str = "a", cwd: str = ""
) -> TaskRow:
    """Return a task of a session."""
    state = TaskState(
        task_id=task_id,
        kind=TaskKind.AGENT,
        label=f"label of {task_id}",
        status=status,
        session_id=SessionId(session),
        cwd=cwd,
    )
    return TaskRow(state=state, spec={"prompt": "go"})


def a_question(request_id: str = "q") -> PermissionRequest:
    """Return a question about a command."""
    return PermissionRequest(
        request_id=request_id, tool_name="Bash", target="make", risk=Risk.EXECUTE, reason="asks"
    )


def a_schedule(schedule_id: str = "s", *, next_at: float = 10.0) -> ScheduleRow:
    """Return a schedule."""
    return ScheduleRow(
        schedule_id=schedule_id,
        text="every day 9:00",
        cron="0 9 * * *",
        spec={"prompt": "go"},
        next_at=next_at,
        created_at=1.0,
    )


def with_status(row: TaskRow, status: TaskStatus) -> TaskRow:
    """Return a task with another status."""
    return replace(row, state=replace(row.state, status=status))


async def found(tasks: TaskStore, task_id: str = "t") -> TaskRow:
    """Return a task that exists."""
    row = await tasks.task(task_id)
    assert row is not None
    return row


async def claim(tasks: TaskStore, worker: str, task_id: str = "t") -> TaskRow:
    """Claim a task that can be claimed."""
    row = await tasks.claim(task_id, worker)
    assert row is not None
    return row


async def ids(rows: Awaitable[list[TaskRow]]) -> list[str]:
    """Return the ids of tasks in a list."""
    return [row.state.task_id for row in await rows]


async def keeps_tasks(tasks: TaskStore) -> None:
    """A task comes back as it was saved, with any text in it, until it is deleted."""
    odd = "nul \x00 quote ' \" % emoji 🧵 line\r\nend"
    row = a_task()
    row = replace(row, state=replace(row.state, prompt=odd, preview=odd, cost_usd=0.25))
    row = replace(row, spec={"nested": [1, {"text": odd}]}, worker="w", snapshot="b")
    await tasks.save_task(row)
    await tasks.send("t", "hello")

    stored = await found(tasks)

    assert replace(stored, updated_at=0.0) == row
    assert stored.updated_at > 0
    await tasks.delete_task("t")
    await tasks.delete_task("t")
    assert await tasks.task("t") is None
    assert await tasks.tasks() == []
    assert await tasks.messages("t") == []


async def replaces_lone_surrogates(tasks: TaskStore) -> None:
    """Text that is not Unicode does not keep a task from being stored."""
    row = a_task()
    await tasks.save_task(replace(row, state=replace(row.state, preview="cut \ud83d")))

    assert (await found(tasks)).state.preview.startswith("cut ")


async def lists_tasks(tasks: TaskStore) -> None:
    """Tasks are listed the last changed first, by what they have in common."""
    await tasks.save_task(a_task("1", status=TaskStatus.RUNNING, cwd="/one"))
    await tasks.save_task(a_task("2", status=TaskStatus.COMPLETED, session="b", cwd="/one"))
    third = a_task("3", status=TaskStatus.FAILED, cwd="/two")
    process = replace(third, state=replace(third.state, kind=TaskKind.PROCESS), worker="w")
    await tasks.save_task(process)
    await tasks.save_task(a_task("1", status=TaskStatus.RUNNING, cwd="/worktree"))

    assert await ids(tasks.tasks()) == ["1", "3", "2"]
    assert await ids(tasks.tasks(limit=2)) == ["1", "3"]
    assert await ids(tasks.tasks(cwd="/one")) == ["1", "2"]
    assert await ids(tasks.tasks(session_id=SessionId("b"))) == ["2"]
    assert await ids(tasks.tasks(kind=TaskKind.PROCESS)) == ["3"]
    assert await ids(tasks.tasks(worker="w")) == ["3"]
    ended = {TaskStatus.COMPLETED, TaskStatus.FAILED}
    assert await ids(tasks.tasks(statuses=ended)) == ["3", "2"]
    assert await ids(tasks.tasks(statuses=ended, cwd="/one", session_id=A)) == []
    assert await ids(tasks.tasks(statuses=())) == []


async def lists_unchanged_tasks(tasks: TaskStore) -> None:
    """Tasks without changes are listed page by page, the longest unchanged first."""
    for task_id in "cab":
        await tasks.save_task(a_task(task_id))
    await tasks.save_task(a_task("other", status=TaskStatus.RUNNING))
    await tasks.save_task(a_task("c"))
    rows = {row.state.task_id: row for row in await tasks.tasks()}
    order = sorted("abc", key=lambda one: (rows[one].updated_at, one))
    later = rows["other"].updated_at + 3_600

    pages: list[str] = []
    page = await tasks.unchanged_tasks(TaskStatus.QUEUED, before=later, limit=2)
    while page:
        pages += [row.state.task_id for row in page]
        page = await tasks.unchanged_tasks(TaskStatus.QUEUED, before=later, after=page[-1], limit=2)

    assert pages == order
    first = rows[order[0]].updated_at
    assert await tasks.unchanged_tasks(TaskStatus.QUEUED, before=first, limit=9) == []


async def claims_tasks(tasks: TaskStore) -> None:
    """Each claim gets a higher epoch; a task that has ended, or is gone, cannot be claimed."""
    await tasks.save_task(a_task())

    first = await claim(tasks, "one")
    second = await claim(tasks, "two")

    assert (first.worker, second.worker) == ("one", "two")
    assert first.epoch < second.epoch
    assert await tasks.claim("t", "three", epoch=first.epoch) is None
    third = await tasks.claim("t", "three", epoch=second.epoch)
    assert third is not None
    await tasks.save_task(with_status(third, TaskStatus.COMPLETED), epoch=third.epoch)
    assert await tasks.claim("t", "four") is None
    assert await tasks.claim("gone", "four") is None


async def refuses_a_worker_that_lost_its_task(tasks: TaskStore) -> None:
    """Only the last worker that claimed a task may save it; a save does not change its epoch."""
    await tasks.save_task(a_task())
    old = await claim(tasks, "old")
    await tasks.save_task(with_status(old, TaskStatus.RUNNING), epoch=old.epoch)
    new = await claim(tasks, "new")

    lost = with_status(old, TaskStatus.FAILED)
    await expect_error(SessionBusy, tasks.save_task(lost, epoch=old.epoch))
    await expect_error(SessionBusy, tasks.ask("t", a_question(), epoch=old.epoch))

    await tasks.save_task(with_status(new, TaskStatus.COMPLETED), epoch=new.epoch)
    await expect_error(SessionBusy, tasks.save_task(lost, epoch=old.epoch))
    stored = await found(tasks)
    assert (stored.state.status, stored.epoch) == (TaskStatus.COMPLETED, new.epoch)
    await tasks.delete_task("t")
    await expect_error(SessionBusy, tasks.save_task(lost, epoch=new.epoch))
    assert await tasks.task("t") is None


async def passes_cancels_on(tasks: TaskStore) -> None:
    """A task that was asked to stop is found until it has ended."""
    await tasks.save_task(a_task("1"))
    await tasks.save_task(a_task("2"))
    await tasks.save_task(a_task("3", status=TaskStatus.COMPLETED))

    assert await tasks.request_cancel("1")
    assert not await tasks.request_cancel("3")
    assert not await tasks.request_cancel("gone")
    await tasks.save_task(a_task("1", status=TaskStatus.RUNNING))

    assert await tasks.find_cancelled(["1", "2", "3", "gone"]) == {"1"}
    assert await tasks.find_cancelled(["2"]) == await tasks.find_cancelled([]) == set()
    assert (await found(tasks, "1")).cancel_requested
    await tasks.save_task(a_task("1", status=TaskStatus.CANCELLED))
    assert not (await found(tasks, "1")).cancel_requested
    assert await tasks.find_cancelled(["1"]) == set()


async def signals_what_others_want(tasks: TaskStore) -> None:
    """One query tells a worker of cancels, answers and messages for its tasks."""
    for task_id in ("1", "2", "3", "4"):
        await tasks.save_task(a_task(task_id))
        await tasks.ask(task_id, a_question(f"q{task_id}"))
    await tasks.request_cancel("1")
    await tasks.answer("2", "q2", NO)
    await tasks.send("3", "hello")
    await tasks.send("3", "again")

    signals = {one.task_id: one for one in await tasks.signals(["1", "2", "3", "4", "gone"])}

    assert sorted(signals) == ["1", "2", "3"]
    assert signals["1"].cancel_requested
    assert (signals["2"].request_id, signals["2"].answer) == ("q2", NO)
    assert (signals["3"].sent, signals["3"].answer) == (2, None)
    assert await tasks.signals(["4"]) == await tasks.signals([]) == []


async def keeps_questions_and_answers(tasks: TaskStore) -> None:
    """The first answer to the question that is open counts, and stays until the task reads it."""
    await tasks.save_task(a_task())
    await expect_error(SessionError, tasks.answer("t", "q", YES))
    await expect_error(SessionError, tasks.answer("gone", "q", YES))
    await expect_error(SessionNotFound, tasks.ask("gone", a_question()))
    await tasks.ask("t", a_question())
    await tasks.save_task(a_task(status=TaskStatus.WAITING_PERMISSION))
    assert (await found(tasks)).question == a_question()

    await expect_error(SessionError, tasks.answer("t", "other", YES))
    await tasks.answer("t", "q", NO)
    await expect_error(SessionError, tasks.answer("t", "q", YES))

    assert (await found(tasks)).answer == NO
    await tasks.ask("t", a_question("next"))
    assert (await found(tasks)).answer is None
    await expect_error(SessionError, tasks.answer("t", "q", YES))
    await tasks.ask("t", None)
    await expect_error(SessionError, tasks.answer("t", "next", YES))
    assert (await found(tasks)).question is None


async def forgets_the_question_of_a_task_that_ended(tasks: TaskStore) -> None:
    """A task that has ended asks nothing."""
    await tasks.save_task(a_task())
    await tasks.ask("t", a_question())
    await tasks.save_task(a_task(status=TaskStatus.CANCELLED))

    assert (await found(tasks)).question is None
    await expect_error(SessionError, tasks.answer("t", "q", YES))


async def keeps_messages_in_order(tasks: TaskStore) -> None:
    """Messages to a task are numbered, and can be read after one of them."""
    await tasks.save_task(a_task("1"))
    await tasks.save_task(a_task("2"))

    assert [await tasks.send("1", text) for text in ("a", "b 計算", "c")] == [1, 2, 3]
    assert await tasks.send("2", "other") == 1

    assert [one.text for one in await tasks.messages("1")] == ["a", "b 計算", "c"]
    assert [(one.number, one.text) for one in await tasks.messages("1", after=2)] == [(3, "c")]
    assert await tasks.messages("1", after=3) == await tasks.messages("gone") == []
    await expect_error(SessionNotFound, tasks.send("gone", "hello"))


async def knows_its_workers(tasks: TaskStore) -> None:
    """A worker is listed from its first heartbeat until it leaves."""
    await tasks.beat("one")
    await tasks.beat("two")
    await tasks.beat("one")

    one, two = await tasks.workers()

    assert (one.worker, two.worker) == ("one", "two")
    assert one.host
    assert one.pid > 0
    assert one.silent >= 0
    assert not one.has_ended
    await tasks.leave("one")
    await tasks.leave("one")
    assert [row.worker for row in await tasks.workers()] == ["two"]


async def keeps_schedules(tasks: TaskStore) -> None:
    """Schedules come back the next one first; one worker moves each to its next time."""
    later, sooner = a_schedule("1", next_at=20.5), a_schedule("2", next_at=10.25)
    await tasks.save_schedule(later)
    await tasks.save_schedule(sooner)
    assert await tasks.schedules() == [sooner, later]

    assert await tasks.claim_schedule(sooner, next_at=30.75, task_id="t")
    assert not await tasks.claim_schedule(sooner, next_at=40.0, task_id="u")
    assert not await tasks.claim_schedule(a_schedule("gone"), next_at=40.0, task_id="u")

    moved = replace(sooner, next_at=30.75, last_task_id="t")
    assert await tasks.schedules() == [later, moved]
    assert await tasks.claim_schedule(moved, next_at=50.0, task_id="v")
    await tasks.save_schedule(replace(later, text="every hour"))
    assert [row.text for row in await tasks.schedules()] == ["every hour", sooner.text]
    assert await tasks.delete_schedule("1")
    assert not await tasks.delete_schedule("1")
    assert [row.schedule_id for row in await tasks.schedules()] == ["2"]


async def lets_one_of_many_writers_win(tasks: TaskStore) -> None:
    """Of writers that do the same at once, one succeeds; what each of them adds is kept."""
    await tasks.save_task(a_task())
    await tasks.ask("t", a_question())
    await tasks.save_schedule(a_schedule())
    epochs: list[int] = []
    taken: list[int] = []
    answered: list[int] = []
    fired: list[int] = []
    numbers: list[int] = []

    async def write(writer: int) -> None:
        epochs.append((await claim(tasks, f"w{writer}")).epoch)
        if await tasks.claim("t", f"w{writer}", epoch=_WRITERS) is not None:
            taken.append(writer)
        try:
            await tasks.answer("t", "q", PermissionAnswer(approval=Approval.NO, reply=str(writer)))
            answered.append(writer)
        except SessionError:
            pass
        if await tasks.claim_schedule(a_schedule(), next_at=20.0 + writer, task_id=str(writer)):
            fired.append(writer)
        numbers.append(await tasks.send("t", str(writer)))

    async with anyio.create_task_group() as group:
        for writer in range(_WRITERS):
            group.start_soon(write, writer)

    assert len(set(epochs)) == _WRITERS
    assert len(taken) <= 1
    row = await found(tasks)
    assert row.answer is not None
    assert [row.answer.reply] == [str(writer) for writer in answered]
    assert [one.last_task_id for one in await tasks.schedules()] == [str(one) for one in fired]
    assert sorted(numbers) == list(range(1, _WRITERS + 1))
    assert {one.text for one in await tasks.messages("t")} == set(map(str, range(_WRITERS)))


TASK_STORE_CHECKS: tuple[TaskStoreCheck, ...] = (
    keeps_tasks,
    replaces_lone_surrogates,
    lists_tasks,
    lists_unchanged_tasks,
    claims_tasks,
    refuses_a_worker_that_lost_its_task,
    passes_cancels_on,
    signals_what_others_want,
    keeps_questions_and_answers,
    forgets_the_question_of_a_task_that_ended,
    keeps_messages_in_order,
    knows_its_workers,
    keeps_schedules,
    lets_one_of_many_writers_win,
)
