"""Background tasks of an interactive session: recorded, restored, cancelled, remembered."""

import json
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from clew.context.plan import Strategy
from clew.context.strategies.compact import Compact
from clew.context.strategies.sliding_window import SlidingWindow
from clew.context.strategies.tiered import Summarize, Tiered
from clew.core.entries import JobGroupChanged, TaskChanged
from clew.core.errors import BackgroundTaskError, ConfigError
from clew.core.events import BackgroundJobGroupEvent, BackgroundTaskEvent, TaskStage, TextDelta
from clew.core.tasks import (
    JobGroupStatus,
    JobWaitPolicy,
    LogPage,
    TaskErrorCategory,
    TaskKind,
    TaskMode,
    TaskState,
    TaskStatus,
    TimeoutReason,
)
from clew.importers.clew_jsonl import export_jsonl, parse
from clew.providers.protocol import TextChunk
from clew.providers.scripted import Pause, ScriptedReply
from clew.runtime.protocol import RunningTask, TaskFacts, TaskLimits, TaskRequest, TaskResult
from clew.sdk.pipe_client import connect
from clew.sdk.session import InteractiveSession
from clew.sdk.session_details import read_details
from clew.sdk.session_store import ProjectStore
from clew.session.session import Session
from clew.session.task_records import read_task_records
from clew.stores.memory import MemoryStore
from clew.stores.transfer import export_lines, read_export
from tests.sdk.places import Place

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-5")]

SECONDS = 60


class Runner:
    """Runs tasks that end when the test says so."""

    def __init__(self, kind: TaskKind = TaskKind.PROCESS) -> None:
        self.kind = kind
        self.started: dict[str, anyio.Event] = {}
        self.results: dict[str, anyio.Event] = {}
        self.running: set[str] = set()
        self.sent: list[tuple[str, str]] = []

    async def run(self, task: RunningTask) -> TaskResult:
        self.running.add(task.task_id)
        try:
            task.report(TextDelta(f"{task.request.prompt} begins\n"))
            self.started.setdefault(task.task_id, anyio.Event()).set()
            await self.results.setdefault(task.task_id, anyio.Event()).wait()
            return TaskResult(text=f"{task.request.prompt} is done")
        finally:
            self.running.discard(task.task_id)

    async def send(self, task_id: str, text: str) -> None:
        self.sent.append((task_id, text))

    async def read_log(self, task_id: str, *, offset: int = 0, limit: int = 200) -> LogPage:
        lines = tuple(f"[stdout] line {n}" for n in range(offset, min(5, offset + limit)))
        after = offset + len(lines)
        return LogPage(
            task_id=task_id, lines=lines, offset=offset, next_offset=after if after < 5 else None
        )

    async def until_started(self, task_id: str) -> None:
        await self.started.setdefault(task_id, anyio.Event()).wait()

    def finish(self, task_id: str) -> None:
        self.results.setdefault(task_id, anyio.Event()).set()


def open_session(
    place: Place,
    runner: Runner,
    *replies: ScriptedReply,
    resume: str | None = None,
    **options: object,
) -> InteractiveSession:
    given = {"background_task_runners": [runner], "resume_session_id": resume, **options}
    return place.session(list(replies), **given)  # type: ignore[arg-type]


async def spawn(
    session: InteractiveSession,
    runner: Runner,
    prompt: str = "make test",
    *,
    mode: TaskMode = "background",
) -> str:
    request = TaskRequest(
        kind=runner.kind, prompt=prompt, session_id=session.get_session_id(), mode=mode
    )
    state = await session.parts.tasks.manager.spawn(request)
    await runner.until_started(state.task_id)
    return state.task_id


def recorded(session: Session) -> list[tuple[str, TaskStatus, bool]]:
    return [
        (entry.body.state.task_id, entry.body.state.status, entry.body.closed)
        for entry in session.journal.entries
        if isinstance(entry.body, TaskChanged)
    ]


async def wait_for(session: InteractiveSession, task_id: str) -> TaskState:
    return await session.parts.tasks.manager.wait(task_id)


async def test_every_change_but_progress_is_an_entry_of_the_journal(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session:
            await session.run("hello")
            task_id = await spawn(session, runner)
            runner.finish(task_id)
            await wait_for(session, task_id)
            await session.tasks.close(task_id)
        conversation = session.session

    assert recorded(conversation) == [
        (task_id, TaskStatus.QUEUED, False),
        (task_id, TaskStatus.RUNNING, False),
        (task_id, TaskStatus.COMPLETED, False),
        (task_id, TaskStatus.COMPLETED, True),
    ]


async def test_a_resumed_session_lists_its_tasks_and_knows_which_died(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session:
            await session.run("hello")
            done = await spawn(session, runner, "make docs")
            runner.finish(done)
            await wait_for(session, done)
            lost = "task-lost"
            # As a process leaves it that dies while the task runs.
            task = TaskState(
                task_id=lost,
                kind=TaskKind.PROCESS,
                label="make test",
                status=TaskStatus.RUNNING,
                session_id=session.get_session_id(),
            )
            await session.session.journal.append(TaskChanged(state=task))
        session_id = session.get_session_id()
        async with open_session(place, Runner(), "I see", "again", resume=session_id) as resumed:
            tasks = {task.task_id: task for task in await resumed.tasks.list()}
            await resumed.run("what now?")
            asked = place.provider.requests[-1].messages[-1].text
        async with open_session(place, Runner(), "ok", resume=session_id) as again:
            kept = {task.task_id: task.status for task in await again.tasks.list()}
            await again.run("and now?")
            later = place.provider.requests[-1].messages[-1].text

    assert tasks[done].status is TaskStatus.COMPLETED
    assert tasks[done].result == "make docs is done"
    assert tasks[lost].status is TaskStatus.FAILED
    assert tasks[lost].timeout_reason is TimeoutReason.STALE_WORKER
    assert tasks[lost].error_category is TaskErrorCategory.CRASH
    assert f"{lost} ended without a result" in asked
    assert "make docs is done" in asked
    assert kept == {done: TaskStatus.COMPLETED, lost: TaskStatus.FAILED}
    assert lost not in later
    assert done not in later


async def test_the_end_of_a_task_is_reported_once_however_often_the_session_is_resumed(
    place: Place,
) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi", "I see") as session:
            await session.run("hello")
            told = await spawn(session, runner, "make docs")
            runner.finish(told)
            await wait_for(session, told)
            await session.run("and now?")
            untold = await spawn(session, runner, "make test")
            runner.finish(untold)
            await wait_for(session, untold)
            running = await spawn(session, runner, "make server")
        session_id = session.get_session_id()
        async with open_session(place, Runner(), resume=session_id) as idle:
            # Nothing was asked, so nothing was reported.
            assert len(await idle.tasks.list()) == 3
        async with open_session(place, Runner(), "good", resume=session_id) as resumed:
            await resumed.run("what now?")
            asked = place.provider.requests[-1].messages[-1].text
            entries = await resumed.execute("/history")
        async with open_session(place, Runner(), "ok", resume=session_id) as again:
            await again.run("and now?")
            later = place.provider.requests[-1].messages[-1].text

    assert told not in asked
    assert f"{untold} has completed: make test" in asked
    assert "make test is done" in asked
    assert f"{running} was cancelled (the session was closed)" in asked
    assert "background" not in later
    assert f"task {untold} make test: reported to the model" in entries.message


async def test_an_agent_that_continued_after_its_report_is_reported_again(place: Place) -> None:
    runner = Runner(TaskKind.AGENT)
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi", "I see") as session:
            await session.run("hello")
            agent = await spawn(session, runner, "find the leak")
            runner.finish(agent)
            await wait_for(session, agent)
            await session.run("and now?")
            request = TaskRequest(
                kind=runner.kind,
                prompt="find more",
                task_id=agent,
                session_id=session.get_session_id(),
            )
            await session.parts.tasks.manager.spawn(request)
            await wait_for(session, agent)
        session_id = session.get_session_id()
        async with open_session(place, Runner(), "good", resume=session_id) as resumed:
            await resumed.run("what now?")
            asked = place.provider.requests[-1].messages[-1].text

    assert "find more is done" in asked


async def test_the_log_and_the_worktree_of_a_task_survive_a_crash(place: Place) -> None:
    class Placed(Runner):
        async def run(self, task: RunningTask) -> TaskResult:
            task.describe(TaskFacts(log_path="/logs/a.log", worktree_path="/trees/a"))
            task.describe(TaskFacts(branch_name="clew/a"))
            return await super().run(task)

    runner, known = Placed(TaskKind.AGENT), anyio.Event()

    def follow(event: BackgroundTaskEvent) -> None:
        if event.state is not None and event.state.worktree_path:
            known.set()

    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session:
            session.on("background_task_event", follow)
            await session.run("hello")
            task_id = await spawn(session, runner)
            await known.wait()
            await session.parts.tasks.flush()
            # What is on disk when the process dies now.
            (last,) = read_task_records(session.session.journal.entries).tasks
            await session.parts.tasks.aclose()
            await session.session.journal.append(TaskChanged(state=last))
        session_id = session.get_session_id()
        async with open_session(place, Runner(TaskKind.AGENT), "ok", resume=session_id) as resumed:
            died = await resumed.tasks.get(task_id)
            await resumed.run("what now?")
            asked = place.provider.requests[-1].messages[-1].text

    assert died.started_at is not None
    assert (died.log_path, died.worktree_path) == ("/logs/a.log", "/trees/a")
    assert "Its work so far is in the git worktree /trees/a, branch clew/a." in asked


async def test_a_group_keeps_the_results_of_closed_tasks_after_a_crash(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session:
            await session.run("hello")
            first, second = [await spawn(session, runner, name) for name in ("one", "two")]
            group = await session.tasks.create_group([first, second])
            runner.finish(first)
            await wait_for(session, first)
            await session.tasks.close(first)
            # Nothing more is recorded of the group, as when the process dies now.
            session.parts.tasks.groups.close()
        session_id = session.get_session_id()
        async with open_session(place, Runner(), resume=session_id) as resumed:
            summary = await resumed.tasks.summarize_group(group.group_id)

    assert summary.lines[0] == f"[completed] one {first}: one is done"


async def test_a_fork_does_not_have_the_tasks_of_the_original(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session:
            await session.run("hello")
            task_id = await spawn(session, runner)
            runner.finish(task_id)
            await wait_for(session, task_id)
        session_id = session.get_session_id()
        fork = open_session(place, Runner(), resume=session_id, fork_session=True)
        async with fork:
            assert await fork.tasks.list() == ()


async def test_an_abort_ends_the_tasks_that_somebody_waits_for(place: Place) -> None:
    runner, pause = Runner(), Pause()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, [TextChunk("half"), pause]) as session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.run, "work")
                await pause.reached.wait()
                waited = await spawn(session, runner, "now", mode="foreground")
                behind = await spawn(session, runner, "later")
                session.abort()
            assert (await wait_for(session, waited)).status is TaskStatus.CANCELLED
            assert (await session.tasks.get(behind)).status is TaskStatus.RUNNING


@pytest.mark.parametrize("state", ["running", "queued", "waiting", "ended"])
async def test_a_shutdown_in_any_state_leaves_nothing_behind(place: Place, state: str) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi", max_background_tasks=1) as session:
            await session.run("hello")
            first = await spawn(session, runner)
            request = TaskRequest(kind=runner.kind, prompt="second")
            if state == "queued":
                await session.parts.tasks.manager.spawn(request)
            if state == "ended":
                runner.finish(first)
                await wait_for(session, first)
            if state == "waiting":
                group = await session.tasks.create_group([first])
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_expect_closed, session, group.group_id)
                    await anyio.wait_all_tasks_blocked()
                    await session.shutdown()

    assert runner.running == set()
    ends = [status for _, status, _ in recorded(session.session) if status.is_terminal]
    assert len(ends) == (2 if state == "queued" else 1)


async def _expect_closed(session: InteractiveSession, group_id: str) -> None:
    # The end of its task completes the group.
    group = await session.tasks.wait_group(group_id)
    assert group.status is JobGroupStatus.COMPLETED


async def test_a_number_of_tasks_below_one_is_refused(place: Place) -> None:
    with pytest.raises(ConfigError, match="max_background_tasks"):
        await open_session(place, Runner(), max_background_tasks=0).open()


@pytest.mark.req("CMP-3", "BGT-5")
@pytest.mark.parametrize(
    "strategy",
    [Compact(), Summarize(), Tiered()],
    ids=lambda one: one.name,
)
async def test_every_compaction_keeps_the_running_tasks(place: Place, strategy: Strategy) -> None:
    summarises = isinstance(strategy, Summarize | Tiered)
    process, agent = Runner(), Runner(TaskKind.AGENT)
    words = "The thread is red. " * 400
    answers: list[ScriptedReply] = [words, words, words, words]
    if summarises:
        answers += ["We spoke of threads.", words, words, "We spoke of more threads."]
    else:
        answers += [words, words]
    with anyio.fail_after(SECONDS):
        async with open_session(
            place,
            process,
            *answers,
            max_context_tokens=16_000,
            auto_compact_threshold=False,
            strategy=strategy,
        ) as session:
            session.parts.tasks._make_runners = lambda: [process, agent]
            for text in ("one", "two", "three", "four"):
                await session.run(text)
            test = await spawn(session, process, "make test")
            find = await spawn(session, agent, "find the leak")
            await session.session.compact()
            first = session.session.journal.view.items[0].message.text
            process.finish(test)
            await wait_for(session, test)
            for text in ("five", "six"):
                await session.run(text)
            await session.session.compact()
            second = session.session.journal.view.items[0].message.text

    assert f"`{test}`, a process, running: make test" in first
    assert "BackgroundProcess" in first
    assert f"`{find}`, an agent, running: find the leak" in first
    assert test not in second
    assert second.count(find) == 1
    if summarises:
        assert "We spoke of threads." in first


async def test_a_window_that_only_slides_keeps_the_running_tasks_too(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(
            place, runner, "The thread is red. " * 400, "two", strategy=SlidingWindow(max_turns=1)
        ) as session:
            await session.run("first")
            task_id = await spawn(session, runner)
            await session.run("second")
            sent = place.provider.requests[-1].messages[0].text

    assert "first" not in sent
    assert f"`{task_id}`, a process, running: make test" in sent


async def test_groups_are_recorded_and_restored(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session:
            events: list[BackgroundJobGroupEvent] = []
            session.on("background_job_group_event", events.append)
            await session.run("hello")
            ids = [await spawn(session, runner, name) for name in ("a", "b")]
            group = await session.tasks.create_group(ids, policy=JobWaitPolicy.WAIT_ALL)
            for task_id in ids:
                runner.finish(task_id)
            complete = await session.tasks.wait_group(group.group_id)
        session_id = session.get_session_id()
        async with open_session(place, Runner(), resume=session_id) as resumed:
            (known,) = await resumed.tasks.list_groups()
            summary = await resumed.tasks.summarize_group(group.group_id)

    written = [
        e.body for e in session.session.journal.entries if isinstance(e.body, JobGroupChanged)
    ]
    assert [str(event.stage) for event in events] == ["created", "updated", "completed"]
    assert len(written) == 2
    assert [result.summary for result in complete.results] == ["a is done", "b is done"]
    assert known == complete
    assert (summary.total, summary.completed) == (2, 2)


@pytest.mark.req("STO-1")
async def test_an_export_has_the_fields_of_tasks_and_groups(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session:
            await session.run("hello")
            task_id = await spawn(session, runner)
            await session.tasks.create_group([task_id])
            runner.finish(task_id)
            await wait_for(session, task_id)
            await session.parts.tasks.flush()
            await session.execute("/export session.json")
            await session.execute("/export session.md")
            history = await session.execute("/history")

    document = json.loads((place.project / "session.json").read_text())
    (task,) = document["backgroundTasks"]
    assert (task["task_id"], task["status"]) == (task_id, "completed")
    assert [
        event["state"].get("status", "queued") for event in document["backgroundTaskEvents"]
    ] == [
        "queued",
        "running",
        "completed",
    ]
    assert document["backgroundJobGroups"][0]["task_ids"] == [task_id]
    assert len(document["backgroundJobGroupEvents"]) == 2
    kinds = [item["type"] for item in document["history"]]
    assert kinds.count("background-task") == 3
    assert "make test is done" in (place.project / "session.md").read_text()
    assert f"task {task_id} make test: completed" in history.message


async def test_the_result_of_a_task_can_be_recalled(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session:
            await session.run("hello")
            task_id = await spawn(session, runner, "measure the labyrinth")
            runner.finish(task_id)
            await wait_for(session, task_id)
            await session.parts.tasks.flush()
            found = await session.execute("/recall labyrinth done")

    assert task_id in found.message


async def test_clients_that_join_late_see_the_running_tasks(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session, connect(session) as remote:
            task_id = await spawn(session, runner)
            (seen,) = (await remote.snapshot()).tasks

    assert isinstance(seen, BackgroundTaskEvent)
    assert (seen.task_id, seen.stage, seen.text) == (task_id, TaskStage.STARTED, "make test")
    assert seen.state is not None
    assert seen.state.status is TaskStatus.RUNNING


@pytest.mark.parametrize("way", ["local", "pipe"])
@pytest.mark.req("INT-1", "INT-7", "BGT-3")
async def test_tasks_and_groups_work_the_same_for_every_client(place: Place, way: str) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session, connect(session) as remote:
            tasks = remote.tasks if way == "pipe" else session.tasks
            first, second = [await spawn(session, runner, name) for name in ("a", "b")]
            group = await tasks.create_group(
                [first, second], policy=JobWaitPolicy.WAIT_ANY, label="both"
            )
            assert [task.task_id for task in await tasks.list()] == [first, second]
            assert (await tasks.get(first)).prompt == "a"
            await tasks.send(first, "hello")
            page = await tasks.read_log(first, offset=1, limit=2)
            rest = await tasks.read_log(first, offset=page.next_offset or 0)
            ended = await tasks.cancel(second, reason="enough")
            runner.finish(first)
            done = await tasks.wait_group(group.group_id)
            summary = await tasks.summarize_group(group.group_id)
            assert await tasks.get_group(group.group_id) == done
            assert await tasks.list_groups() == (done,)
            await tasks.close(second)
            left = [task.task_id for task in await tasks.list()]
            failures = await _fail(tasks, second)

    assert runner.sent == [(first, "hello")]
    assert page.lines == ("[stdout] line 1", "[stdout] line 2")
    assert (rest.lines[-1], rest.next_offset) == ("[stdout] line 4", None)
    assert (ended.status, ended.error) == (TaskStatus.CANCELLED, "enough")
    assert done.status is JobGroupStatus.COMPLETED
    assert (summary.completed, summary.cancelled, len(summary.lines)) == (1, 1, 2)
    assert left == [first]
    assert failures == [TaskErrorCategory.VALIDATION] * 3


async def _fail(tasks: object, closed: str) -> Sequence[TaskErrorCategory]:
    found = []
    for call in ("get", "cancel", "get_group"):
        with pytest.raises(BackgroundTaskError) as caught:
            await getattr(tasks, call)(closed)
        found.append(caught.value.category)
    return found


async def test_a_session_without_tasks_does_not_load_the_runtime(tmp_path: Path) -> None:
    async with Place(tmp_path).session(["hi"]) as session:
        await session.run("hello")
        assert await session.tasks.list() == ()
        assert await session.tasks.list_groups() == ()
        assert (await session.snapshot()).tasks == ()
        assert session.parts.tasks._manager is None


@pytest.mark.req("STO-1")
async def test_tasks_survive_an_export_and_an_import(place: Place) -> None:
    runner = Runner()
    with anyio.fail_after(SECONDS):
        async with open_session(place, runner, "hi") as session:
            await session.run("hello")
            task_id = await spawn(session, runner)
            runner.finish(task_id)
            await wait_for(session, task_id)
            await session.parts.tasks.flush()
            entries = list(session.session.journal.entries)
            record = await session.parts.store.record(session.get_session_id())
    exported = read_export(export_lines(record, entries))

    assert exported is not None
    assert read_task_records(exported.entries) == read_task_records(entries)
    recorded_session = parse(export_jsonl(entries).splitlines())
    assert recorded_session.problems == ("without a message: TaskChanged 3",)
    assert [message.text for message in recorded_session.messages] == ["hello", "hi"]


@pytest.mark.req("BGT-1")
async def test_an_agent_beyond_the_limits_of_the_session_is_ended(place: Place) -> None:
    limits = TaskLimits(output_limit_bytes=10)
    with anyio.fail_after(SECONDS):
        async with place.session(["much more than ten bytes"], agent_limits=limits) as session:
            outcome = await session.execute("/agent run --detach talk")
            (task,) = await session.tasks.list()
            ended = await wait_for(session, task.task_id)

    assert outcome.success
    assert (ended.status, ended.timeout_reason) == (TaskStatus.FAILED, TimeoutReason.OUTPUT_LIMIT)


@pytest.mark.req("STO-1")
async def test_a_stored_session_has_its_setup_its_tasks_and_the_memory_it_used(
    place: Place,
) -> None:
    runner, store = Runner(), MemoryStore()
    async with open_session(place, runner, "fine", store=store) as session:
        await session.execute("/memory add project build make test builds it")
        await session.execute("/memory show build")
        await session.run("hello")
        task_id = await spawn(session, runner)
        runner.finish(task_id)
        await wait_for(session, task_id)
        session_id = session.session.session_id
    record, entries = await store.load(session_id)
    details = await read_details(ProjectStore(store=store, folder=None), record, entries)

    assert details.system_prompt == place.provider.requests[0].system
    assert [one.name for one in details.tool_schemas] == [
        one.name for one in place.provider.requests[0].tools
    ]
    [task] = details.background_tasks
    assert (task.task_id, task.status) == (task_id, TaskStatus.COMPLETED)
    assert len(details.background_task_events) >= 2
    assert [event.kind for event in details.memory_events] == ["saved", "retrieved"]
    assert [one.path for one in details.used_memory_references] == ["topics/build.md"]
    assert details.sandbox_snapshot_id == ""
