"""An agent of your own, defined in a file: it has its own window, and only its answer returns.

Run it with: python examples/11_subagent.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from clew.sdk.values import TaskEvent, TaskStage

from clew import InteractiveSession
from clew.providers.scripted import ScriptedProvider, call_reply

SCOUT = """\
---
name: scout
description: Looks into files and reports in one line
tools: Read, Grep
---
You look, and report in one line.
"""


def show(event: TaskEvent) -> None:
    """Print what the agent does."""
    if event.stage is TaskStage.TOOL_END and event.tool is not None:
        print(f"  {event.agent} used {event.tool.tool_name}: {event.tool.result}")
    elif event.stage is not TaskStage.TEXT_DELTA:
        print(f"  {event.agent} {event.stage}")


async def main() -> None:
    """Have the model hand a task on."""
    model = ScriptedProvider(
        [
            call_reply(("Agent", {"subagent_type": "scout", "prompt": "Is map.txt complete?"})),
            call_reply(("Grep", {"pattern": "TODO", "path": "map.txt"})),  # asked by the agent
            "No: line 2 says TODO.",  # its report
            "The map is not complete yet.",
        ]
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "map.txt").write_text("north: wall\nsouth: TODO\n", encoding="utf-8")
        (folder / ".clew" / "agents").mkdir(parents=True)
        (folder / ".clew" / "agents" / "scout.md").write_text(SCOUT, encoding="utf-8")
        async with InteractiveSession(
            cwd=folder, provider=model, model="scripted", agents=True, clew_home=folder / "home"
        ) as session:
            session.on("background_task_event", show)
            print((await session.submit("Check the map.")).response)
            print(f"messages in this conversation: {len(session.get_messages())}")
            print(f"the agent's tools: {[tool.name for tool in model.requests[1].tools]}")


if __name__ == "__main__":
    anyio.run(main)
