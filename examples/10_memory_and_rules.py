"""What a project tells its agent: rules in AGENTS.md, memory, and open tasks.

Run it with: python examples/10_memory_and_rules.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import InteractiveSession, ProjectMemory
from clew.providers.scripted import ScriptedProvider

FILES = {
    "AGENTS.md": "Use British spelling. @docs/names.md\n\n## Compact Instructions\n\nKeep names.\n",
    "docs/names.md": "Call the monster Asterion.\n",
    ".agents/tasks/door.md": "# Find the door\n\nStatus: in-progress\n",
}


def prepare(folder: Path) -> None:
    """Write the files of a project."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    memory = ProjectMemory(folder / ".clew" / "memory")
    memory.add("The door is behind the third pillar.", topic="labyrinth")
    waiting = memory.propose("The thread is red.", topic="thread")
    print("proposed:", waiting.status, "→", memory.approve(waiting.id).status)
    refused = memory.add("password=hunter2-hunter2", topic="thread")
    print("a secret:", refused.status)


async def main() -> None:
    """Show what the system prompt contains."""
    model = ScriptedProvider(["Asterion is behind it."])
    with TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        async with InteractiveSession(
            cwd=folder, provider=model, model="scripted", clew_home=folder / "home"
        ) as session:
            print((await session.run("Who is behind the third pillar?")).response)
            found = await session.execute("/memory find third pillar")
            print("/memory find:", found.message)
    for words in ("British spelling", "Asterion", "third pillar", "Find the door"):
        print(f"the system prompt contains {words!r}: {words in model.requests[0].system}")


if __name__ == "__main__":
    anyio.run(main)
