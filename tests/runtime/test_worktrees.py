from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError, ClewError, SessionError
from clew.core.events import Warned
from clew.core.tasks import TaskErrorCategory
from clew.hooks.protocol import HookEvent, HookVerdict
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.protocol import TaskRequest, TaskResult
from clew.runtime.worktree_records import Worktree
from clew.runtime.worktree_runner import WorktreeRunner
from clew.runtime.worktrees import GitWorktrees
from tests.runtime.repositories import commit_all, git, make_repository, read_files
from tests.runtime.worktree_tasks import Recorder, Task, Worker, leave_nothing

pytestmark = pytest.mark.anyio


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


@pytest.fixture
def worktrees(tmp_path: Path) -> GitWorktrees:
    return GitWorktrees(tmp_path / "home" / "worktrees")


@pytest.mark.req("BGT-4")
async def test_a_worktree_without_changes_is_removed_with_its_branch(
    repository: Path, worktrees: GitWorktrees
) -> None:
    seen: dict[str, object] = {}

    def look(folder: Path) -> None:
        seen["files"] = read_files(folder)
        seen["branch"] = git(folder, "branch", "--show-current")
        (folder / "build").mkdir()
        (folder / "build" / "out").write_text("made again by the next build")

    task = Task(repository)
    result = await WorktreeRunner(Worker(look), worktrees).run(task)

    assert seen["files"] == read_files(repository)
    assert str(seen["branch"]).startswith("clew/agent-1-")
    assert (result.worktree_path, result.branch_name) == ("", "")
    assert "had no changes and was removed" in result.text
    assert "build/" in result.text
    assert task.facts["worktree_path"] == ""
    assert leave_nothing(repository, worktrees)


@pytest.mark.req("BGT-4")
@pytest.mark.parametrize("committed", [False, True])
async def test_work_is_kept_with_its_branch_and_reported(
    repository: Path, worktrees: GitWorktrees, *, committed: bool
) -> None:
    def work(folder: Path) -> None:
        (folder / "README.md").write_text("changed\n")
        (folder / "new.txt").write_text("new\n")
        if committed:
            commit_all(folder, "work of the agent")

    task = Task(repository)
    result = await WorktreeRunner(Worker(work), worktrees).run(task)

    kept = Path(result.worktree_path)
    assert (kept / "new.txt").read_text() == "new\n"
    assert git(kept, "branch", "--show-current") == result.branch_name
    assert ("1 commit" if committed else "2 uncommitted changes") in result.text
    assert f"git merge {result.branch_name}" in result.text
    assert task.facts["worktree_path"] == result.worktree_path
    assert read_files(repository)["README.md"] == ("file", b"one\ntwo\nthree\n")
    # The commands of the report work as they are written.
    if not committed:
        commit_all(kept, "what the report says")
    git(repository, "merge", "-q", result.branch_name)
    assert (repository / "new.txt").read_text() == "new\n"


@pytest.mark.parametrize("error", [SessionError("it is full"), RuntimeError("it crashed")])
async def test_work_is_kept_when_the_task_fails(
    repository: Path, worktrees: GitWorktrees, error: Exception
) -> None:
    def work(folder: Path) -> None:
        (folder / "new.txt").write_text("new\n")
        raise error

    task = Task(repository)
    with pytest.raises(type(error)) as raised:
        await WorktreeRunner(Worker(work), worktrees).run(task)

    kept = str(task.facts["worktree_path"])
    assert Path(kept, "new.txt").read_text() == "new\n"
    told = str(raised.value) if isinstance(error, ClewError) else str(task.events)
    assert kept in told


async def test_work_is_kept_when_the_task_is_cancelled(
    repository: Path, worktrees: GitWorktrees
) -> None:
    started = anyio.Event()

    async def work(folder: Path) -> None:
        (folder / "new.txt").write_text("new\n")
        started.set()
        await anyio.sleep_forever()

    task = Task(repository)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(WorktreeRunner(Worker(work), worktrees).run, task)
            await started.wait()
            group.cancel_scope.cancel()

    kept = str(task.facts["worktree_path"])
    assert Path(kept, "new.txt").read_text() == "new\n"
    assert any(isinstance(event, Warned) and kept in event.text for event in task.events)


async def test_a_clean_worktree_is_removed_when_the_task_fails_or_is_cancelled(
    repository: Path, worktrees: GitWorktrees
) -> None:
    async def wait(folder: Path) -> None:
        group.cancel_scope.cancel()
        await anyio.sleep_forever()

    def fail(folder: Path) -> None:
        raise SessionError("it is full")

    with pytest.raises(SessionError):
        await WorktreeRunner(Worker(fail), worktrees).run(Task(repository))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(WorktreeRunner(Worker(wait), worktrees).run, Task(repository))

    assert leave_nothing(repository, worktrees)


async def test_a_task_without_isolation_runs_where_it_was_asked_to(
    repository: Path, worktrees: GitWorktrees
) -> None:
    task, worker = Task(repository), Worker(lambda folder: None)
    task.request = replace(task.request, isolation="none")

    result = await WorktreeRunner(worker, worktrees).run(task)

    assert worker.requests == [task.request]
    assert result == TaskResult(text="done")


@pytest.mark.req("HOK-1")
async def test_hooks_are_told_of_a_worktree_that_was_made_and_removed(
    repository: Path, worktrees: GitWorktrees
) -> None:
    hooks = Recorder(HookVerdict(messages=("noted",)))
    task = Task(repository)

    await WorktreeRunner(Worker(lambda folder: None), worktrees, hooks).run(task)

    (created, at_creation, existed), (removed, at_removal, exists) = hooks.fired
    assert (created, existed) == (HookEvent.WORKTREE_CREATE, True)
    assert (removed, exists) == (HookEvent.WORKTREE_REMOVE, False)
    assert at_creation == at_removal
    assert at_creation.cwd == str(repository)
    assert at_creation.session_id == "parent"
    assert at_creation.agent_id == "agent-1"
    assert at_creation.agent_type == "Explore"
    assert Warned("WorktreeCreate hook: noted") in task.events


async def test_a_kept_worktree_fires_no_removal(repository: Path, worktrees: GitWorktrees) -> None:
    hooks = Recorder()

    def work(folder: Path) -> None:
        (folder / "new.txt").write_text("new\n")

    await WorktreeRunner(Worker(work), worktrees, hooks).run(Task(repository))

    assert [event for event, _, _ in hooks.fired] == [HookEvent.WORKTREE_CREATE]


async def test_a_hook_can_refuse_a_worktree(repository: Path, worktrees: GitWorktrees) -> None:
    worker, hooks = Worker(lambda folder: None), Recorder(HookVerdict(block="the disk is full"))

    with pytest.raises(BackgroundTaskError, match="the disk is full") as raised:
        await WorktreeRunner(worker, worktrees, hooks).run(Task(repository))

    assert raised.value.category is TaskErrorCategory.PERMISSION
    assert worker.requests == []
    assert leave_nothing(repository, worktrees)


async def test_a_hook_can_make_the_worktree_itself(
    repository: Path, worktrees: GitWorktrees, tmp_path: Path
) -> None:
    own = tmp_path / "made-by-a-hook"
    git(repository, "worktree", "add", "-q", "-b", "feature", str(own))
    hooks = Recorder(HookVerdict(worktree_path=str(own)))

    def work(folder: Path) -> None:
        (folder / "new.txt").write_text("new\n")

    clean = await WorktreeRunner(Worker(lambda folder: None), worktrees, hooks).run(
        Task(repository)
    )
    dirty = await WorktreeRunner(Worker(work), worktrees, hooks).run(Task(repository))

    assert (clean.worktree_path, own.exists()) == ("", True)
    assert (dirty.worktree_path, dirty.branch_name) == (str(own), "feature")
    events = [event for event, _, _ in hooks.fired]
    assert events.count(HookEvent.WORKTREE_REMOVE) == 1
    assert not list(worktrees.folder.iterdir())


async def test_a_worktree_with_work_in_it_is_never_replaced(
    repository: Path, worktrees: GitWorktrees, tmp_path: Path
) -> None:
    async def restore(task_id: str, request: TaskRequest) -> Worktree:
        made = await worktrees.prepare(task_id, request)
        Path(made.path, "new.txt").write_text("from another machine\n")
        return made

    task, hooks = Task(repository), Recorder(HookVerdict(worktree_path=str(tmp_path)))
    runner = WorktreeRunner(Worker(lambda folder: None), worktrees, hooks, prepare=restore)
    result = await runner.run(task)

    assert Path(result.worktree_path, "new.txt").exists()
    assert "has work in it already" in str(task.events)


async def test_a_hook_that_prints_something_else_changes_nothing(
    repository: Path, worktrees: GitWorktrees
) -> None:
    hooks, task = Recorder(HookVerdict(worktree_path="created!")), Task(repository)

    await WorktreeRunner(Worker(lambda folder: None), worktrees, hooks).run(task)

    assert "created! is not the absolute path" in str(task.events)
    assert leave_nothing(repository, worktrees)


async def test_uncommitted_changes_of_the_parent_are_left_out_and_mentioned(
    repository: Path, worktrees: GitWorktrees
) -> None:
    (repository / "README.md").write_text("half done\n")
    (repository / "draft.txt").write_text("half done\n")
    worker = Worker(lambda folder: (folder / "new.txt").write_text("new\n"))

    result = await WorktreeRunner(worker, worktrees).run(Task(repository))

    assert not Path(result.worktree_path, "draft.txt").exists()
    for text in (worker.requests[0].prompt, result.text):
        assert f"without the 2 uncommitted changes in {repository}" in text


async def test_an_agent_is_told_where_it_works(repository: Path, worktrees: GitWorktrees) -> None:
    (repository / ".gitattributes").write_text("*.psd filter=lfs\n")
    commit_all(repository, "attributes")
    worker = Worker(lambda folder: None)

    await WorktreeRunner(worker, worktrees).run(Task(repository))

    prompt = worker.requests[0].prompt
    assert prompt.startswith("do it\n")
    assert worker.requests[0].cwd in prompt
    assert "Git LFS" in prompt


async def test_an_agent_continues_in_the_worktree_that_was_kept_for_it(
    repository: Path, worktrees: GitWorktrees
) -> None:
    hooks = Recorder()
    runner = WorktreeRunner(
        Worker(lambda folder: (folder / f"{len(list(folder.iterdir()))}.txt").write_text("new\n")),
        worktrees,
        hooks,
    )

    first = await runner.run(Task(repository))
    second = await runner.run(Task(repository))

    assert first.worktree_path == second.worktree_path
    assert "2 uncommitted changes" in second.text
    assert len(hooks.fired) == 1


@pytest.mark.req("BGT-4")
async def test_the_state_of_a_task_names_the_worktree_that_was_kept(
    repository: Path, worktrees: GitWorktrees
) -> None:
    def work(folder: Path) -> None:
        (folder / "new.txt").write_text("new\n")
        if folder.name.startswith("fails"):
            raise SessionError("it failed")

    manager = BackgroundTaskManager([WorktreeRunner(Worker(work), worktrees)])
    with anyio.fail_after(60):
        done = await manager.run(replace(Task(repository).request, task_id="works"))
        failed = await manager.run(replace(Task(repository).request, task_id="fails"))
        await manager.shutdown()

    for state in (done, failed):
        assert Path(state.worktree_path, "new.txt").exists()
        assert git(repository, "branch", "--list", state.branch_name)
    assert done.worktree_path in done.result
    assert failed.worktree_path in failed.error


@pytest.mark.parametrize("after_crash", [False, True])
async def test_a_task_continues_after_its_worktree_was_deleted_as_the_report_says(
    repository: Path, worktrees: GitWorktrees, *, after_crash: bool
) -> None:
    task = Task(repository)
    first = Worker(lambda folder: (folder / "new.txt").write_text("new\n"))
    result = await WorktreeRunner(first, worktrees).run(task)
    assert task.facts["cwd"] == str(repository)
    git(repository, "worktree", "remove", "--force", result.worktree_path)
    git(repository, "branch", "-D", result.branch_name)

    # A process that died had noted the folder in the worktree.
    known = first.requests[0].cwd if after_crash else str(task.facts["cwd"])
    task.request = replace(task.request, cwd=known)
    again = Worker(lambda folder: None)
    await WorktreeRunner(again, worktrees).run(task)

    assert again.requests[0].cwd != first.requests[0].cwd
    assert task.facts["cwd"] == str(repository)
