"""A process with a session whose agents others list, answer and stop.

python -m tests.sdk.roster_child ROOT
"""

import sys
from pathlib import Path

import anyio

from clew.core.tasks import TaskKind
from clew.providers.scripted import Pause, call_reply, text_reply
from clew.runtime.protocol import TaskRequest
from clew.sdk.session import InteractiveSession
from tests.sdk.agent_scripts import ScriptedAgents
from tests.sdk.places import Place


async def main(root: Path) -> None:
    place = Place(root)
    write = call_reply(("Write", {"file_path": "a.txt", "content": "one"}))
    *thinking, end = text_reply("Thinking.")
    provider = ScriptedAgents(
        {
            "write a file": [write, "The file is there."],
            "work for ever": [[*thinking, Pause(), end]],
        }
    )
    session = InteractiveSession(
        provider=provider,
        cwd=place.project,
        model="m",
        agents=True,
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
        wait_for_answers=True,
    )
    async with session:
        for prompt in ("write a file", "work for ever"):
            request = TaskRequest(kind=TaskKind.AGENT, prompt=prompt, label=prompt)
            await session.parts.agents.start(request)
        sys.stdout.write("started\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
