"""A session that records its calls; it is killed while they run. Run by `test_call_records`."""

import sys
from pathlib import Path

import anyio

from clew import Session, tool
from clew.core.entries import MessageAdded
from clew.core.events import EntryAdded
from clew.core.messages import Role
from clew.core.permissions import PermissionMode, Risk
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.session.gate import Gate
from clew.stores.sqlite import SqliteStore
from clew.tools.protocol import Tool


def say(word: str) -> None:
    """Tell the test what happened."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def make_tools(folder: Path, *, hang: bool) -> list[Tool]:
    """Return tools that write a line each time they run; with `hang`, the later ones never end."""

    def write(name: str) -> None:
        with (folder / "ran.txt").open("a") as file:
            file.write(f"{name}\n")

    @tool(risk=Risk.EXECUTE, target="what")
    async def change(what: str) -> str:
        """Change something."""
        write(f"change {what}")
        if hang and what == "slow":
            say("running")
            await anyio.sleep_forever()
        return f"{what} changed"

    @tool(risk=Risk.INSPECT)
    async def look() -> str:
        """Look at something."""
        write("look")
        if hang:
            say("running")
            await anyio.sleep_forever()
        return "seen"

    return [change, look]


def report(event: EntryAdded) -> None:
    """Say that the result of the quick call is safe."""
    body = event.entry.body
    if isinstance(body, MessageAdded) and body.message.role is Role.TOOL:
        say("committed")


async def main(folder: str) -> None:
    """Run four calls at once, at most three at a time: the last one never begins."""
    calls = call_reply(
        ("change", {"what": "quick"}),
        ("change", {"what": "slow"}),
        ("look", {}),
        ("look", {}),
        ("change", {"what": "later"}),
    )
    place = Path(folder)
    session = Session(
        ScriptedProvider([calls]),
        model="m",
        tools=make_tools(place, hang=True),
        store=SqliteStore(place / "s.db"),
        session_id="s",
        cwd=place,
        gate=Gate(cwd=place, mode=PermissionMode.BYPASS),
        record_calls=True,
        max_parallel_tools=3,
    )
    session.on("entry", report)
    async with session:
        await session.run("work")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
