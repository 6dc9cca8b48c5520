"""`clew doctor` after agents in worktrees were killed: nothing is unknown, no work is removed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from msgspec.structs import replace

from clew.cli.main import main
from clew.core.tasks import TaskKind
from clew.runtime.protocol import TaskRequest
from clew.runtime.worktree_records import Worktree
from clew.runtime.worktrees import GitWorktrees
from clew.sdk.folders import Homes
from clew.stores.sqlite import SqliteStore
from clew.stores.task_protocol import TaskStore
from clew.testing.task_blobs import a_snapshot, list_blobs
from clew.testing.tasks import a_task
from tests.runtime.repositories import commit_all, git, make_repository

pytestmark = pytest.mark.req("BGT-4")

T = TypeVar("T")

AGENT = """
import os, signal, sys
from pathlib import Path
import anyio
from clew.core.tasks import TaskKind
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.protocol import TaskRequest
from clew.runtime.worktree_runner import WorktreeRunner
from clew.runtime.worktrees import GitWorktrees

class Agent:
    kind = TaskKind.AGENT
    async def run(self, task):
        if sys.argv[3] == "works":
            Path(task.request.cwd, "new.txt").write_text("new")
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    manager = BackgroundTaskManager([WorktreeRunner(Agent(), GitWorktrees(Path(sys.argv[2])))])
    await manager.run(TaskRequest(
        kind=TaskKind.AGENT, prompt="rewrite it", cwd=sys.argv[1], isolation="worktree",
        task_id=f"agent-{sys.argv[3]}",
    ))

anyio.run(main)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_repository(tmp_path / "project")
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def worktrees(project: Path) -> GitWorktrees:
    return GitWorktrees(Homes.of(os.environ).project(project) / "worktrees")


def kill_an_agent(project: Path, worktrees: GitWorktrees, kind: str) -> Worktree:
    """Start an agent in a process that is killed while the agent works."""
    done = subprocess.run(
        [sys.executable, "-c", AGENT, str(project), str(worktrees.folder), kind],
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL
    found = worktrees.records.find(f"agent-{kind}")
    assert found is not None
    return found


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def run(*flags: str) -> list[str]:
        main(["doctor", *flags])
        return [
            line for line in capsys.readouterr().out.splitlines() if line.split()[1] == "worktrees"
        ]

    return run


def test_a_killed_agent_is_listed_and_its_work_is_never_removed(
    project: Path, worktrees: GitWorktrees, doctor: Callable[..., list[str]]
) -> None:
    idle = kill_an_agent(project, worktrees, "idles")
    busy = kill_an_agent(project, worktrees, "works")

    first, second = doctor()
    assert f"{idle.path}: no changes; agent-idles (rewrite it)" in first
    assert first.endswith("ended → clew doctor --clean-worktrees")
    assert f"{busy.path}: 1 uncommitted change; agent-works" in second
    assert f"git -C {busy.path} status" in second

    removed, kept = doctor("--clean-worktrees")
    assert f"removed {idle.path} with its branch {idle.branch}" in removed
    assert busy.path in kept
    assert Path(busy.path, "new.txt").read_text() == "new"
    assert git(project, "branch", "--list", "clew/*").split() == ["+", busy.branch]


def test_snapshots_that_no_agent_has_are_listed_and_removed(
    project: Path, doctor: Callable[..., list[str]]
) -> None:
    path = Homes.of(os.environ).project(project) / "sessions.db"

    async def use(at: float, work: Callable[[TaskStore], Awaitable[T]]) -> T:
        store = SqliteStore(path, clock=lambda: at)
        try:
            return await work(store.tasks)
        finally:
            await store.aclose()

    async def leave(tasks: TaskStore) -> None:
        await a_snapshot(tasks, b"of a worker that died")
        used = await a_snapshot(tasks, b"of an agent")
        await tasks.save_task(replace(a_task("agent-1"), snapshot=used))

    async def prepare(tasks: TaskStore) -> None:
        await a_snapshot(tasks, b"of a worker that is about to name it")

    async def look(tasks: TaskStore) -> list[bool]:
        names = (b"of a worker that died", b"of an agent", b"of a worker that is about to name it")
        return await list_blobs(tasks, *names)

    anyio.run(use, 1_000.0, leave)
    anyio.run(use, time.time(), prepare)

    [listed] = doctor()
    [removed] = doctor("--clean-worktrees")
    [nothing] = doctor("--clean-worktrees")

    assert "the store has 2 parts (0.0 MB) of snapshots that no agent has" in listed
    assert listed.endswith("→ clew doctor --clean-worktrees")
    assert "removed 2 parts" in removed
    assert "there is nothing to remove" in nothing
    assert anyio.run(use, time.time(), look) == [False, True, True]


def test_merged_work_can_be_cleaned_up(
    project: Path, worktrees: GitWorktrees, doctor: Callable[..., list[str]]
) -> None:
    left = kill_an_agent(project, worktrees, "works")
    commit_all(Path(left.path), "work of the agent")
    assert "1 commit;" in doctor("--clean-worktrees")[0]
    git(project, "merge", "-q", left.branch)

    doctor("--clean-worktrees")

    assert (project / "new.txt").read_text() == "new"
    assert not Path(left.path).exists()
    assert git(project, "branch", "--list", "clew/*") == ""
    assert doctor() == []


def test_commits_that_only_another_agent_has_are_not_merged(
    project: Path, worktrees: GitWorktrees, doctor: Callable[..., list[str]]
) -> None:
    first = kill_an_agent(project, worktrees, "works")
    commit_all(Path(first.path), "work of the agent")
    second = kill_an_agent(project, worktrees, "idles")
    git(Path(second.path), "merge", "-q", first.branch)

    for line in doctor("--clean-worktrees")[:2]:
        assert ": 1 commit;" in line

    assert Path(first.path).exists()
    assert Path(second.path).exists()


def test_a_folder_that_the_user_removed_leaves_its_branch(
    project: Path, worktrees: GitWorktrees, doctor: Callable[..., list[str]]
) -> None:
    left = kill_an_agent(project, worktrees, "works")
    commit_all(Path(left.path), "work of the agent")
    git(project, "worktree", "remove", left.path)

    (line,) = doctor()
    assert "its folder is gone, 1 commit" in line
    assert f"git merge {left.branch}" in line
    git(project, "branch", "-D", left.branch)

    assert "removed" in doctor("--clean-worktrees")[0]
    assert list(worktrees.folder.iterdir()) == []


def test_worktrees_of_the_user_on_a_disk_that_is_not_mounted_are_kept(
    project: Path, worktrees: GitWorktrees, doctor: Callable[..., list[str]], tmp_path: Path
) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "disk" / "mine"))
    (tmp_path / "disk").rename(tmp_path / "not mounted")
    left = kill_an_agent(project, worktrees, "works")
    shutil.rmtree(left.path)

    assert "removed" in doctor("--clean-worktrees")[0]

    listed = git(project, "worktree", "list")
    assert str(tmp_path / "disk" / "mine") in listed
    assert left.path not in listed
    assert git(project, "branch", "--list", "clew/*") == ""


def test_a_worktree_in_use_is_left_alone(
    project: Path, worktrees: GitWorktrees, doctor: Callable[..., list[str]]
) -> None:
    request = TaskRequest(kind=TaskKind.AGENT, prompt="write", cwd=str(project))
    used = anyio.run(worktrees.prepare, "agent-1", request)

    for flags in ((), ("--clean-worktrees",)):
        assert f"in use by process {os.getpid()}" in doctor(*flags)[0]
    assert Path(used.path).exists()


def test_a_project_without_worktrees_has_nothing_to_remove(
    project: Path, doctor: Callable[..., list[str]]
) -> None:
    assert doctor() == []
    assert "nothing to remove" in doctor("--clean-worktrees")[0]
