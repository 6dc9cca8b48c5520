"""The interactive prompt in a real pseudo-terminal."""

import os
import pty
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from clew.testing.fake_openai import Answer, Stall, calls, delta, fake_openai, says

pytestmark = pytest.mark.anyio

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """A process in a pseudo-terminal: type into it, wait for what it shows."""

    def __init__(self, side: int) -> None:
        self._side = side
        self.screen = ""
        self._seen = 0

    async def shows(self, text: str) -> None:
        """Wait until `text` appears after what was waited for last."""
        with anyio.fail_after(8, reason=f"waiting for {text!r}"):
            while text not in self.screen[self._seen :]:
                await anyio.wait_readable(self._side)
                self.screen += os.read(self._side, 65_536).decode(errors="replace")
        self._seen = self.screen.index(text, self._seen) + len(text)

    def types(self, text: str) -> None:
        """Send keys."""
        os.write(self._side, text.encode())


@asynccontextmanager
async def clew(*arguments: str, cwd: Path) -> AsyncIterator[tuple[Terminal, anyio.abc.Process]]:
    ours, theirs = pty.openpty()
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "TERM": "xterm", "NO_COLOR": "1"}
    command = [
        *(sys.executable, "-c"),
        "import os, sys; os.setsid(); import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        "from clew.cli.main import main; sys.exit(main())",
        *arguments,
    ]
    async with await anyio.open_process(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd
    ) as process:
        os.close(theirs)
        try:
            yield Terminal(ours), process
        finally:
            if process.returncode is None:
                process.kill()
            os.close(ours)


@pytest.mark.req("CLI-1", "CMP-10")
async def test_talk_commands_and_leaving(tmp_path: Path) -> None:
    async with (
        fake_openai(says("Hello", " friend")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, process),
    ):
        await terminal.shows("> ")
        terminal.types("hi there\n")
        await terminal.shows("Hello friend")
        await terminal.shows("context [")
        terminal.types("/help\n")
        await terminal.shows("/compact")
        terminal.types("!echo from the shell\n")
        await terminal.shows("from the shell")
        terminal.types("/recall shell\n")
        await terminal.shows("from the shell")
        terminal.types("/context\n")
        await terminal.shows("tools ")
        terminal.types("/nonsense\n")
        await terminal.shows("there is no command /nonsense")
        terminal.types("/clear\n")
        await terminal.shows("begins anew")
        terminal.types("/undo\n")
        await terminal.shows("the clear")
        terminal.types("/pin #2\n")
        await terminal.shows("#2 will survive")
        terminal.types("/unpin #2\n")
        await terminal.shows("no longer pinned")
        terminal.types("/pin two\n")
        await terminal.shows("name an entry by its number")
        terminal.types("/compact\n")
        await terminal.shows("clew: nothing can be compacted")
        await terminal.shows("> ")
        terminal.types(CTRL_D)
        await terminal.shows("clew --resume")
        with anyio.fail_after(10):
            assert await process.wait() == 0


@pytest.mark.req("PRV-3", "CLI-1")
async def test_ctrl_c_aborts_the_run_and_twice_at_the_prompt_leaves(tmp_path: Path) -> None:
    stall = Stall()
    half = Answer(steps=[delta(content="Half an answer"), stall])
    async with (
        fake_openai(half, says("whole")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, process),
    ):
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("Half an answer")
        terminal.types(CTRL_C)
        await terminal.shows("aborted; what had arrived is kept")
        terminal.types("go on\n")
        await terminal.shows("whole")
        await terminal.shows("> ")
        assert "Half an answer" in str(server.requests[1]["messages"])
        terminal.types(CTRL_C)
        await terminal.shows("again to leave")
        await terminal.shows("> ")
        terminal.types(CTRL_C)
        with anyio.fail_after(10):
            assert await process.wait() == 0


@pytest.mark.req("PRM-3")
async def test_a_question_is_asked_before_a_command_runs(tmp_path: Path) -> None:
    async with (
        fake_openai(
            calls("Bash", '{"command":"touch yes.txt"}', call_id="c1"),
            says("one"),
            calls("Bash", '{"command":"touch no.txt"}', call_id="c2"),
            says("two"),
        ) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, _),
    ):
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("Bash wants to run: touch yes.txt")
        await terminal.shows("allow?")
        terminal.types("y\n")
        await terminal.shows("one")
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("allow?")
        terminal.types("n\n")
        await terminal.shows("the user said no")
        await terminal.shows("two")
    assert (tmp_path / "yes.txt").exists()
    assert not (tmp_path / "no.txt").exists()
