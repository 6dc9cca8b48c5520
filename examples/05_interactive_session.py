"""A whole agent for one folder: subscribe to its events, send a prompt, read the result.

Run it with: python examples/05_interactive_session.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import InteractiveSession
from clew.core.events import ContextUpdated, RunCompleted, ToolEnded
from clew.core.usage import Usage
from clew.providers.scripted import ScriptedProvider, call_reply, text_reply


def show_tool(event: ToolEnded) -> None:
    """Print a tool call that has its result."""
    print(f"[{event.name}: {'failed' if event.failed else 'done'}]")


def show_context(event: ContextUpdated) -> None:
    """Print how full the window is: before each model call, and again after it."""
    print(f"[window: {event.state.used_percentage} % used, {event.state.basis}]")


def show_result(event: RunCompleted) -> None:
    """Print what the run consumed."""
    usage = event.result.usage
    print(f"\n[done: {usage.total_tokens if usage else 0} tokens]")


async def main() -> None:
    """Ask about a file."""
    counts = Usage(input_tokens=980, output_tokens=20)
    model = ScriptedProvider(
        [
            call_reply(("Read", {"file_path": "thread.txt"}), usage=Usage(input_tokens=900)),
            text_reply("The thread is red.", usage=counts),
        ]
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "thread.txt").write_text("red\n", encoding="utf-8")
        session = InteractiveSession(
            cwd=folder, provider=model, model="scripted", clew_home=folder / "home"
        )
        session.on("text_delta", lambda event: print(event.text, end="", flush=True))
        session.on("tool_end", show_tool)
        session.on("context_update", show_context)
        session.on("complete", show_result)
        async with session:
            result = await session.run("What colour is the thread?")
            print(f"{len(await session.history())} items in the history, {result.stop_reason}")


if __name__ == "__main__":
    anyio.run(main)
