"""An agent of your own, defined in a file: it has its own window, and only its answer returns.

Run it with: python examples/11_subagent.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import Envelope, InteractiveSession
from clew.core.events import BackgroundTaskEvent, ToolEnded
from clew.providers.scripted import ScriptedProvider, call_reply

SCOUT = """\
---
name: scout
description: Looks into files and reports in one line
tools: Read, Grep
---
You look, and report in one line.
"""


def show(envelope: Envelope) -> None:
    """Print what the agent does: its own events have its `task_id`."""
    event = envelope.event
    if isinstance(event, BackgroundTaskEvent):
        print(f"  {event.agent} {event.stage}")
    elif isinstance(event, ToolEnded) and envelope.task_id:
        print(f"  its tool {event.name} has ended")


async def main() -> None:
    """Let the model delegate a task."""
    model = ScriptedProvider(
        [
            call_reply(("Agent", {"subagent_type": "scout", "prompt": "Is map.txt complete?"})),
            call_reply(("Grep", {"pattern": "TODO", "path": "map.txt"})),  # called by the agent
            "No: line 2 says TODO.",  # its report
            "The map is not complete yet.",
        ]
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        agents = folder / ".clew" / "agents"
        agents.mkdir(parents=True)
        (agents / "scout.md").write_text(SCOUT, encoding="utf-8")
        (folder / "map.txt").write_text("north: wall\nsouth: TODO\n", encoding="utf-8")
        async with InteractiveSession(
            cwd=folder, provider=model, model="scripted", agents=True, clew_home=folder / "home"
        ) as session:
            session.on_any(show)
            print((await session.run("Check the map.")).response)
            print(f"the agent's tools: {[tool.name for tool in model.requests[1].tools]}")


if __name__ == "__main__":
    anyio.run(main)
