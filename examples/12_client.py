"""A client that joins late and reconnects: a snapshot first, then the events behind it.

`connect` puts a pipe of JSON between client and session, as a socket would.

Run it with: python examples/12_client.py
"""

from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import InteractiveSession, PromptInput, SessionClient
from clew.core.events import RunCompleted, TextDelta
from clew.providers.protocol import TextChunk
from clew.providers.scripted import Pause, ScriptedProvider, text_reply
from clew.sdk.pipe_client import connect


async def join(client: SessionClient) -> None:
    """Show what a run has written so far, and then the rest as it arrives."""
    snapshot = await client.snapshot()
    print(f"joined: {snapshot.streaming_text!r} so far, executing: {snapshot.executing}")
    async with aclosing(client.events(after=snapshot.seq)) as events:
        async for envelope in events:
            match envelope.event:
                case TextDelta(text=text):
                    print(f"  {envelope.name}: {text!r}")
                case RunCompleted(result=result):
                    print(f"  {envelope.name}: {result.response!r}")
                    return
                case _:
                    pass


async def main() -> None:
    """Submit a prompt, and join in the middle of the answer."""
    pause = Pause()
    model = ScriptedProvider([[TextChunk("The thread "), pause, *text_reply("is red.")]])
    with TemporaryDirectory() as name:
        folder = Path(name)
        session = InteractiveSession(
            cwd=folder, provider=model, model="scripted", clew_home=folder / "home"
        )
        async with session, connect(session) as client:
            await client.submit(PromptInput(text="What colour is the thread?"))
            await pause.reached.wait()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(join, client)
                await anyio.wait_all_tasks_blocked()
                pause.release()


if __name__ == "__main__":
    anyio.run(main)
