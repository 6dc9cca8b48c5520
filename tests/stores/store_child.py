"""A process that uses a store, to be raced against, killed and watched.

python -m tests.stores.store_child PLACE hold|race|write|begin|race_tasks|work
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from clew.core.entries import Entry, MessageAdded, SessionRecord
from clew.core.errors import SessionBusy, SessionError
from clew.core.ids import EntryId, SessionId
from clew.core.messages import user
from clew.stores import open_store
from clew.stores.protocol import Store
from clew.testing.shared_tasks import task_store_of
from clew.testing.tasks import YES, a_schedule

ROOT = Path(__file__).parent.parent.parent
RACED = 8
"""How many tasks processes race for."""
SHARED = SessionId("shared")
RECORD = SessionRecord(id=SHARED, cwd="/work", created_at=1.0, updated_at=1.0)


def entry(number: int, text: str = "hello") -> Entry:
    return Entry(id=EntryId(number), at=1.0, body=MessageAdded(message=user(text)))


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def hold(store: Store) -> None:
    """Take the lease and keep it until standard input ends."""
    await store.lease(SHARED)
    say("held")
    sys.stdin.read()


async def race(store: Store) -> None:
    """Get ready, wait for the signal, try for the lease, and keep it if it is won."""
    await store.sessions()
    say("ready")
    sys.stdin.readline()
    try:
        await store.lease(SHARED)
    except SessionBusy:
        say("lost")
    else:
        say("won")
    sys.stdin.read()


async def write(store: Store) -> None:
    """Append entries for ever, and name each one that is stored."""
    await store.lease(SHARED)
    number = len((await store.load(SHARED))[1])
    while True:
        number += 1
        await store.append(SHARED, [entry(number, f"word{number} " * (1 + number % 400))])
        say(number)


async def begin(store: Store) -> None:
    """Get ready, wait for the signal, then open a store that may need to be made or migrated."""
    say("ready")
    sys.stdin.readline()
    say(len(await store.sessions()))


async def race_tasks(store: Store) -> None:
    """Get ready, wait for the signal, try to get every task, question and schedule."""
    tasks = task_store_of(store)
    rows = await tasks.tasks()
    won: dict[str, list[str]] = {"claimed": [], "answered": [], "fired": []}
    say("ready")
    sys.stdin.readline()
    for row in rows:
        task_id = row.state.task_id
        if await tasks.claim(task_id, "racer", epoch=row.epoch) is not None:
            won["claimed"].append(task_id)
        try:
            await tasks.answer(task_id, task_id, YES)
            won["answered"].append(task_id)
        except SessionError:
            pass
        if await tasks.claim_schedule(a_schedule(task_id), next_at=99.0, task_id="t"):
            won["fired"].append(task_id)
    say(json.dumps(won))


async def work(store: Store) -> None:
    """Claim a task, lease its session, wait for the signal, and try to write to both."""
    tasks = task_store_of(store)
    row = await tasks.claim(SHARED, "old")
    assert row is not None
    await store.lease(SHARED, silent_after=0.5)
    say("working")
    sys.stdin.readline()
    for name, write in (
        ("append", store.append(SHARED, [entry(2, "of the old worker")])),
        ("save_task", tasks.save_task(row, epoch=row.epoch)),
    ):
        try:
            await write
            say(f"{name}: written")
        except SessionBusy as error:
            say(f"{name}: {type(error).__name__}")
    sys.stdin.read()


@contextmanager
def child(place: str, action: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a process on the same store; killed at the end if it is still there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.stores.store_child", place, action],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


ACTIONS = {
    "hold": hold,
    "race": race,
    "write": write,
    "begin": begin,
    "race_tasks": race_tasks,
    "work": work,
}


async def main(place: str, action: str) -> None:
    await ACTIONS[action](open_store(place))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
