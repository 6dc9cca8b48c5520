"""Killing a session at random moments, and looking at what is left.

`python -m tests.session.crashes sqlite 500` and `… postgres 100` print what happened.
"""

import random
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio

from clew.context.render import find_problems, render
from clew.core.entries import Compacted
from clew.core.ids import SessionId
from clew.session.journal import Journal, answer_open_calls
from clew.stores import open_store
from tests.stores.postgres import server

ROOT = Path(__file__).parent.parent.parent
KILLS_PER_SESSION = 12


@dataclass(slots=True)
class Count:
    """What was seen."""

    kills: int = 0
    entries: int = 0
    compactions: int = 0
    unanswered: int = 0
    """Kills that left a tool call without its result, which the next opening gave it."""
    lost: int = 0
    """Entries that were said to be safe and were not there."""
    invalid: int = 0
    """Sessions whose next request a provider would refuse."""


def kill_once(place: str, session_id: str, folder: Path, chance: random.Random) -> int:
    """Run a session and kill it; returns the last entry it said was safe."""
    command = [sys.executable, "-m", "tests.session.crash_child", place, session_id, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        safe = 0
        for _ in range(chance.randrange(1, 14)):
            safe = int(child.stdout.readline())
        try:
            child.wait(timeout=chance.random() * 0.012)
        except subprocess.TimeoutExpired:
            child.kill()
        return max([safe, *map(int, child.stdout.read().split())])


async def look(place: str, session_id: str, safe: int, count: Count) -> None:
    """Open what a killed session left behind."""
    store = open_store(place)
    try:
        _, entries = await store.load(SessionId(session_id))
        count.lost += [entry.id for entry in entries] != list(range(1, len(entries) + 1))
        count.lost += len(entries) < safe
        journal = await Journal.reopen(store, SessionId(session_id))
        await answer_open_calls(journal)
        count.unanswered += len(journal.entries) > len(entries)
        count.invalid += bool(find_problems(render(journal.view)))
        await journal.aclose()
        count.kills += 1
        if count.kills % KILLS_PER_SESSION == 0:
            count.entries += len(entries)
            count.compactions += sum(isinstance(entry.body, Compacted) for entry in entries)
    finally:
        await store.aclose()


def crash(place: str, kills: int, folder: Path, seed: int = 0) -> Count:
    """Kill sessions that many times; each goes on after its kills until it has had enough."""
    count, chance = Count(), random.Random(f"{kills} {seed}" if seed else kills)
    for number in range(kills):
        session_id = f"session{number // KILLS_PER_SESSION}"
        (folder / session_id).mkdir(exist_ok=True)
        safe = kill_once(place, session_id, folder / session_id, chance)
        anyio.run(look, place, session_id, safe, count)
    return count


def main(kind: str, kills: str) -> None:
    """Print what became of that many kills."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = str(Path(folder) / "s.db")
        if kind == "postgres":
            place = stack.enter_context(server()).fresh()
        sys.stdout.write(f"{kind}: {crash(place, int(kills), Path(folder))}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
