"""`clew` in a real pseudo-terminal: type into it, wait for what it shows."""

import codecs
import os
import pty
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel

from tests.forked_clew import ForkedClew, start_clew

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """A process in a pseudo-terminal."""

    def __init__(self, side: int) -> None:
        self._side = side
        self.screen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._seen = 0

    async def shows(self, text: str) -> str:
        """Wait until `text` appears after what was waited for last; returns what came before."""
        with anyio.fail_after(60, reason=f"waiting for {text!r}"):
            while text not in self.screen[self._seen :]:
                await anyio.wait_readable(self._side)
                self.screen += self._decoder.decode(os.read(self._side, 65_536))
        start, self._seen = self._seen, self.screen.index(text, self._seen) + len(text)
        return self.screen[start : self._seen]

    async def interrupts(self, process: ForkedClew) -> None:
        """Press Ctrl-C once the process waits for keys.

        Python's readline loses a signal that comes after its prompt is written and before it
        waits (the window is there in `readline_until_enter_or_signal`), so that a test which
        answers faster than a person must see it wait.
        """
        state = Path(f"/proc/{process.pid}/stat")
        with anyio.fail_after(60):
            while state.exists() and state.read_text().rpartition(") ")[2][0] != "S":
                await anyio.lowlevel.checkpoint()
        self.types(CTRL_C)

    def types(self, text: str) -> None:
        """Send keys."""
        os.write(self._side, text.encode())


@asynccontextmanager
async def clew(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Terminal, ForkedClew]]:
    """Start `clew` in a terminal of its own; ends it with the block."""
    ours, theirs = pty.openpty()
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    base = {**kept, "HOME": str(cwd), "TERM": "dumb", "NO_COLOR": "1"}
    named = {**base, **(env or {})}
    try:
        async with start_clew(
            arguments, [theirs, theirs, theirs], env=named, cwd=cwd, in_terminal=True
        ) as process:
            yield Terminal(ours), process
    finally:
        os.close(ours)
