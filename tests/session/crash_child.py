"""A session that works until it is killed; says which entries are safe. Run by `crashes`."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio

from clew import Session
from clew.core.entries import SetupChanged
from clew.core.events import EntryAdded, Event
from clew.core.models import ModelFacts
from clew.core.permissions import PermissionMode
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply
from clew.session.gate import Gate
from clew.stores import open_store
from clew.tools.builtin import builtin_tools
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from tests.event_buses import bus_for

FACTS = ModelFacts(name="m", window=6_000, summarises=False)


def script() -> Iterator[ScriptedReply]:
    """Reply for ever: files are written, edited and read, and words fill the window."""
    for number in itertools.count():
        path = f"file{number % 7}.txt"
        yield call_reply(
            ("Write", {"file_path": path, "content": f"line {number}\n" * 40}),
            ("Bash", {"command": f"echo {number}"}),
        )
        yield call_reply(("Edit", {"file_path": path, "old_string": "x", "new_string": "y"}))
        yield f"Done with {number}. " + "The thread is red. " * 120


def tell(event: Event) -> None:
    """Say that an entry is safe; a setup is written with the first word that follows it."""
    if isinstance(event, EntryAdded) and not isinstance(event.entry.body, SetupChanged):
        sys.stdout.write(f"{event.entry.id}\n")
        sys.stdout.flush()


async def main(place: str, session_id: str, folder: str) -> None:
    """Work until the end."""
    session = Session(
        ScriptedProvider(script(), FACTS),
        model="m",
        tools=builtin_tools(sandbox=Sandbox(SandboxPolicy(mode=SandboxMode.OFF))),
        store=open_store(place),
        session_id=session_id,
        cwd=Path(folder),
        gate=Gate(cwd=Path(folder), mode=PermissionMode.BYPASS),
        checkpoints=Path(folder).parent / "checkpoints",
        event_bus=bus_for(tell),
    )
    async with session:
        for number in itertools.count():
            await session.run(f"question {number}")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
