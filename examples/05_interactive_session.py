"""A whole agent for one folder, watched through its events.

Run it with: python examples/05_interactive_session.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew import ContextState, ExecutionResult, InteractiveSession, ToolState
from clew.core.usage import Usage
from clew.providers.scripted import ScriptedProvider, call_reply, text_reply


def tool_ended(state: ToolState) -> None:
    """Show a tool call that has its result."""
    print(f"[{state.tool_name} {state.first_arg}: {state.result}]")


def context_changed(state: ContextState) -> None:
    """Show how full the window is; told before each model call, and again after it."""
    print(f"[window: {state.used_percentage} % used, {state.basis}]")


def completed(result: ExecutionResult) -> None:
    """Show what the turn took."""
    tokens = result.usage.total_tokens if result.usage else 0
    print(f"\n[done: {tokens} tokens, {len(result.history)} entries in the history]")


async def main() -> None:
    """Ask about a file, and listen."""
    model = ScriptedProvider(
        [
            call_reply(("Read", {"file_path": "thread.txt"}), usage=Usage(input_tokens=900)),
            text_reply("The thread is red.", usage=Usage(input_tokens=980, output_tokens=20)),
        ]
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "thread.txt").write_text("red\n", encoding="utf-8")
        async with InteractiveSession(
            cwd=folder, provider=model, model="scripted", clew_home=folder / "home"
        ) as session:
            session.on("text_delta", lambda text: print(text, end="", flush=True))
            session.on("tool_end", tool_ended)
            session.on("context_update", context_changed)
            session.on("complete", completed)
            await session.submit("What colour is the thread?")


if __name__ == "__main__":
    anyio.run(main)
