"""Work moves from one clone of a repository to another, through a store of blobs."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError
from clew.core.tasks import TaskErrorCategory
from clew.runtime.worktree_records import Worktree
from clew.runtime.worktree_snapshots import WorktreeSnapshots
from clew.runtime.worktrees import GitWorktrees
from tests.runtime.repositories import commit_all, git, make_repository, read_files
from tests.runtime.worktree_tasks import Task

pytestmark = [pytest.mark.anyio, pytest.mark.req("DST-2")]


class BlobStore:
    """Blobs in memory."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    async def put_blob(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.blobs[name] = data
        return name

    async def get_blob(self, name: str) -> bytes | None:
        return self.blobs.get(name)


class Machine:
    """A machine with a clone of the repository; all share the store."""

    def __init__(self, clone: Path, blobs: BlobStore, *, limit: int = 64_000_000) -> None:
        self.clone = clone
        self.worktrees = GitWorktrees(clone.parent / f"{clone.name}-worktrees")
        self.snapshots = WorktreeSnapshots(self.worktrees, blobs, limit=limit)

    async def start(self) -> Worktree:
        return await self.worktrees.prepare("agent-1", Task(self.clone).request)

    async def restore(self, name: str) -> Worktree:
        return await self.snapshots.restore(name, "agent-1", Task(self.clone).request)


class Setting:
    """An origin and two machines."""

    def __init__(self, folder: Path) -> None:
        self.origin = make_repository(folder / "origin")
        self.blobs = BlobStore()
        for name in ("first", "second"):
            git(folder, "clone", "-q", str(self.origin), name)
        self.first = Machine(folder / "first", self.blobs)
        self.second = Machine(folder / "second", self.blobs)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


def describe(worktree: Worktree) -> dict[str, object]:
    """Return everything of a worktree that must be the same on another machine."""
    path = Path(worktree.path)
    return {
        "files": read_files(path),
        "head": git(path, "rev-parse", "HEAD"),
        "status": git(path, "status", "--porcelain", "--untracked-files=all"),
        "staged": git(path, "diff", "--cached", "--raw", "--abbrev=40"),
        "on branch": git(path, "rev-parse", "--abbrev-ref", "HEAD") == worktree.branch,
    }


async def test_committed_staged_and_other_changes_move_to_another_machine(
    setting: Setting,
) -> None:
    worktree = await setting.first.start()
    path = Path(worktree.path)
    (path / "done.txt").write_text("done\n")
    commit_all(path, "finished part")
    (path / "README.md").write_text("staged\n")
    git(path, "add", "README.md")
    (path / "README.md").write_text("staged, then changed again\n")
    (path / "src" / "deep" / "data.bin").write_bytes(os.urandom(1000))
    (path / "src" / "main.py").unlink()
    (path / "run.sh").chmod(0o644)
    (path / "new program").write_text("#!/bin/sh\n")
    (path / "new program").chmod(0o755)
    (path / 'ü "quoted"\n\\name\t').write_text("odd name\n")
    (path / "link").unlink()
    (path / "link").symlink_to("src/deep")
    (path / "dangling").symlink_to("../nowhere")
    (path / "windows.txt").write_bytes(b"one\r\ntwo\r\n")
    before = describe(worktree)

    name = await setting.first.snapshots.save(worktree)
    restored = await setting.second.restore(name)

    assert describe(worktree) == before
    assert describe(restored) == before
    assert restored.base == worktree.base
    found = await setting.second.worktrees.inspect(restored)
    assert (found.commits, found.changes) == (1, 9)


async def test_a_snapshot_touches_neither_index_nor_head_nor_branches(setting: Setting) -> None:
    worktree = await setting.first.start()
    path = Path(worktree.path)
    (path / "new.txt").write_text("new\n")
    index = Path(worktree.git_dir, "index")
    before = (index.read_bytes(), index.stat().st_mtime_ns, git(path, "for-each-ref", "refs/heads"))

    await setting.first.snapshots.save(worktree)

    after = (index.read_bytes(), index.stat().st_mtime_ns, git(path, "for-each-ref", "refs/heads"))
    assert after == before
    assert git(path, "for-each-ref", "--format=%(refname)", "refs/clew") == "refs/clew/agent-1"


async def test_ignored_files_stay_where_they_are(setting: Setting) -> None:
    worktree = await setting.first.start()
    Path(worktree.path, "big.log").write_text("not for others\n")
    Path(worktree.path, "new.txt").write_text("new\n")

    restored = await setting.second.restore(await setting.first.snapshots.save(worktree))

    assert not Path(restored.path, "big.log").exists()
    assert Path(restored.path, "new.txt").exists()


async def test_each_snapshot_stores_only_what_is_new(setting: Setting) -> None:
    worktree = await setting.first.start()
    path = Path(worktree.path)
    (path / "large.bin").write_bytes(os.urandom(200_000))
    first = await setting.first.snapshots.save(worktree)
    known = set(setting.blobs.blobs)
    (path / "small.txt").write_text("small\n")
    second = await setting.first.snapshots.save(worktree, first)

    added = [len(data) for name, data in setting.blobs.blobs.items() if name not in known]
    assert sum(added) < 5_000
    assert describe(await setting.second.restore(second)) == describe(worktree)


async def test_a_long_chain_starts_anew_and_restores(setting: Setting) -> None:
    worktree = await setting.first.start()
    name = ""
    for turn in range(17):
        Path(worktree.path, "log.txt").write_text(f"turn {turn}\n")
        name = await setting.first.snapshots.save(worktree, name)

    assert describe(await setting.second.restore(name)) == describe(worktree)


async def test_the_same_state_has_the_same_name(setting: Setting) -> None:
    worktree = await setting.first.start()
    Path(worktree.path, "new.txt").write_text("new\n")

    first = await setting.first.snapshots.save(worktree)
    assert await setting.first.snapshots.save(worktree, first) == first
    git(setting.first.clone, "gc", "-q")
    again = await setting.first.snapshots.save(worktree)

    assert again == first


async def test_work_goes_back_and_forth(setting: Setting) -> None:
    worktree = await setting.first.start()
    Path(worktree.path, "new.txt").write_text("first\n")
    name = await setting.first.snapshots.save(worktree)
    moved = await setting.second.restore(name)
    Path(moved.path, "new.txt").write_text("second\n")
    commit_all(Path(moved.path), "on the second machine")
    Path(moved.path, "more.txt").write_text("more\n")
    name = await setting.second.snapshots.save(moved, name)

    back = await setting.first.restore(name)

    assert describe(back) == describe(moved)
    # What the first machine had is still there.
    assert back.path != worktree.path
    assert Path(worktree.path, "new.txt").read_text() == "first\n"


async def test_changes_after_the_last_snapshot_survive_on_the_same_machine(
    setting: Setting,
) -> None:
    worktree = await setting.first.start()
    Path(worktree.path, "new.txt").write_text("saved\n")
    name = await setting.first.snapshots.save(worktree)
    Path(worktree.path, "new.txt").write_text("not saved\n")
    setting.first.worktrees.release(worktree)

    restored = await setting.first.restore(name)

    assert restored.path == worktree.path
    assert Path(restored.path, "new.txt").read_text() == "not saved\n"


async def test_commits_that_were_never_pushed_move_too(setting: Setting) -> None:
    clone = setting.first.clone
    (clone / "local.txt").write_text("not pushed\n")
    commit_all(clone, "local")
    worktree = await setting.first.start()
    Path(worktree.path, "new.txt").write_text("new\n")

    restored = await setting.second.restore(await setting.first.snapshots.save(worktree))

    assert describe(restored) == describe(worktree)


async def test_a_clone_without_the_base_is_told_to_fetch(setting: Setting) -> None:
    (setting.origin / "later.txt").write_text("later\n")
    commit_all(setting.origin, "later")
    git(setting.first.clone, "pull", "-q")
    worktree = await setting.first.start()
    Path(worktree.path, "new.txt").write_text("new\n")
    name = await setting.first.snapshots.save(worktree)

    with pytest.raises(BackgroundTaskError, match="run `git fetch` there"):
        await setting.second.restore(name)
    git(setting.second.clone, "fetch", "-q")

    assert describe(await setting.second.restore(name)) == describe(worktree)


async def test_a_detached_head_and_a_merge_keep_their_files(setting: Setting) -> None:
    worktree = await setting.first.start()
    path = Path(worktree.path)
    (path / "README.md").write_text("ours\n")
    commit_all(path, "ours")
    git(path, "checkout", "-q", "--detach", "HEAD~1")
    (path / "README.md").write_text("theirs\n")
    commit_all(path, "theirs")
    with suppress(AssertionError):
        git(path, "merge", worktree.branch)

    restored = await setting.second.restore(await setting.first.snapshots.save(worktree))

    assert "<<<<<<<" in Path(restored.path, "README.md").read_text()
    assert git(Path(restored.path), "rev-parse", "HEAD") == git(path, "rev-parse", "HEAD")
    branch = git(path, "rev-parse", worktree.branch)
    assert git(Path(restored.path), "rev-parse", restored.branch) == branch


async def test_repositories_inside_of_the_worktree_are_left_out(setting: Setting) -> None:
    worktree = await setting.first.start()
    make_repository(Path(worktree.path, "nested"))
    Path(worktree.path, "new.txt").write_text("new\n")

    name = await setting.first.snapshots.save(worktree)

    assert b'"left_out":["nested/"]' in setting.blobs.blobs[name]
    assert Path((await setting.second.restore(name)).path, "new.txt").exists()


async def test_line_endings_and_filters_do_not_change_a_byte(setting: Setting) -> None:
    (setting.origin / ".gitattributes").write_text("*.txt text eol=crlf\n*.bin filter=evil\n")
    commit_all(setting.origin, "attributes")
    for machine in (setting.first, setting.second):
        git(machine.clone, "pull", "-q")
        git(machine.clone, "config", "filter.evil.clean", "touch /tmp/clew-evil; cat")
        git(machine.clone, "config", "core.autocrlf", "true")
    worktree = await setting.first.start()
    contents = {"unix.txt": b"a\nb\n", "windows.txt": b"a\r\nb\r\n", "x.bin": b"\r\n\0\n"}
    for name, data in contents.items():
        Path(worktree.path, name).write_bytes(data)

    restored = await setting.second.restore(await setting.first.snapshots.save(worktree))

    for name, data in contents.items():
        assert Path(restored.path, name).read_bytes() == data
    assert not Path("/tmp/clew-evil").exists()


async def test_too_much_work_is_refused_with_the_largest_file(setting: Setting) -> None:
    small = Machine(setting.first.clone, setting.blobs, limit=10_000)
    worktree = await small.start()
    Path(worktree.path, "huge.bin").write_bytes(os.urandom(20_000))

    with pytest.raises(BackgroundTaskError, match=r"the largest is huge\.bin") as raised:
        await small.snapshots.save(worktree)
    commit_all(Path(worktree.path), "huge")
    with pytest.raises(BackgroundTaskError, match="push the commits"):
        await small.snapshots.save(worktree)

    assert raised.value.category is TaskErrorCategory.CAPACITY


async def test_lost_and_damaged_snapshots_are_errors(setting: Setting) -> None:
    worktree = await setting.first.start()
    Path(worktree.path, "new.txt").write_text("new\n")
    name = await setting.first.snapshots.save(worktree)
    (bundle,) = set(setting.blobs.blobs) - {name}

    with pytest.raises(BackgroundTaskError, match="is not in the store"):
        await setting.second.restore("0" * 64)
    data = setting.blobs.blobs.pop(bundle)
    with pytest.raises(BackgroundTaskError, match="is not in the store"):
        await setting.second.restore(name)
    setting.blobs.blobs[bundle] = data[:-30]
    with pytest.raises(BackgroundTaskError):
        await setting.second.restore(name)

    assert setting.second.worktrees.records.list() == []


async def test_a_worktree_that_another_process_uses_is_not_touched(setting: Setting) -> None:
    worktree = await setting.first.start()
    assert worktree.holder is not None
    Path(worktree.path, "new.txt").write_text("new\n")
    name = await setting.first.snapshots.save(worktree)
    other = replace(worktree.holder, pid=1, started="")
    setting.first.worktrees.records.save(replace(worktree, holder=other))

    restored = await setting.first.restore(name)

    assert restored.path != worktree.path
    assert describe(restored)["files"] == describe(worktree)["files"]


NAMES = st.sampled_from(
    ["README.md", "src", "src/main.py", "src/deep/data.bin", "link", "new", "new/x"]
)
WRITE = st.tuples(st.just("write"), NAMES, st.binary(max_size=30))
OTHER = st.tuples(
    st.sampled_from(["delete", "folder", "link", "program", "stage", "commit", "save"]),
    NAMES,
    st.just(b""),
)


def apply_step(folder: Path, what: str, name: str, data: bytes) -> None:
    """Carry out one step of a random agent; what is not possible is left out."""
    path = folder / name
    actions: dict[str, Callable[[], object]] = {
        "write": lambda: path.write_bytes(data),
        "folder": path.mkdir,
        "delete": path.unlink,
        "link": lambda: path.symlink_to("somewhere"),
        "program": lambda: path.chmod(0o755),
        "stage": lambda: git(folder, "add", "-A"),
        "commit": lambda: commit_all(folder, "work"),
    }
    with suppress(OSError, AssertionError):
        actions[what]()


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(WRITE | OTHER, max_size=8))
async def test_any_work_is_the_same_on_another_machine(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, bytes]]
) -> None:
    setting = Setting(tmp_path_factory.mktemp("random"))
    worktree = await setting.first.start()
    name = ""
    for what, path, data in steps:
        if what == "save":
            name = await setting.first.snapshots.save(worktree, name)
        else:
            apply_step(Path(worktree.path), what, path, data)

    name = await setting.first.snapshots.save(worktree, name)

    assert describe(await setting.second.restore(name)) == describe(worktree)
