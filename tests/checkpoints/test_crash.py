"""A process killed at any moment leaves files that can be brought back to any turn.

The tests start one process that forks a worker for each kill: the worker keeps, tears and
restores files until SIGKILL ends it, and another one looks at what it left.
"""

import os
import random
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import anyio
import pytest

from clew import Session
from clew.checkpoints.file_checkpoints import FileCheckpoints
from clew.context.render import find_problems
from clew.core.ids import EntryId, SessionId
from clew.core.permissions import PermissionMode
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply
from clew.session.gate import Gate
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools

IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
MOMENTS = frozenset(
    ["open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.symlink"]
)
"""What the interpreter tells of before it is done; a worker can be ended at each of them."""
NAMES = ["a", "b", "d/x", "d/e/y", "l"]
Tree = dict[str, tuple[str, object]]
Expected = dict[int, Tree]


@pytest.mark.req("CKP-1", "STO-2")
@pytest.mark.parametrize("what", ["moments", "times", "sessions"])
def test_any_turn_can_be_restored_after_a_kill(what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.checkpoints.test_crash", what],
        cwd=Path(__file__).parents[2],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)  # noqa: T201 - the counts, for whoever wants to see them
    kills = int(done.stdout.split()[0])
    assert kills >= {"moments": 100, "times": 40, "sessions": 12}[what]


def tree(root: Path) -> Tree:
    """Return all that is in a folder, but for what a broken-off write left beside its file."""
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        facts = path.lstat()
        shown = str(path.relative_to(root))
        if path.name.startswith(".clew-") and path.name.endswith(".tmp"):
            continue
        if stat.S_ISLNK(facts.st_mode):
            found[shown] = ("link", str(path.readlink()))
        elif stat.S_ISDIR(facts.st_mode):
            found[shown] = ("folder", stat.S_IMODE(facts.st_mode))
        else:
            found[shown] = ("file", (stat.S_IMODE(facts.st_mode), path.read_bytes()))
    return found


def change(root: Path, name: str, dice: random.Random) -> None:
    """Change a file as carelessly as a tool can: a kill may leave half of it."""
    path = root / name
    kind = dice.choice(["write", "write", "delete", "chmod", "link"])
    if kind == "write" and not path.is_symlink():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            stream.write(dice.randbytes(5_000))
            stream.flush()
            stream.write(dice.randbytes(5_000))
    elif kind == "delete":
        path.unlink(missing_ok=True)
    elif kind == "chmod" and path.is_file():
        path.chmod(dice.choice([0o600, 0o644, 0o755]))
    elif kind == "link" and path.parent.is_dir():
        path.unlink(missing_ok=True)
        path.symlink_to("elsewhere")


def live(base: Path, seed: int) -> Expected:
    """Run turns and restores; return what the folder was before each of them."""
    dice = random.Random(seed)
    root = base / "project"
    root.mkdir(parents=True)
    keeper = FileCheckpoints(base / "kept", SessionId("s"), root=root)
    before: Expected = {}
    for entry in range(10, 120, 10):
        before[entry] = tree(root)
        if dice.random() < 0.25 and len(before) > 1:
            back = dice.choice([old for old in before if old < entry])
            keeper.restore(keeper.since(EntryId(back)), entry=EntryId(entry))
            assert tree(root) == before[back]
            continue
        keeper.begin(EntryId(entry), "go")
        for _ in range(dice.randint(0, 4)):
            name = dice.choice(NAMES)
            keeper.keep(root / name)
            change(root, name, dice)
        keeper.seal(EntryId(entry + 5))
    return before


def examine(base: Path, expected: Expected, dice: random.Random) -> None:
    """Restore what a killed worker left: to its last turn, to another one, and back again."""
    root = base / "project"
    keeper = FileCheckpoints(base / "kept", SessionId("s"), root=root)
    entries = [one.entry for one in keeper.summaries()]
    found = tree(root)
    for number, entry in enumerate([*entries[-1:], *dice.sample(entries, min(2, len(entries)))]):
        told_by = EntryId(1_000 + number * 10)
        done = keeper.restore(keeper.since(entry), entry=told_by)
        assert done.skipped == (), done
        assert tree(root) == expected[entry], (entry, entries)
        if number == 0:
            keeper.restore(keeper.of_rewind(told_by), entry=EntryId(told_by + 5))
            assert tree(root) == found


def forked(work: Callable[[], object]) -> int:
    """Do work in a process of its own; return its number."""
    worker = os.fork()
    if worker:
        return worker
    status = 1
    try:
        work()
        status = 0
    except Exception:  # noqa: BLE001 - whatever it is, the parent is told
        traceback.print_exc()
    finally:
        os._exit(status)


def ended_well(worker: int) -> None:
    _, status = os.waitpid(worker, 0)
    assert status == 0, f"a worker ended with {status}"


def die_at(moment: int) -> None:
    """End this process with SIGKILL just before its n-th change of a file or folder."""
    left = moment

    def count(event: str, _: tuple[object, ...]) -> None:
        nonlocal left
        if event in MOMENTS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def killed_after(work: Callable[[], object], seconds: float) -> bool:
    """Do work in a process of its own that is killed after a time; False if it was done by then."""
    ending, alive = os.pipe()
    worker = forked(work)
    os.close(alive)  # from now on only the worker holds it, until it ends
    early, _, _ = select.select([ending], [], [], seconds)
    os.close(ending)
    os.kill(worker, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    assert os.WIFSIGNALED(status) or status == 0, f"a worker failed: {status}"
    return not early


def at_every_moment(base: Path) -> int:
    """Kill workers some moments later each time, until one of them gets through."""
    here = base / "here"
    kills = 0
    for seed in (1, 2):
        expected = live(base / "whole", seed)
        shutil.rmtree(base / "whole")
        for moment in range(1, 100_000, 2):
            _, status = os.waitpid(forked(partial(live_until, here, seed, moment)), 0)
            if status == 0:
                break
            assert os.WIFSIGNALED(status), f"a worker failed: {status}"
            kills += 1
            if here.exists():
                examine(here, expected, random.Random(moment))
                shutil.rmtree(here)
        shutil.rmtree(here)
    return kills


def live_until(base: Path, seed: int, moment: int) -> None:
    die_at(moment)
    live(base, seed)


def at_any_time(base: Path) -> int:
    """Kill workers after random times."""
    dice = random.Random(6)
    here = base / "here"
    kills = 0
    while kills < 40:
        seed = dice.randrange(1_000)
        expected = live(base / "whole", seed)
        shutil.rmtree(base / "whole")
        kills += killed_after(partial(live, here, seed), dice.uniform(0.001, 0.06))
        if (here / "kept").exists():
            examine(here, expected, dice)
        shutil.rmtree(here, ignore_errors=True)
    return kills


def script() -> list[ScriptedReply]:
    """Answers to four prompts: each writes a file and edits another."""
    replies: list[ScriptedReply] = []
    for number in range(1, 5):
        writes = ("Write", {"file_path": f"new{number}/made", "content": f"{number}\n" * 2_000})
        edit = {
            "file_path": "shared",
            "old_string": f"state {number - 1}",
            "new_string": f"state {number}",
        }
        replies += [call_reply(writes, ("Edit", edit)), f"done {number}"]
    return replies


def session(base: Path, replies: list[ScriptedReply]) -> tuple[Session, SqliteStore]:
    root = base / "project"
    store = SqliteStore(base / "sessions.db")
    return Session(
        ScriptedProvider(replies),
        model="m",
        store=store,
        session_id="s",
        cwd=root,
        tools=builtin_tools(),
        gate=Gate(cwd=root, mode=PermissionMode.ACCEPT_EDITS),
        checkpoints=base / "kept",
    ), store


async def talk(base: Path) -> None:
    """Run a session of four prompts."""
    root = base / "project"
    root.mkdir(parents=True)
    (root / "shared").write_text("state 0\n" + "text\n" * 500)
    chat, store = session(base, script())
    async with chat:
        for number in range(1, 5):
            await chat.run(f"prompt {number}")
    await store.aclose()


async def resume(base: Path, expected: Mapping[str, Tree], dice: random.Random) -> None:
    """Open a session that was killed, go back, talk on, and undo."""
    chat, store = session(base, ["still here"])
    async with chat:
        listed = await chat.list_checkpoints()
        found = tree(base / "project")
        for one in [*listed[-1:], *dice.sample(listed, min(1, len(listed)))]:
            done = await chat.rewind(one.entry)
            assert done.files.skipped == (), done
            assert tree(base / "project") == expected[one.words]
            await chat.undo()
            assert tree(base / "project") == found
        if listed:
            await chat.rewind(dice.choice(listed).entry)
        await chat.run("and now?")
        assert find_problems(chat.get_history()) == []
    await store.aclose()


def before_prompt(number: int) -> Tree:
    """Return what the folder of a session is before a prompt."""
    shared = f"state {number - 1}\n" + "text\n" * 500
    found: Tree = {"shared": ("file", (0o644, shared.encode()))}
    for made in range(1, number):
        found[f"new{made}"] = ("folder", 0o755)
        found[f"new{made}/made"] = ("file", (0o644, b"%d\n" % made * 2_000))
    return found


def in_sessions(base: Path) -> int:
    """Kill whole sessions, with tools and a store, after random times."""
    dice = random.Random(6)
    expected = {f"prompt {number}": before_prompt(number) for number in range(1, 5)}
    here = base / "here"
    kills = 0
    os.umask(0o022)
    while kills < 15:
        kills += killed_after(partial(anyio.run, talk, here), dice.uniform(0.02, 0.4))
        if (here / "kept").exists():
            ended_well(forked(partial(anyio.run, resume, here, expected, dice)))
        shutil.rmtree(here, ignore_errors=True)
    return kills


def main(what: str) -> None:
    """Kill some dozens of workers; print how many."""
    ways = {"moments": at_every_moment, "times": at_any_time, "sessions": in_sessions}
    base = Path(tempfile.mkdtemp(prefix="clew-", dir=IN_MEMORY)).resolve()
    try:
        print(ways[what](base), f"kills ({what})")  # noqa: T201
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main(sys.argv[1])
