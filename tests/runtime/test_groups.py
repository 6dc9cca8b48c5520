"""Job groups: when they are complete, and what they say about their tasks."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import BackgroundTaskError
from clew.core.events import BackgroundJobGroupEvent, JobGroupStage, TextDelta
from clew.core.ids import SessionId
from clew.core.tasks import (
    JobGroupState,
    JobGroupStatus,
    JobWaitPolicy,
    TaskErrorCategory,
    TaskStatus,
)
from clew.runtime.groups import JobGroups, is_complete
from clew.runtime.manager import BackgroundTaskManager
from clew.testing.clock import FakeClock, settle
from tests.runtime.runners import Published, ScriptedRunner, agent

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-3")]

POLICIES = [JobWaitPolicy.DETACHED, JobWaitPolicy.WAIT_ALL, JobWaitPolicy.WAIT_ANY]
FAILURE = BackgroundTaskError("exit code 1", category=TaskErrorCategory.PROCESS)


class World:
    """Three running tasks and their groups."""

    def __init__(self) -> None:
        self.runner, self.published = ScriptedRunner(), Published()
        self.manager = BackgroundTaskManager([self.runner], clock=FakeClock())
        self.groups = JobGroups(
            self.manager,
            publish=self.published,
            session_id=SessionId("s"),
            clock=FakeClock(),
        )
        self.ids: list[str] = []

    async def __aenter__(self) -> "World":
        for label in "abc":
            self.ids.append((await self.manager.spawn(agent(label=label, task_id=label))).task_id)
        await settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.manager.shutdown()
        self.groups.close()

    def stages(self) -> list[JobGroupStage]:
        return [
            event.stage
            for event, _ in self.published.events
            if isinstance(event, BackgroundJobGroupEvent)
        ]


@given(st.sampled_from(JobWaitPolicy), st.lists(st.sampled_from(TaskStatus), min_size=1))
def test_a_group_that_is_complete_stays_complete_when_more_tasks_end(
    policy: JobWaitPolicy, statuses: list[TaskStatus]
) -> None:
    ended = [one if one.is_terminal else TaskStatus.FAILED for one in statuses]

    if is_complete(policy, statuses):
        assert is_complete(policy, ended)
    assert is_complete(policy, ended) is (policy is not JobWaitPolicy.MANUAL)


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_group_is_complete_as_its_policy_says(policy: JobWaitPolicy) -> None:
    async with World() as w:
        group = w.groups.create(w.ids, policy=policy, label="three")
        w.runner.end("a", FAILURE)
        await settle()
        assert w.groups.get(group.group_id).status is JobGroupStatus.RUNNING
        w.runner.complete("b", "found it")
        await settle()
        is_any = policy is JobWaitPolicy.WAIT_ANY
        assert (w.groups.get(group.group_id).status is JobGroupStatus.COMPLETED) is is_any
        w.runner.complete("c")

        with anyio.fail_after(60):
            done = await w.groups.wait(group.group_id)
        await settle()

        assert [result.status for result in w.groups.get(group.group_id).results] == [
            TaskStatus.FAILED,
            TaskStatus.COMPLETED,
            TaskStatus.COMPLETED,
        ]
        assert (done.label, done.session_id, done.task_ids) == ("three", "s", ("a", "b", "c"))
        assert done.ended_at is not None
        updated, completed = JobGroupStage.UPDATED, JobGroupStage.COMPLETED
        order = [completed, updated] if is_any else [updated, completed]
        assert w.stages() == [JobGroupStage.CREATED, updated, *order]


async def test_wait_any_is_complete_when_all_have_ended_without_success() -> None:
    async with World() as w:
        group = w.groups.create(["a", "b"], policy=JobWaitPolicy.WAIT_ANY)
        w.runner.end("a", FAILURE)
        await w.manager.cancel("b")

        with anyio.fail_after(60):
            assert (await w.groups.wait(group.group_id)).status is JobGroupStatus.COMPLETED


async def test_only_its_user_completes_a_manual_group() -> None:
    async with World() as w:
        group = w.groups.create(["a"], policy=JobWaitPolicy.MANUAL)
        w.runner.complete("a")
        await w.manager.wait("a")
        assert w.groups.get(group.group_id).status is JobGroupStatus.RUNNING

        w.groups.complete(group.group_id)
        w.groups.complete(group.group_id)

        assert (await w.groups.wait(group.group_id)).status is JobGroupStatus.COMPLETED
        assert w.stages().count(JobGroupStage.COMPLETED) == 1


async def test_the_summary_has_a_line_for_each_task() -> None:
    async with World() as w:
        group = w.groups.create(w.ids)
        w.runner.report("c", TextDelta("reading\nthe manual"))
        w.runner.complete("a", "first line\nsecond line " + "x" * 2_000)
        w.runner.end("b", FAILURE)
        await settle()
        await w.manager.cancel("c", "not needed")

        summary = w.groups.summarize(group.group_id)
        results = w.groups.get(group.group_id).results

        assert (summary.total, summary.completed, summary.failed, summary.cancelled) == (3, 1, 1, 1)
        assert summary.running == 0
        assert summary.lines[0].startswith("[completed] a a: first line second line xxx")
        assert summary.lines[1:] == ("[failed] b b: exit code 1", "[cancelled] c c: not needed")
        assert len(results[0].summary) == 1_000


async def test_a_running_task_is_described_by_its_last_line() -> None:
    async with World() as w:
        group = w.groups.create(["c", "b"])
        w.runner.report("c", TextDelta("reading\nthe manual"))
        await settle()

        lines = w.groups.summarize(group.group_id).lines

        assert lines == ("[running] c c: the manual", "[running] b b")


async def test_a_group_keeps_the_results_of_tasks_that_were_closed() -> None:
    async with World() as w:
        group = w.groups.create(["a", "b"])
        w.runner.complete("a", "42")
        await w.manager.wait("a")
        w.manager.close("a")

        assert [result.summary for result in w.groups.get(group.group_id).results] == ["42"]


async def test_a_group_of_tasks_that_have_ended_is_complete_at_once() -> None:
    async with World() as w:
        w.runner.complete("a")
        await w.manager.wait("a")

        group = w.groups.create(["a", "a"])

        assert (group.status, group.task_ids) == (JobGroupStatus.COMPLETED, ("a",))


async def test_a_group_of_nothing_or_of_unknown_tasks_is_refused() -> None:
    async with World() as w:
        w.groups.create(["a"], group_id="g")

        for ids, group_id, words in (
            ([], "", "at least one"),
            (["a", "z"], "", "no task z"),
            (["a"], "g", "a group g already"),
        ):
            with pytest.raises(BackgroundTaskError, match=words):
                w.groups.create(ids, group_id=group_id)
        for call in (w.groups.get, w.groups.summarize, w.groups.complete):
            with pytest.raises(BackgroundTaskError, match="there is no group x"):
                call("x")


async def test_waits_end_when_the_session_is_closed() -> None:
    async with World() as w:
        group = w.groups.create(["a"], policy=JobWaitPolicy.MANUAL)
        errors: list[BackgroundTaskError] = []

        async def wait() -> None:
            try:
                await w.groups.wait(group.group_id)
            except BackgroundTaskError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await settle()
            w.groups.close()

        assert "was closed before" in str(errors[0])


@pytest.mark.req("BGT-5")
async def test_groups_of_an_earlier_process_come_back_with_what_is_known_of_their_tasks() -> None:
    async with World() as before:
        before.runner.complete("a", "42")
        await before.manager.wait("a")
        before.groups.create(["a", "b"], group_id="g")
        tasks, groups = before.manager.list(), before.groups.list()
        lost = JobGroupState(group_id="h", policy=JobWaitPolicy.WAIT_ALL, task_ids=("z",))

        manager = BackgroundTaskManager([ScriptedRunner()])
        restored = JobGroups(manager, publish=before.published)
        await manager.restore(tasks)
        restored.restore([*groups, lost])
        await manager.shutdown()

        group = await restored.wait("g")
        assert [one.status for one in group.results] == [TaskStatus.COMPLETED, TaskStatus.FAILED]
        assert restored.summarize("h").lines == ("[failed] task z: its result is lost",)
        assert restored.get("h").status is JobGroupStatus.COMPLETED
