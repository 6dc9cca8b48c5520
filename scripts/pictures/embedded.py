"""A session on the embedded model; its words differ from run to run, so no test compares it."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from clew.providers.embedded.model_file import model_path
from scripts.pictures.recorder import Recorder, record
from scripts.pictures.svg import draw_terminal

NAME = "agents-embedded"
_AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")


async def record_embedded() -> str:
    """Return the SVG of two background agents, one in a worktree: listed, read and stopped."""
    os.environ["CLEW_CACHE"] = str(model_path().parent.parent)
    with TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        (project / "notes.txt").write_text("one\n")
        for command in (["init", "-q"], ["add", "-A"], [*_AUTHOR, "commit", "-q", "-m", "first"]):
            await anyio.run_process(["git", *command], cwd=project)
        flags = ("--model", "smollm2-135m", "--sandbox", "off")
        async with record(Path(folder), *flags) as terminal:
            await _wait(terminal, "/help lists")
            terminal.types("/agent run --detach What is the capital of France?\r")
            await _wait(terminal, "is done")
            terminal.types("/agent run --detach --worktree Tell a very long story of a river\r")
            await _wait(terminal, "story of a river (agent-", "(general-purpose)", count=2)
            terminal.types("!git branch --list 'clew/*'\r")
            await _wait(terminal, "+ clew/")
            terminal.types("/agent list\r")
            await _wait(terminal, "completed", "running")
            done, running = (
                next(line.split()[0] for line in terminal.lines if f"  {status} " in line)
                for status in ("completed", "running")
            )
            terminal.types(f"/agent read {done}\r")
            await _wait(terminal, "[agent]")
            terminal.types(f"/agent stop {running}\r")
            await _wait(terminal, "is cancelled")
            title = "Two agents on the embedded model, one in a worktree"
            return draw_terminal(terminal.take("❯ /agent run --detach What"), title=title)


async def _wait(terminal: Recorder, *texts: str, count: int = 1) -> None:
    """Wait for an empty prompt below all texts, the last of them that many times."""

    def is_there(lines: list[str]) -> bool:
        found = [sum(text in line for line in lines) for text in texts]
        is_ready = lines[-1].startswith("smollm2") and lines[-2] == ">"
        return is_ready and all(found) and found[-1] >= count

    await terminal.until(is_there)
