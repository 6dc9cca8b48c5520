"""A tool of your own without a line in a program: a Python file in `~/.clew/tools/`.

Files in `.clew/tools/` of a project work in the same way after you have accepted the folder, and
so do the entry points `clew.tools`, `clew.providers` and `clew.stores` of installed packages.

Run it with: python examples/13_user_tools.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import InteractiveSession
from clew.providers.scripted import ScriptedProvider, call_reply

TOOL = '''
from clew import Risk, tool


@tool(risk=Risk.INSPECT)
def thread_length(turns: int) -> str:
    """Return how much thread a labyrinth needs.

    Args:
        turns: The number of turns.
    """
    return f"{turns * 3} metres"
'''


async def main() -> None:
    """Write a tool file and a broken one, and let a model use the tool."""
    model = ScriptedProvider([call_reply(("thread_length", {"turns": 7})), "Take 21 metres."])
    with TemporaryDirectory() as folder:
        home = Path(folder)
        tools = home / ".clew" / "tools"
        tools.mkdir(parents=True)
        (tools / "labyrinth.py").write_text(TOOL)
        (tools / "broken.py").write_text("import nothing_like_this\n")
        (home / "project").mkdir()
        session = InteractiveSession(
            provider=model,
            model="scripted",
            cwd=home / "project",
            user_home=home,
            clew_home=home / ".clew",
        )
        session.on("warning", lambda event: print(f"warning: {event.text.replace(folder, '')}"))
        async with session:
            result = await session.run("How much thread do I need?")
            print(result.tool_summaries[0].tool_result_data, "-", result.response)
            listed = await session.execute("/tools")
            print(next(line for line in listed.message.splitlines() if "labyrinth" in line))


anyio.run(main)
