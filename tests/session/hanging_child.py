"""A session whose second tool call never ends; it is killed in the middle of the batch."""

import sys
from pathlib import Path

import anyio

from clew import Session, tool
from clew.core.entries import MessageAdded
from clew.core.events import EntryAdded
from clew.core.messages import Role
from clew.core.permissions import Risk
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.stores.sqlite import SqliteStore


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


@tool(risk=Risk.INSPECT)
def note(text: str) -> str:
    """Return at once."""
    return f"noted {text}"


@tool(risk=Risk.INSPECT)
async def hang() -> str:
    """Never return."""
    say("hanging")
    await anyio.sleep_forever()
    return "never"


def report(event: EntryAdded) -> None:
    body = event.entry.body
    if isinstance(body, MessageAdded) and body.message.role is Role.TOOL:
        say("committed")


async def main(path: str) -> None:
    calls = call_reply(("note", {"text": "it"}), ("hang", {}), text="I begin.")
    session = Session(
        ScriptedProvider([calls]),
        model="m",
        tools=[note, hang],
        store=SqliteStore(Path(path)),
        session_id="s",
    )
    session.on("entry", report)
    async with session:
        await session.run("work")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
