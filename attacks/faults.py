"""Faults of the machine: sessions killed at random moments lose no acknowledged entry."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from anyio import to_thread

from attacks.corpus import Outcome, Status, run_together
from tests.session.crashes import KILLS_PER_SESSION, Count, crash

NAME = "faults"
TARGET = "no acknowledged entry is lost, and the session can be opened again"
SESSIONS = 15


async def run(sample: int | None = None) -> AsyncIterator[Outcome]:
    """Kill sessions on SQLite; each is opened again after every kill."""
    kills = KILLS_PER_SESSION * SESSIONS if sample is None else sample

    async def attack(number: int) -> list[Outcome]:
        batch = min(KILLS_PER_SESSION, kills - number)
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            count = await to_thread.run_sync(crash, str(place / "s.db"), batch, place, number)
        return [
            _judge(f"kill -9, number {number + kill + 1}", kill, count) for kill in range(batch)
        ]

    async for outcome in run_together(range(0, kills, KILLS_PER_SESSION), attack):
        yield outcome


def _judge(case: str, kill: int, count: Count) -> Outcome:
    """Return what became of one kill; losses are counted for all kills of a session together."""
    if kill < count.lost + count.invalid:
        return Outcome(case, Status.FAILED, f"{count.lost} lost, {count.invalid} unusable")
    return Outcome(case, Status.HELD)
