"""How long a search takes in a session of 100,000 entries, and what its index costs.

The entries come from the recordings, repeated with different numbers in them, so that words are
as frequent and as rare as in real sessions.
"""

import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import anyio
from msgspec.structs import replace

from benchmarks.recordings import session_files
from benchmarks.results import Section, judge, publish
from clew.context.recall.query import parse_query
from clew.core.entries import Entry, MessageAdded, SessionRecord
from clew.core.ids import EntryId, SessionId
from clew.core.messages import Message, Text, ToolResult
from clew.importers.reader import read_session
from clew.stores.sqlite import SqliteStore

ENTRIES = 100_000
BATCH = 512
REPEATS = 9
TARGET_MS = 50.0
SESSION = SessionId("bench")
QUERIES = (
    "ENT-241",
    "worktree index corruption root cause",
    "which tests failed in the integration suite?",
    "getSessionsForBranch",
    "cmd/entire/cli/strategy/manual_commit.go",
    '"unable to read"',
    "checkpoint session commit",
    "error tool:Bash",
    "file:setup.go role:tool",
)
_NUMBER = re.compile(r"\d{3,}")


def main() -> None:
    """Measure, print and write the section; does nothing without recordings."""
    if not session_files():
        print("the recordings are absent; nothing was measured")
        return
    anyio.run(_measure)


async def _measure() -> None:
    with tempfile.TemporaryDirectory(prefix="clew-search-") as folder:
        path = Path(folder) / "s.db"
        store = SqliteStore(path)
        await store.create(SessionRecord(id=SESSION, cwd="/", created_at=0.0, updated_at=0.0))
        started = time.perf_counter()
        batch: list[Entry] = []
        for entry in make_entries(ENTRIES):
            batch.append(entry)
            if len(batch) == BATCH:
                await store.append(SESSION, batch)
                batch = []
        await store.append(SESSION, batch)
        written = time.perf_counter() - started
        rows = [await _row(store, query) for query in QUERIES]
        size = path.stat().st_size / 1_000_000
        await store.aclose()
    worst = max(float(row[1]) for row in rows)
    publish(
        Section(
            title="Search",
            command="python -m benchmarks search",
            columns=("query", "ms", "CPU ms", "hits shown"),
            rows=rows,
            notes=[
                f"target: every query in under {TARGET_MS:g} ms with {ENTRIES:,} entries: the "
                f"slowest took {worst:.0f} ms, {judge(met=worst < TARGET_MS)}",
                f"SQLite, one session of {ENTRIES:,} entries from recordings; median of {REPEATS} "
                f"searches after one that does not count; the file has {size:,.0f} MB with its "
                f"index, and was written and indexed at {ENTRIES / written:,.0f} entries a second",
                f"one-minute load average at the end, on {os.cpu_count()} cores: "
                f"{os.getloadavg()[0]:.1f}",
            ],
        )
    )


async def _row(store: SqliteStore, text: str) -> list[str]:
    query = parse_query(text)
    found = await store.recall(query, session_id=SESSION)
    elapsed: list[float] = []
    busy: list[float] = []
    for _ in range(REPEATS):
        started, used = time.perf_counter(), time.process_time()
        await store.recall(query, session_id=SESSION)
        elapsed.append((time.perf_counter() - started) * 1_000)
        busy.append((time.process_time() - used) * 1_000)
    return [f"`{text}`", f"{median(elapsed):.1f}", f"{median(busy):.1f}", str(len(found.hits))]


def make_entries(count: int) -> Iterator[Entry]:
    """Yield entries of the recordings, over and over; each round has numbers of its own."""
    recorded = [message for path in session_files() for message in read_session(str(path)).messages]
    for number in range(count):
        turn, place = divmod(number, len(recorded))
        message = _vary(recorded[place], turn) if turn else recorded[place]
        yield Entry(id=EntryId(number + 1), at=float(number), body=MessageAdded(message=message))


def _vary(message: Message, turn: int) -> Message:
    def change(text: str) -> str:
        return _NUMBER.sub(lambda match: f"{int(match[0]) + turn}", text)

    parts = tuple(
        replace(part, text=change(part.text)) if isinstance(part, Text | ToolResult) else part
        for part in message.parts
    )
    return replace(message, parts=parts)


if __name__ == "__main__":
    main()
