"""Runs `clew` in a pseudo-terminal and reads its screen through a terminal emulator."""

import codecs
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import anyio
import pyte
from pyte.screens import Char

COLUMNS, ROWS = 88, 48
_IN_TERMINAL = (
    "import os, sys; os.setsid(); import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "from clew.cli.main import main; sys.exit(main())"
)
_PATIENCE = 60
_SPINNER = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")
_DIM = "dim"


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one look, and where they begin."""

    column: int
    text: str
    colour: str = ""
    """A name of `pyte` or six hexadecimal digits; empty for the usual one."""
    background: str = ""
    bold: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False


class _Screen(pyte.HistoryScreen):
    """A screen that knows dim text."""

    def select_graphic_rendition(self, *attrs: int, **fields: bool) -> None:
        others = [one for one in attrs if one != 2]
        if others or not attrs:
            super().select_graphic_rendition(*others, **fields)
        if 2 in attrs and self.cursor.attrs.fg == "default":
            self.cursor.attrs = self.cursor.attrs._replace(fg=_DIM)


class Recorder:
    """Types into the program, waits for its screen, and takes pictures of it."""

    def __init__(self, side: int) -> None:
        self._side = side
        self._screen = _Screen(COLUMNS, ROWS, history=2_000)
        self._stream = pyte.Stream(self._screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def lines(self) -> list[str]:
        """Everything that was shown, down to the last line that is not empty."""
        rows = ["".join(row[x].data for x in range(COLUMNS)).rstrip() for row in self._rows()]
        return "\n".join(rows).rstrip().split("\n")

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self._side, text.encode())

    async def until(self, holds: Callable[[list[str]], bool]) -> None:
        """Read until the lines are as they should be."""
        with anyio.move_on_after(_PATIENCE):
            while not holds(self.lines):
                await anyio.wait_readable(self._side)
                data = os.read(self._side, 65_536)
                self._stream.feed(self._decoder.decode(data))
            return
        raise TimeoutError("\n".join(["the screen is:", *self.lines]))

    def take(self, first: str) -> list[list[Run]]:
        """Return the lines from the last one that begins with `first`."""
        lines = self.lines
        start = max(at for at, line in enumerate(lines) if line.startswith(first))
        rows = list(self._rows())[start : len(lines)]
        return [list(_split_runs([row[x] for x in range(COLUMNS)])) for row in rows]

    def _rows(self) -> Iterator[dict[int, Char]]:
        yield from self._screen.history.top
        for row in range(ROWS):
            yield self._screen.buffer[row]


def _split_runs(row: list[Char]) -> Iterator[Run]:
    column = 0
    for look, group in groupby(row, key=lambda char: char._replace(data="")):
        characters = list(group)
        text = _SPINNER.sub("⠹", "".join(char.data for char in characters))
        colour, background = look.fg, look.bg
        if look.reverse:
            colour, background = background, colour
            colour = "black" if colour == "default" else colour
            background = "white" if background == "default" else background
        if text.strip() or background != "default":
            yield Run(
                column=column,
                text=text.rstrip() if background == "default" else text,
                colour="" if colour == "default" else colour,
                background="" if background == "default" else background,
                bold=look.bold,
                italic=look.italics,
                underline=look.underscore,
                strike=look.strikethrough,
            )
        column += len(characters)


@asynccontextmanager
async def record(folder: Path, *arguments: str) -> AsyncIterator[Recorder]:
    """Start `clew` in a terminal of its own, in an empty home; ends it with the block."""
    project, home = folder / "project", folder / "home"
    home.mkdir()
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    kept = {
        name: os.environ[name]
        for name in ("PATH", "PYTHONPATH", "CLEW_CACHE")
        if name in os.environ
    }
    env = {"HOME": str(home), "CLEW_HOME": str(home / ".clew"), "TERM": "xterm-256color"}
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            [sys.executable, "-c", _IN_TERMINAL, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**kept, **env, "LANG": "C.UTF-8"},
            cwd=project,
        )
    os.close(theirs)
    try:
        yield Recorder(ours)
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()
        os.close(ours)
