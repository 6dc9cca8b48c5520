"""Who takes part in `benchmarks.persistence`, and the process that runs one of them.

Everybody gets the same conversation as the plain objects of Chat Completions, and turns it
into its own kind before the clock starts. A turn is a request, a call, its result and an
answer; each of the four is on disk before the next one comes.
"""

import gc
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import anyio
import msgspec

from benchmarks.overhead_runs import Said, conversation
from clew.core.entries import Body, Entry, MessageAdded, SessionRecord, SetupChanged
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.messages import Message, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.session.journal import Journal
from clew.stores.sqlite import SqliteStore

ID = SessionId("bench")
FILE = "sessions.db"
_SETUP = SetupChanged(model=ModelFacts(name="gpt-4o", window=100_000_000))

Step: TypeAlias = Callable[[], Awaitable[object]]
"""The work of writing one message."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is asked to do with the conversation in a folder."""

    folder: str
    begin: int = 0
    """The number of messages to write at once, without measuring."""
    turns: int = 0
    """The number of turns to write after opening; with neither, only open it."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What it took."""

    seconds: list[float]
    """One for each turn, or for the opening."""
    written: int = 0
    """Bytes that were handed to the system, for all turns."""


class Keeper(Protocol):
    """One way of keeping a conversation in a folder."""

    async def begin(self, folder: Path, said: Sequence[Said]) -> None:
        """Write a conversation at once."""
        ...

    async def open(self, folder: Path) -> object:
        """Read it, as far as it takes to continue it."""
        ...

    def steps(self, said: Sequence[Said]) -> list[Step]:
        """Return the work of writing each message, after `open`."""
        ...

    async def close(self) -> None:
        """Let go of the folder."""
        ...


class Store:
    """Clew's store alone: what is there is read as a whole."""

    def __init__(self) -> None:
        self._store = SqliteStore(Path(FILE))
        self._last = 0

    async def begin(self, folder: Path, said: Sequence[Said]) -> None:
        """Write a conversation at once."""
        self._store = SqliteStore(folder / FILE)
        await self._store.create(SessionRecord(id=ID, cwd="/", created_at=1.0, updated_at=1.0))
        bodies: list[Body] = [_SETUP, *map(_body, said)]
        entries = [Entry(id=EntryId(n), at=1.0, body=body) for n, body in enumerate(bodies, 1)]
        await self._store.append(ID, entries)

    async def open(self, folder: Path) -> object:
        """Read the entries, every one of them."""
        self._store = SqliteStore(folder / FILE)
        _, entries = await self._store.load(ID)
        self._last = entries[-1].id
        return entries[:]

    def steps(self, said: Sequence[Said]) -> list[Step]:
        """Append entries."""
        bodies = enumerate(map(_body, said), self._last + 1)
        entries = [Entry(id=EntryId(n), at=1.0, body=body) for n, body in bodies]
        return [partial(self._store.append, ID, [entry]) for entry in entries]

    async def close(self) -> None:
        """Close the file."""
        await self._store.aclose()


class InSession(Store):
    """Clew as a session uses it: with a lease, the view, the gauge and the bill.

    It reads a message when it is first needed, which in this benchmark is never.
    """

    def __init__(self) -> None:
        super().__init__()
        self._journal: Journal | None = None

    async def begin(self, folder: Path, said: Sequence[Said]) -> None:
        """Write a conversation at once, and end the session that it stands for."""
        await super().begin(folder, said)
        journal = await Journal.reopen(self._store, ID)
        await journal.aclose()

    async def open(self, folder: Path) -> object:
        """Make the journal, ready for the next request."""
        self._store = SqliteStore(folder / FILE)
        self._journal = await Journal.reopen(self._store, ID)
        return self._journal

    def steps(self, said: Sequence[Said]) -> list[Step]:
        """Append to the journal."""
        assert self._journal is not None
        return [partial(self._journal.append, _body(message)) for message in said]


class AgentsSession:
    """openai-agents: one row a message."""

    def __init__(self) -> None:
        self._session: Any = None

    async def begin(self, folder: Path, said: Sequence[Said]) -> None:
        """Write a conversation at once."""
        self._connect(folder)
        await self._session.add_items([_item(message) for message in said])

    async def open(self, folder: Path) -> object:
        """Read the items."""
        self._connect(folder)
        return await self._session.get_items()

    def steps(self, said: Sequence[Said]) -> list[Step]:
        """Add items."""
        return [partial(self._session.add_items, [_item(message)]) for message in said]

    async def close(self) -> None:
        """Close the file."""
        self._session.close()

    def _connect(self, folder: Path) -> None:
        from agents import SQLiteSession  # noqa: PLC0415 - only in its own process

        self._session = SQLiteSession(ID, folder / FILE)


class LanggraphSaver:
    """langgraph: the whole conversation as a checkpoint, at every step."""

    def __init__(self) -> None:
        self._saver: Any = None
        self._checkpoint: Any = None
        self._config = {"configurable": {"thread_id": ID, "checkpoint_ns": ""}}

    async def begin(self, folder: Path, said: Sequence[Said]) -> None:
        """Write a conversation at once."""
        from langgraph.checkpoint.base import empty_checkpoint  # noqa: PLC0415

        self._connect(folder)
        self._checkpoint = empty_checkpoint()
        self._checkpoint["channel_values"] = {"messages": _lc_messages(said)}
        self._put()

    async def open(self, folder: Path) -> object:
        """Read the newest checkpoint."""
        self._connect(folder)
        self._checkpoint = self._saver.get_tuple(self._config).checkpoint
        return self._checkpoint

    def steps(self, said: Sequence[Said]) -> list[Step]:
        """Write checkpoints."""
        return [partial(self._step, message) for message in _lc_messages(said)]

    async def close(self) -> None:
        """Close the file."""
        self._saver.conn.close()

    async def _step(self, message: object) -> None:
        self._checkpoint["channel_values"]["messages"].append(message)
        self._put()

    def _put(self) -> None:
        from langgraph.checkpoint.base.id import uuid6  # noqa: PLC0415

        self._checkpoint["id"] = str(uuid6())
        self._saver.put(self._config, self._checkpoint, {"source": "loop", "step": 1}, {})

    def _connect(self, folder: Path) -> None:
        from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415

        self._saver = SqliteSaver(sqlite3.connect(folder / FILE, check_same_thread=False))


KEEPERS: dict[str, Callable[[], Keeper]] = {
    "clew": InSession,
    "clew.stores": Store,
    "agents": AgentsSession,
    "langgraph.checkpoint.sqlite": LanggraphSaver,
}
"""By the name of the package that each needs."""


async def do(make: Callable[[], Keeper], job: Job) -> Done:
    """Do a job and measure it."""
    folder, keeper = Path(job.folder), make()
    if job.begin:
        await keeper.begin(folder, conversation(job.begin))
        await keeper.close()
        return Done(seconds=[])
    gc.collect()
    start = time.perf_counter()
    opened = await keeper.open(folder)
    seconds = [time.perf_counter() - start]
    written = 0
    if job.turns:
        seconds, written = await _write(keeper.steps(_turns(job.turns)))
    await keeper.close()
    del opened
    return Done(seconds=seconds, written=written)


async def _write(steps: Sequence[Step]) -> tuple[list[float], int]:
    seconds = []
    before = _written()
    for first in range(0, len(steps), 4):
        start = time.perf_counter()
        for step in steps[first : first + 4]:
            await step()
        seconds.append(time.perf_counter() - start)
    return seconds, _written() - before


def _written() -> int:
    try:
        facts = Path("/proc/self/io").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(facts.partition("wchar: ")[2].partition("\n")[0])


def _turns(count: int) -> list[Said]:
    """Return turns of four messages, of the sizes that the conversation has."""
    request, call, result, *_, answer = conversation(10)
    return [request, call, result, answer] * count


def _body(said: Said) -> MessageAdded:
    message = _message(said)
    usage = Usage(input_tokens=1_000, output_tokens=50) if said["role"] == "assistant" else None
    return MessageAdded(message=message, usage=usage)


def _message(said: Said) -> Message:
    match said:
        case {"role": "user", "content": str(text)}:
            return user(text)
        case {"role": "tool", "content": str(text), "tool_call_id": call_id}:
            return tool_result(ToolCall(call_id=CallId(call_id), name="Read"), text)
        case {"tool_calls": [{"id": call_id, "function": {"name": name, "arguments": wish}}]}:
            return assistant(ToolCall(call_id=CallId(call_id), name=name, arguments=wish))
        case _:
            return assistant(said["content"])


def _item(said: Said) -> dict[str, Any]:
    """Return a message as openai-agents keeps it: an item of the Responses API."""
    match said:
        case {"role": "tool", "content": text, "tool_call_id": call_id}:
            return {"type": "function_call_output", "call_id": call_id, "output": text}
        case {"tool_calls": [{"id": call_id, "function": {"name": name, "arguments": wish}}]}:
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": wish}
        case {"role": "assistant", "content": text}:
            part = {"type": "output_text", "text": text, "annotations": []}
            message = {"type": "message", "role": "assistant", "status": "completed"}
            return {**message, "id": "msg_1", "content": [part]}
        case _:
            return {"role": "user", "content": said["content"]}


def _lc_messages(said: Sequence[Said]) -> list[Any]:
    from langchain_core.messages import convert_to_messages  # noqa: PLC0415

    return list(convert_to_messages([{**m, "content": m["content"] or ""} for m in said]))


def main(name: str) -> None:
    """Do the jobs that come in, one a line, and write what each took."""
    for line in sys.stdin.buffer:
        done = anyio.run(do, KEEPERS[name], msgspec.json.decode(line, type=Job))
        sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
