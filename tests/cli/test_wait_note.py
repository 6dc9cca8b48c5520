"""The note of print mode: only on a terminal, only in silence, and gone before the answer."""

import io

import pytest

from clew.cli.wait_note import WaitNote

pytestmark = pytest.mark.req("CLI-2")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_silence_is_explained_until_the_answer_begins() -> None:
    screen, clock = Terminal(), Clock()
    note = WaitNote(screen, clock=clock)

    clock.now = 1.0
    note.update("small\x1b[2J")
    assert screen.getvalue() == ""

    clock.now = 4.0
    note.update("small\x1b[2J")
    assert screen.getvalue() == "\r\x1b[Kwaiting for small␛[2J … 4 s"

    note.end()
    clock.now = 9.0
    note.update("small")
    assert screen.getvalue().endswith("4 s\r\x1b[K")


def test_another_message_erases_the_note_and_restarts_the_silence() -> None:
    screen, clock = Terminal(), Clock()
    note = WaitNote(screen, clock=clock)
    clock.now = 3.0
    note.update("m")

    note.restart()
    clock.now = 4.0
    note.update("m")

    assert screen.getvalue() == "\r\x1b[Kwaiting for m … 3 s\r\x1b[K"


@pytest.mark.anyio
async def test_without_a_terminal_nothing_is_written() -> None:
    file, clock = io.StringIO(), Clock()
    note = WaitNote(file, clock=clock)
    clock.now = 100.0

    note.update("m")
    await note.run("m")

    assert file.getvalue() == ""
