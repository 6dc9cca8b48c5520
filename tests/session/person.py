"""Somebody who talks to a session that is kept in a file, and the command line beside them."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess

import anyio

from clew import Session, tool
from clew.context.render import find_problems
from clew.core.entries import Entry
from clew.core.events import EntryAdded, Event, Warned
from clew.core.ids import CallId, SessionId
from clew.core.messages import ToolCall
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.log.writer import SessionLog
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply
from clew.stores.sqlite import SqliteStore
from tests.event_buses import bus_for

FACTS = ModelFacts(name="m", window=20_000, summarises=False)
S = SessionId("s")
NOBODY = ("--base-url", "http://127.0.0.1:9", "--model", "gpt-4o")
"""A model that is never asked."""
CALL = ToolCall(call_id=CallId("c1"), name="add")


@tool(risk=Risk.INSPECT)
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class Person:
    """Somebody who talks to a session, and remembers what was said to be safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = SqliteStore(path)
        self.safe: list[Entry] = []
        self.warnings: list[str] = []
        self.provider = ScriptedProvider([])

    def hear(self, event: Event) -> None:
        if isinstance(event, EntryAdded):
            self.safe.append(event.entry)
        elif isinstance(event, Warned):
            self.warnings.append(event.text)

    @asynccontextmanager
    async def session(
        self, *replies: ScriptedReply, log: SessionLog | None = None
    ) -> AsyncIterator[Session]:
        self.provider = ScriptedProvider(replies, FACTS)
        made = Session(
            self.provider,
            model="m",
            tools=[add],
            store=self.store,
            session_id=S,
            session_log=log,
            event_bus=bus_for(self.hear),
        )
        async with made as opened:
            yield opened

    async def talk(self, *words: str) -> None:
        """Say something in a session of its own, each time with a tool call."""
        replies: list[ScriptedReply] = []
        for word in words:
            replies += [call_reply(("add", {"a": 1, "b": len(word)})), f"yes, {word}"]
        async with self.session(*replies) as session:
            for word in words:
                await session.run(word)

    async def look(self) -> list[Entry]:
        """Open the file anew, and make sure that all is there and the session goes on."""
        await self.store.aclose()
        self.store = SqliteStore(self.path)
        stored = list((await self.store.load(S))[1])
        assert stored == self.safe
        async with self.session("it goes on") as session:
            assert await session.run("and now?") == "it goes on"
        assert find_problems(self.provider.requests[0].messages) == []
        return stored


async def clew(
    *arguments: str, store: Path, piped: bytes = b"", room: int | None = None
) -> "CompletedProcess[bytes]":
    """Run the command; with `room`, no file may grow beyond so many bytes."""
    home = store.parent.parent
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "CLEW_HOME": str(home / "clew")}
    limit = "import os,resource as r,sys\nn=int(sys.argv[1])\nr.setrlimit(r.RLIMIT_FSIZE,(n,n))\n"
    limit += "os.execv(sys.executable,[sys.executable,'-m','clew.cli',*sys.argv[2:]])"
    limited = [sys.executable, "-c", limit, str(room)]
    command = [sys.executable, "-m", "clew.cli"] if room is None else limited
    with anyio.fail_after(60):
        return await anyio.run_process(
            [*command, *arguments],
            env=env | {"CLEW_STORE": str(store)},
            cwd=home,
            check=False,
            input=piped,
        )


def sentence(done: "CompletedProcess[bytes]") -> str:
    """Return the one sentence with which a command failed."""
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "Traceback" not in said
    return said
