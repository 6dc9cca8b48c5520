import os
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError
from clew.runtime.worktree_records import find_user
from clew.runtime.worktree_runner import WorktreeRunner
from clew.runtime.worktrees import GitWorktrees
from tests.runtime.repositories import commit_all, git, make_repository
from tests.runtime.worktree_tasks import Task, Worker, leave_nothing

pytestmark = pytest.mark.anyio


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


@pytest.fixture
def worktrees(tmp_path: Path) -> GitWorktrees:
    return GitWorktrees(tmp_path / "home" / "worktrees")


async def test_a_task_in_a_subfolder_works_in_the_same_subfolder(
    repository: Path, worktrees: GitWorktrees
) -> None:
    (repository / "untracked").mkdir()

    for name in ("src/deep", "untracked"):
        worker = Worker(lambda folder: None)
        await WorktreeRunner(worker, worktrees).run(Task(repository / name))
        assert worker.requests[0].cwd.endswith(f"/{name}")

    assert leave_nothing(repository, worktrees)


async def test_a_detached_head_is_where_the_worktree_starts(
    repository: Path, worktrees: GitWorktrees
) -> None:
    commit_all(make_change(repository), "second")
    git(repository, "checkout", "-q", "--detach", "HEAD~1")
    worker = Worker(lambda folder: git(folder, "rev-parse", "HEAD"))

    await WorktreeRunner(worker, worktrees).run(Task(repository))

    assert git(repository, "branch", "--list", "clew/*") == ""


def make_change(repository: Path) -> Path:
    (repository / "README.md").write_text("a change\n")
    return repository


async def test_folders_that_can_have_no_worktree_are_refused(
    tmp_path: Path, repository: Path, worktrees: GitWorktrees
) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    expected = {
        tmp_path / "plain": "is in no git repository; run the agent without isolation",
        tmp_path / "empty": "has no commits yet",
        tmp_path / "bare.git": "is a bare git repository",
        repository / ".git": "is in git's own folder",
        tmp_path / "missing": "git cannot run in",
    }

    for folder, text in expected.items():
        with pytest.raises(BackgroundTaskError, match=text):
            await worktrees.prepare("agent-1", Task(folder).request)

    assert not worktrees.folder.exists()


async def test_worktrees_are_not_made_among_the_files_of_the_user(repository: Path) -> None:
    with pytest.raises(BackgroundTaskError, match=r"add it to \.gitignore"):
        await GitWorktrees(repository / "trees").prepare("agent-1", Task(repository).request)

    ignored = GitWorktrees(repository / "build" / "trees")
    worktree = await ignored.prepare("agent-1", Task(repository).request)

    assert git(repository, "status", "--porcelain") == ""
    await ignored.remove(worktree)


async def test_taken_names_are_passed_over_five_times(repository: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "agent-1-aaaaaaaa").mkdir(parents=True)
    git(repository, "branch", "clew/agent-1-bbbbbbbb")
    suffixes = iter(["aaaaaaaa", "bbbbbbbb", "cccccccc", *["aaaaaaaa"] * 5])
    worktrees = GitWorktrees(home, make_suffix=lambda: next(suffixes))

    made = await worktrees.prepare("agent-1", Task(repository).request)
    with pytest.raises(BackgroundTaskError, match="5 attempts"):
        await worktrees.prepare("agent 1", Task(repository).request)

    assert made.branch == "clew/agent-1-cccccccc"


@pytest.mark.parametrize("name", ["../../evil", "a b:c~^?*[", ".lock", "-x", "ä/ö.lock", ""])
async def test_any_task_id_makes_a_valid_name(
    repository: Path, worktrees: GitWorktrees, name: str
) -> None:
    made = await worktrees.prepare(name, Task(repository).request)

    assert Path(made.path).parent == worktrees.folder
    await worktrees.remove(made)
    assert leave_nothing(repository, worktrees)


async def test_nothing_of_the_repository_runs(
    repository: Path, worktrees: GitWorktrees, tmp_path: Path
) -> None:
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        (repository / ".git" / "hooks" / hook).write_text(trap.read_text())
        (repository / ".git" / "hooks" / hook).chmod(0o755)
    (repository / ".gitattributes").write_text("*.md filter=evil diff=evil\n")
    commit_all(repository, "attributes")
    settings = ("core.fsmonitor", "filter.evil.smudge", "filter.evil.clean", "filter.evil.process")
    for key in (*settings, "diff.external", "diff.evil.command", "core.sshCommand"):
        git(repository, "config", key, str(trap))
    git(repository, "config", "filter.evil.required", "true")
    (tmp_path / "sprung").unlink(missing_ok=True)
    (repository / "README.md").touch()

    def work(folder: Path) -> None:
        (folder / "README.md").write_text("changed\n")

    result = await WorktreeRunner(Worker(work), worktrees).run(Task(repository))
    await WorktreeRunner(Worker(lambda folder: None), worktrees).run(
        Task(repository, task_id="agent-2")
    )

    assert Path(result.worktree_path, "README.md").read_text() == "changed\n"
    assert not (tmp_path / "sprung").exists()


@pytest.mark.req("BGT-4")
async def test_no_filter_runs_that_only_the_settings_of_a_worktree_name(
    repository: Path, worktrees: GitWorktrees, tmp_path: Path
) -> None:
    sprung, attributes, settings = (tmp_path / name for name in ("sprung", "attributes", "evil"))
    attributes.write_text("* filter=evil\n")
    trap = f"touch {sprung}; cat"

    def set_trap(folder: Path) -> None:
        # For this worktree, and for the branches of those that come after it.
        git(folder, "config", "extensions.worktreeConfig", "true")
        git(folder, "config", "--worktree", "core.attributesFile", str(attributes))
        git(folder, "config", "--worktree", "filter.evil.clean", trap)
        git(folder, "config", "--file", str(settings), "core.attributesFile", str(attributes))
        git(folder, "config", "--file", str(settings), "filter.evil.smudge", trap)
        git(folder, "config", "includeIf.onbranch:clew/agent-2*.path", str(settings))
        os.utime(folder / "README.md", (1, 1))
        sprung.unlink(missing_ok=True)

    await WorktreeRunner(Worker(set_trap), worktrees).run(Task(repository))
    await WorktreeRunner(Worker(lambda folder: None), worktrees).run(
        Task(repository, task_id="agent-2")
    )

    assert not sprung.exists()
    assert leave_nothing(repository, worktrees)


async def test_a_worktree_that_changed_after_its_inspection_is_kept(
    repository: Path, worktrees: GitWorktrees
) -> None:
    made = await worktrees.prepare("agent-1", Task(repository).request)
    assert (await worktrees.inspect(made)).is_clean
    Path(made.path, "new.txt").write_text("late")

    with pytest.raises(BackgroundTaskError, match="has changed"):
        await worktrees.remove(made)

    assert Path(made.path, "new.txt").read_text() == "late"


async def test_git_variables_of_the_environment_do_not_count(
    repository: Path, worktrees: GitWorktrees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))

    made = await worktrees.prepare("agent-1", Task(repository).request)

    assert made.repository == str(repository / ".git")


@pytest.fixture
def with_submodule(repository: Path, tmp_path: Path) -> Path:
    library = make_repository(tmp_path / "library")
    git(repository, "submodule", "--quiet", "add", str(library), "lib")
    commit_all(repository, "submodule")
    return repository


async def test_submodules_are_left_out_and_mentioned(
    with_submodule: Path, worktrees: GitWorktrees
) -> None:
    worker = Worker(lambda folder: None)

    await WorktreeRunner(worker, worktrees).run(Task(with_submodule))

    assert "git submodule update --init" in worker.requests[0].prompt
    assert leave_nothing(with_submodule, worktrees)


async def test_a_submodule_that_was_checked_out_counts_as_work(
    with_submodule: Path, worktrees: GitWorktrees
) -> None:
    def work(folder: Path) -> None:
        git(folder, "submodule", "--quiet", "update", "--init")
        (folder / "lib" / "README.md").write_text("changed\n")

    result = await WorktreeRunner(Worker(work), worktrees).run(Task(with_submodule))

    assert Path(result.worktree_path, "lib", "README.md").read_text() == "changed\n"


async def test_a_sparse_checkout_stays_sparse(repository: Path, worktrees: GitWorktrees) -> None:
    git(repository, "sparse-checkout", "set", "src/deep")
    seen: list[bool] = []
    worker = Worker(lambda folder: seen.append((folder / "src" / "deep" / "data.bin").exists()))

    await WorktreeRunner(worker, worktrees).run(Task(repository))

    assert seen == [True]
    assert leave_nothing(repository, worktrees)


async def test_agents_that_start_at_once_get_worktrees_of_their_own(
    repository: Path, worktrees: GitWorktrees
) -> None:
    seen: list[Path] = []
    runner = WorktreeRunner(Worker(seen.append), worktrees)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(runner.run, Task(repository, task_id=f"agent-{number}"))

    assert len(set(seen)) == 4
    assert leave_nothing(repository, worktrees)


async def test_cancelling_the_creation_leaves_nothing(
    repository: Path, worktrees: GitWorktrees
) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await worktrees.prepare("agent-1", Task(repository).request)

    assert not worktrees.folder.exists() or leave_nothing(repository, worktrees)


def find_ended_process() -> int:
    """Return the id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(60)
    return process.pid


async def test_a_record_names_the_task_and_whether_its_process_lives(
    repository: Path, worktrees: GitWorktrees
) -> None:
    made = await worktrees.prepare("agent-1", Task(repository).request)
    (recorded,) = GitWorktrees(worktrees.folder).records.list()
    assert recorded == made
    assert find_user(recorded) == f"process {os.getpid()}"
    assert made.holder is not None

    dead = replace(made, holder=replace(made.holder, pid=find_ended_process()))
    boot = made.holder.machine.partition("/")[0]
    far = replace(made, holder=replace(made.holder, machine="far/1", host="far"))
    rebooted = replace(made, holder=replace(made.holder, machine="before/1"))
    in_container = replace(made, holder=replace(made.holder, machine=f"{boot}/1"))

    assert find_user(dead) == ""
    assert find_user(rebooted) == ""
    assert find_user(far) == f"process {os.getpid()} on far"
    # Its process may have the same id as this one.
    assert find_user(in_container) == f"process {os.getpid()} on {socket.gethostname()}"
    worktrees.records.save(in_container)
    assert worktrees.find_free("agent-1") is None
    worktrees.release(made)
    assert find_user(worktrees.records.list()[0]) == ""
