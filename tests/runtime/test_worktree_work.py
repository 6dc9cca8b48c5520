from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.runtime.worktree_runner import WorktreeRunner
from clew.runtime.worktrees import GitWorktrees
from tests.runtime.repositories import commit_all, git, make_repository, read_files
from tests.runtime.worktree_tasks import Task, Worker

pytestmark = pytest.mark.anyio


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project")


@pytest.fixture
def worktrees(tmp_path: Path) -> GitWorktrees:
    return GitWorktrees(tmp_path / "home" / "worktrees")


def _hide(flag: str) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        git(folder, "update-index", flag, "README.md")
        (folder / "README.md").write_text("changed\n")

    return work


def change(folder: Path) -> Path:
    (folder / "README.md").write_text("a change\n")
    return folder


def _commit_detached(folder: Path) -> None:
    git(folder, "checkout", "-q", "--detach")
    commit_all(change(folder), "detached")


def _commit_and_leave(folder: Path) -> None:
    commit_all(change(folder), "on the branch")
    git(folder, "checkout", "-q", "--detach", "HEAD~1")


def _start_a_bisection(folder: Path) -> None:
    git(folder, "bisect", "start")


def _nest_a_repository(folder: Path) -> None:
    make_repository(folder / "nested")


def _replace_the_git_file(folder: Path) -> None:
    (folder / "new.txt").write_text("new\n")
    (folder / ".git").unlink()
    git(folder, "init", "-q")
    commit_all(folder, "hides everything")


@pytest.mark.parametrize(
    "work",
    [
        _hide("--assume-unchanged"),
        _hide("--skip-worktree"),
        _commit_detached,
        _commit_and_leave,
        _start_a_bisection,
        _nest_a_repository,
        _replace_the_git_file,
    ],
)
async def test_work_that_git_status_does_not_show_is_kept(
    repository: Path, worktrees: GitWorktrees, work: Callable[[Path], None]
) -> None:
    result = await WorktreeRunner(Worker(work), worktrees).run(Task(repository))

    assert result.worktree_path
    assert Path(result.worktree_path).is_dir()


async def test_a_worktree_that_cannot_be_inspected_is_kept(
    repository: Path, worktrees: GitWorktrees
) -> None:
    def work(folder: Path) -> None:
        index = git(folder, "rev-parse", "--path-format=absolute", "--git-path", "index")
        Path(index).write_bytes(b"damaged")

    result = await WorktreeRunner(Worker(work), worktrees).run(Task(repository))

    assert Path(result.worktree_path).is_dir()
    assert "it cannot be inspected" in result.text


COMMANDS = {
    "stage": ("add", "-A"),
    "commit": ("commit", "-q", "-a", "-m", "work"),
    "stash": ("stash", "-u", "-q"),
    "reset": ("reset", "-q", "--hard", "HEAD"),
    "branch": ("checkout", "-q", "-b", "own"),
    "detach": ("checkout", "-q", "--detach"),
    "back": ("checkout", "-q", "main~0"),
}
NAMES = st.sampled_from(
    ["README.md", "src/main.py", "new.txt", "src", "src/deep/data.bin", "a b", "ü\n", "x.log"]
)
STEPS = st.one_of(
    st.tuples(st.just("write"), NAMES, st.binary(max_size=20)),
    st.tuples(st.just("delete"), NAMES, st.just(b"")),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.sampled_from(sorted(COMMANDS)), st.just(""), st.just(b"")),
)


def apply_step(folder: Path, step: tuple[str, str, bytes | str]) -> None:
    """Carry out one step of a random agent; what is not possible is left out."""
    what, name, other = step
    path = folder / name
    with suppress(OSError, AssertionError):
        match what:
            case "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(other if isinstance(other, bytes) else b"")
            case "delete":
                path.unlink()
            case "rename":
                path.rename(folder / str(other))
            case _:
                git(folder, *COMMANDS[what])


def iter_work(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files that git would keep, with their content."""
    listed = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    files = read_files(folder)
    for name in listed.split("\0"):
        if name in files:
            yield name, files[name][1]


@pytest.mark.req("BGT-4")
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, max_size=6))
async def test_no_byte_of_work_is_ever_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, bytes | str]]
) -> None:
    home = tmp_path_factory.mktemp("random")
    repository = make_repository(home / "project")
    worktrees = GitWorktrees(home / "worktrees")
    work: dict[str, bytes] = {}
    tips: set[str] = set()

    def act(folder: Path) -> None:
        for step in steps:
            apply_step(folder, step)
        work.update(iter_work(folder))
        tips.add(git(folder, "rev-parse", "HEAD"))

    result = await WorktreeRunner(Worker(act), worktrees).run(Task(repository))

    base = dict(iter_work(repository))
    if result.worktree_path:
        assert dict(iter_work(Path(result.worktree_path))) == work
    else:
        assert work == base
    reachable = git(repository, "rev-list", "--all").splitlines()
    heads = git(repository, "worktree", "list", "--porcelain")
    assert all(tip in reachable or tip in heads for tip in tips)
