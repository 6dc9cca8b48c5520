"""Recorded sessions of other tools: imported, resumed, forked, searched, exported.

`python -m tests.importers.real_sessions` does so with every recording there is and prints counts.
"""

import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path

import anyio

from clew import Session
from clew.context.recall.words import split_words
from clew.context.render import find_problems
from clew.core.entries import Compacted, Entry, MessageAdded, encode
from clew.core.ids import SessionId
from clew.core.messages import Role
from clew.core.models import ModelFacts
from clew.providers.catalogue import lookup
from clew.providers.scripted import ScriptedProvider
from clew.sdk.session_admin import import_file
from clew.stores.protocol import Store
from clew.stores.record import StoredSession
from clew.stores.sqlite import SqliteStore
from clew.stores.transfer import export_lines, import_export, read_export

SMALL = ModelFacts(name="small", window=20_000, max_output=2_000)
"""A model whose window most recordings do not fit into."""
RECORDINGS = Path(__file__).parents[3] / "shared" / "data" / "sessions"
TOOLS = ("claude_code", "codex", "gemini_cli", "pi")
_SMALLEST = 1_000
"""Bytes of a recording in which something was said."""
_WORD = re.compile(r"[a-z]{5,14}")


def recordings(tool: str) -> list[Path]:
    """Return the recordings of a tool, the smallest first; none where there is no data."""
    found = sorted((RECORDINGS / tool).glob("*.json*"), key=lambda path: path.stat().st_size)
    return [path for path in found if path.stat().st_size > _SMALLEST]


@dataclass(slots=True)
class Seen:
    """What became of one recording."""

    entries: int = 0
    messages: int = 0
    compactions: int = 0
    """Those that the other tool had made."""
    made: int = 0
    """Those that were needed to go on."""
    requests: int = 0


async def go_through(path: Path, folder: Path) -> Seen:
    """Do with one recording all that can be done with a session; raises where that fails."""
    store = SqliteStore(folder / "s.db")
    try:
        record = (await import_file(store, str(path), cwd=str(folder))).record
        entries = await _stored(store, record.id)
        seen = Seen(entries=len(entries), messages=record.messages)
        seen.compactions = sum(isinstance(entry.body, Compacted) for entry in entries)
        assert [entry.id for entry in entries] == list(range(1, len(entries) + 1))
        await _found(store, record.id, entries)
        await _exported(store, record, entries, folder)
        await _forked(store, record, entries, seen)
        await _resumed(store, record, entries, seen)
        return seen
    finally:
        await store.aclose()


async def _stored(store: Store, session_id: SessionId) -> list[Entry]:
    return list((await store.load(session_id))[1])


async def _found(store: Store, session_id: SessionId, entries: list[Entry]) -> None:
    """Look for the rarest word of what the user said."""
    counted: Counter[str] = Counter()
    for entry in entries:
        if isinstance(entry.body, MessageAdded) and entry.body.message.role is Role.USER:
            counted.update(
                word for word in split_words(entry.body.message.text) if _WORD.match(word)
            )
    rarest = min(counted, key=lambda word: (counted[word], word))
    hits = await store.search(rarest)
    assert [hit.session.id for hit in hits] == [session_id]
    assert rarest[:4] in hits[0].excerpt.lower()


async def _exported(
    store: Store, record: StoredSession, entries: list[Entry], folder: Path
) -> None:
    """Take it out as a file, and into another store: nothing changes."""
    lines = list(export_lines(record, entries))
    read = read_export(lines)
    assert read is not None
    assert read.problems == ()
    other = SqliteStore(folder / "other.db")
    try:
        made = await import_export(other, read, cwd="/")
        assert made == record
        assert [encode(entry) for entry in await _stored(other, made.id)] == [
            encode(entry) for entry in entries
        ]
        assert list(export_lines(made, await _stored(other, made.id))) == lines
    finally:
        await other.aclose()


async def _forked(store: Store, record: StoredSession, entries: list[Entry], seen: Seen) -> None:
    """Go on with forks, of all in a small window and of half; the original stays as it is."""
    for upto, facts in ((None, SMALL), (entries[len(entries) // 2].id, lookup(record.model))):
        fork = await store.fork(record.id, upto=upto, name="another way")
        assert (fork.parent, fork.forked_at) == (record.id, upto or entries[-1].id)
        await _answered(store, fork, seen, facts)
        assert await _stored(store, record.id) == entries
        assert await store.record(record.id) == record


async def _resumed(store: Store, record: StoredSession, entries: list[Entry], seen: Seen) -> None:
    """Go on with it; what was there stays, and is there when it is opened again."""
    facts = lookup(record.model)
    history = await _answered(store, record, seen, facts)
    stored = await _stored(store, record.id)
    assert stored[: len(entries)] == entries
    async with _session(ScriptedProvider([], facts), record, store) as again:
        assert [message.text for message in again.get_history()] == history
        assert again.journal.entries == stored


async def _answered(
    store: Store, record: StoredSession, seen: Seen, facts: ModelFacts
) -> list[str]:
    """Ask one question more; returns the words of the history after it."""
    provider = ScriptedProvider(repeat("It goes on from here."), facts)
    async with _session(provider, record, store) as session:
        before = len(session.journal.entries)
        assert await session.run("Where were we?") == "It goes on from here."
        added = session.journal.entries[before:]
        seen.made += sum(isinstance(entry.body, Compacted) for entry in added)
        for request in provider.requests:
            assert find_problems(request.messages) == []
        assert provider.requests[-1].messages[-1].text == "Where were we?"
        seen.requests += len(provider.requests)
        return [message.text for message in session.get_history()]


def _session(provider: ScriptedProvider, record: StoredSession, store: Store) -> Session:
    return Session(
        provider,
        model=provider.facts(record.model).name,
        store=store,
        session_id=record.id,
        cwd=Path(record.cwd),
    )


def go_through_all(tool: str) -> Iterator[tuple[Path, Seen]]:
    """Go through every recording of a tool."""
    for path in recordings(tool):
        with tempfile.TemporaryDirectory() as folder:
            yield path, anyio.run(go_through, path, Path(folder))


def main() -> None:
    """Print what became of all recordings."""
    for tool in TOOLS:
        start, total, files = time.perf_counter(), Seen(), 0
        for path, seen in go_through_all(tool):
            files += 1
            for name, value in asdict(seen).items():
                setattr(total, name, getattr(total, name) + value)
            sys.stdout.write(f"  {tool}/{path.name.split('.')[0]}: {seen}\n")
        took = time.perf_counter() - start
        sys.stdout.write(f"{tool}: {files} sessions, {total}, {took:.1f} s\n")


if __name__ == "__main__":
    main()
