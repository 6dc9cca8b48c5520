"""`clew` in a pseudo-terminal, seen through the eyes of a terminal emulator.

A person types a line and reads what it brings until nothing runs any more. So does a test:
`Person.says` returns just that. What has left the screen at its top can still be read.
"""

import codecs
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc
import pyte

from tests.cli.terminal import CTRL_C, CTRL_D
from tests.forked_clew import ForkedClew, run_clew, start_clew

__all__ = ["CTRL_C", "CTRL_D", "DOWN", "ENTER", "ESC", "TAB", "UP", "Person", "Place", "clew_for"]

UP, DOWN, ENTER, TAB, ESC = "\x1b[A", "\x1b[B", "\r", "\t", "\x1b"
COLUMNS, ROWS = 100, 40
_PROMPT = "> "
_ASKS = "press a key, or"
_PATIENCE = 60
_QUERY, _REPLY = "\x1b[?2026$p", "\x1b[?2026;2$y"
_FRAME, _FRAME_END = "\x1b[?2026h", "\x1b[?2026l"
_KEPT = 5_000


@dataclass(frozen=True, slots=True)
class Place:
    """A project's folder and a home of its own, in which nothing is configured."""

    project: Path
    home: Path

    @classmethod
    def below(cls, folder: Path) -> "Place":
        """Make both in `folder`."""
        place = cls(folder / "project", folder / "home")
        place.project.mkdir()
        place.home.mkdir()
        return place

    @property
    def env(self) -> dict[str, str]:
        """All that a process gets to know of this machine."""
        kept = ("PATH", "PYTHONPATH", "COVERAGE_PROCESS_START")
        known = {name: os.environ[name] for name in kept if name in os.environ}
        return {
            **known,
            "HOME": str(self.home),
            "CLEW_HOME": str(self.home / "clew"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }

    async def runs(self, *arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        """Run `clew` without a terminal."""
        with anyio.fail_after(60):
            done = await run_clew(arguments, env=self.env, cwd=self.project, input=typed.encode())
        return subprocess.CompletedProcess(
            arguments, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


class Person:
    """Types, and reads the screen."""

    def __init__(
        self, side: int, process: ForkedClew, columns: int = COLUMNS, rows: int = ROWS
    ) -> None:
        self._side = side
        self.process = process
        self.screen = pyte.HistoryScreen(columns, rows, history=_KEPT)
        self._stream = pyte.Stream(self.screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.raw = ""
        """Everything that the program has written."""
        self._line = 0
        """The first line that the last sent line has brought."""
        self._has_replied = False

    @property
    def lines(self) -> list[str]:
        """All lines so far, down to the last that is not empty."""
        columns = range(self.screen.columns)
        gone = ["".join(line[x].data for x in columns) for line in self.screen.history.top]
        shown = "\n".join(line.rstrip() for line in (*gone, *self.screen.display))
        return shown.rstrip().split("\n")

    @property
    def is_idle(self) -> bool:
        """True when the prompt is there, empty, and nothing runs."""
        title = self.screen.title
        waits = title.startswith("clew ·") and not title.endswith((" · works", " · asks"))
        return waits and self._here() == _PROMPT and " · " in self.lines[-1]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Read until the screen is as it should be, and nothing is half drawn."""
        there = not self._is_drawing and holds()
        with anyio.move_on_after(_PATIENCE):
            while not there and await self._read_on():
                there = not self._is_drawing and holds()
        assert there, "\n".join([f"the screen of {self.screen.title!r} is:", *self.lines])

    async def sees(self, *texts: str) -> list[str]:
        """Wait until all of `texts` are on lines since the last sent line; returns these lines."""
        await self.until(lambda: all(text in "\n".join(self._since()) for text in texts))
        return self._since()

    async def asked(self, question: str = "") -> list[str]:
        """Wait until a question takes keys; returns the lines of the live area and above."""
        await self.until(lambda: question in (text := "\n".join(self._since())) and _ASKS in text)
        return self._since()

    async def answers(self, key: str) -> None:
        """Answer the open question, and see it gone."""
        self.types(key)
        await self.until(lambda: _ASKS not in "\n".join(self._since()))

    async def prompted(self) -> list[str]:
        """Wait until nothing runs; returns what stands between the two prompts."""
        await self.until(lambda: self.is_idle)
        return _strip(self._since()[: self._row() - self._line])

    async def says(self, line: str) -> list[str]:
        """Send a line at the prompt; returns what it brings, without the line itself."""
        await self.until(lambda: self.is_idle)
        return await self.sends(line)

    async def sends(self, line: str = "") -> list[str]:
        """Press Enter after the line that is typed, and more; returns what it brings."""
        self.enters(line)
        await self.until(lambda: any(one.startswith("❯ ") for one in self._since()))
        shown = await self.prompted()
        first = next(place for place, one in enumerate(shown) if one.startswith("❯ "))
        if shown[first].startswith("❯ !"):  # a shell command, directly above its output
            return shown[first:]
        while shown[first + 1 : first + 2] and shown[first + 1].startswith("  "):
            first += 1  # further lines of what was sent
            if not shown[first + 1 : first + 2] or not shown[first + 1]:
                break
        return _strip(shown[first + 1 :])

    def enters(self, line: str) -> None:
        """Send a line; what it brings is read from here on."""
        self._line = self._top()
        self.types(line.replace("\n", "\x1b\r") + ENTER)

    def types(self, text: str) -> None:
        """Press keys."""
        data = text.encode()
        while data:
            data = data[os.write(self._side, data[:1_000]) :]

    def pastes(self, text: str) -> None:
        """Paste, as a terminal does it."""
        self.types(f"\x1b[200~{text}\x1b[201~")

    def resizes(self, columns: int, rows: int = ROWS) -> None:
        """Change the size of the window."""
        self.screen.resize(rows, columns)
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def status(self) -> str:
        """The line below the prompt."""
        return self.lines[-1]

    @property
    def line(self) -> str:
        """The line of the cursor."""
        return self.screen.display[self.screen.cursor.y].rstrip()

    def colour(self, text: str) -> str:
        """Return the colour of a text on the screen, where it stands last."""
        colour: str = self._sign(text).fg
        return colour

    def is_bold(self, text: str) -> bool:
        """Is a text on the screen bold, where it stands last?"""
        bold: bool = self._sign(text).bold
        return bold

    async def leaves(self) -> list[str]:
        """Press Ctrl-D, and wait for the end; returns the last words."""
        await self.until(lambda: self.is_idle)
        self._line = self._top()
        self.types(CTRL_D)
        return await self.is_left()

    async def is_left(self) -> list[str]:
        """Wait until the process has ended well; returns what it said since the last prompt."""
        with anyio.fail_after(_PATIENCE):
            while await self._read_on():
                pass
            assert await self.process.wait() == 0
        return _strip(self._since())

    async def _read_on(self) -> bool:
        await anyio.wait_readable(self._side)
        try:
            data = os.read(self._side, 65_536)
        except OSError:  # the other side is closed, and all that it wrote is read
            return False
        text = self._decoder.decode(data)
        self.raw += text
        self._stream.feed(text)
        if not self._has_replied and _QUERY in self.raw:  # as terminals do that people use
            self._has_replied = True
            self.types(_REPLY)
        return bool(data)

    @property
    def _is_drawing(self) -> bool:
        """True when only a part of a frame has been read."""
        return self.raw.rfind(_FRAME) > self.raw.rfind(_FRAME_END)

    def _sign(self, text: str) -> pyte.screens.Char:
        row = max(y for y, line in enumerate(self.screen.display) if text in line)
        return self.screen.buffer[row][self.screen.display[row].index(text)]

    def _row(self) -> int:
        return len(self.screen.history.top) + self.screen.cursor.y

    def _top(self) -> int:
        """The first line behind what is printed, when nothing runs."""
        row = self._row()
        while row and not self.lines[row].startswith(_PROMPT.strip()):
            row -= 1
        while row and not self.lines[row - 1]:
            row -= 1
        return row

    def _here(self) -> str:
        """The line of the cursor, up to the cursor."""
        row = self.screen.buffer[self.screen.cursor.y]
        return "".join(row[x].data for x in range(self.screen.cursor.x))

    def _since(self) -> list[str]:
        return self.lines[self._line :]


def _strip(lines: list[str]) -> list[str]:
    """Return the lines without empty ones at both ends."""
    text = "\n".join(lines).strip("\n")
    return text.split("\n") if text else []


@asynccontextmanager
async def clew_for(
    place: Place, *arguments: str, columns: int = COLUMNS, rows: int = ROWS, **env: str
) -> AsyncIterator[Person]:
    """Start `clew` in a terminal of its own; ends it with the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    named = {**place.env, **env}
    try:
        async with start_clew(
            arguments, [theirs] * 3, env=named, cwd=place.project, in_terminal=True
        ) as process:
            yield Person(ours, process, columns, rows)
    finally:
        os.close(ours)
