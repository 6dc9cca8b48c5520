"""Conformance checks for the blobs of task stores: run them on a store of your own.

@pytest.mark.anyio
@pytest.mark.parametrize("check", BLOB_CHECKS)
async def test_my_task_store_keeps_blobs(check):
    await check(MyTaskStore())
"""

from hashlib import sha256

import msgspec
from msgspec.structs import replace

from clew.stores.task_protocol import TaskStore
from clew.stores.worktree_snapshot import WorktreeSnapshot
from clew.testing.tasks import TaskStoreCheck, a_task


async def keeps_blobs(tasks: TaskStore) -> None:
    """A blob is named by its content, so the same bytes have one name."""
    name = await tasks.put_blob(bytes(range(256)))

    assert name == await tasks.put_blob(bytes(range(256))) != await tasks.put_blob(b"")
    assert await tasks.get_blob(name) == bytes(range(256))
    assert await tasks.get_blob("none") is None


async def deletes_snapshots(tasks: TaskStore) -> None:
    """A snapshot goes with the blobs that only it names, unless a task has it."""
    first = await a_snapshot(tasks, b"one", b"both")
    second = await a_snapshot(tasks, b"both", b"two")
    await tasks.save_task(replace(a_task("1"), snapshot=first))

    await tasks.delete_snapshot(first, keep=second)
    assert await list_blobs(tasks, b"one", b"both", b"two") == [True, True, True]

    await tasks.save_task(replace(a_task("1"), snapshot=second))
    await tasks.delete_snapshot(first, keep=second)
    assert await tasks.get_blob(first) is None
    assert await list_blobs(tasks, b"one", b"both", b"two") == [False, True, True]

    await tasks.delete_task("1")
    assert await tasks.get_blob(second) is None
    assert await list_blobs(tasks, b"one", b"both", b"two") == [False, False, False]
    await tasks.delete_snapshot("gone")


async def finds_unused_blobs(tasks: TaskStore) -> None:
    """Blobs that no snapshot of a task has are found and deleted, if they are not new."""
    name = await a_snapshot(tasks, b"used")
    await tasks.save_task(replace(a_task("1"), snapshot=name))
    left = await a_snapshot(tasks, b"unused")

    assert await tasks.find_unused_blobs() == []
    found = await tasks.find_unused_blobs(older_than=-3_600.0)
    assert {(blob.name, blob.size) for blob in found} == {
        (left, len(await tasks.get_blob(left) or b"")),
        (sha256(b"unused").hexdigest(), len(b"unused")),
    }
    assert await tasks.find_unused_blobs(older_than=3_600.0, delete=True) == []
    assert await tasks.find_unused_blobs(older_than=-3_600.0, delete=True) == found
    assert await tasks.find_unused_blobs(older_than=-3_600.0) == []
    assert await list_blobs(tasks, b"used", b"unused") == [True, False]
    assert await tasks.get_blob(name) is not None


async def a_snapshot(tasks: TaskStore, *bundles: bytes) -> str:
    """Store a snapshot that consists of these blobs."""
    names = tuple([await tasks.put_blob(data) for data in bundles])
    made = WorktreeSnapshot(commit="c", head="h", branch="b", base="a", bundles=names)
    return await tasks.put_blob(msgspec.json.encode(made))


async def list_blobs(tasks: TaskStore, *data: bytes) -> list[bool]:
    """Return which of these blobs are stored."""
    return [await tasks.get_blob(sha256(one).hexdigest()) is not None for one in data]


BLOB_CHECKS: tuple[TaskStoreCheck, ...] = (keeps_blobs, deletes_snapshots, finds_unused_blobs)
