"""The line editor in a real pseudo-terminal, seen through the eyes of a terminal emulator."""

import fcntl
import os
import pty
import re
import signal
import stat
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import msgspec
import pyte
import pytest

from clew.cli.editor import LineEditor
from clew.cli.editor_protocol import (
    CommandItem,
    Completion,
    complete_command,
    complete_mention,
    find_mention,
)
from clew.cli.status import SessionStatus
from clew.sdk.prompt_history import PromptHistory

pytestmark = pytest.mark.anyio

COLUMNS, LINES = 60, 20
UP, DOWN, ESCAPE, ENTER, TAB = "\x1b[A", "\x1b[B", "\x1b", "\r", "\t"
CTRL_C, CTRL_D, CTRL_J, CTRL_R = "\x03", "\x04", "\n", "\x12"
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)[0-7](?:;\d+)*m")

SCRIPT = """
import fcntl, os, signal, sys, termios
if "--without" in sys.argv:
    sys.modules["prompt_toolkit"] = None
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from pathlib import Path
from anyio import sleep_forever
from anyio.from_thread import start_blocking_portal
from clew.cli.editor import LineEditor
from clew.cli.editor_protocol import CommandItem, complete_command
from clew.cli.status import SessionStatus
from clew.core.context_state import Basis, Breakdown, ContextState, Status

def interrupted(number, frame):
    print("our own handler", flush=True)

OFFERS = (
    CommandItem("compact", "make the view smaller", (CommandItem("preview"), CommandItem("undo"))),
    CommandItem("context", "show what fills the context window"),
    CommandItem("help", "list the commands"),
)
STATE = ContextState(
    max_tokens=1_000, used_tokens=800, status=Status.WARNING, basis=Basis.EXACT,
    breakdown=Breakdown(user=800),
)
editor = LineEditor(
    Path("history"),
    complete=lambda line: complete_command(line, OFFERS),
    status=lambda: SessionStatus(model="m-1", mode="plan", name="迷宮", context=STATE),
)
signal.signal(signal.SIGINT, interrupted)
before = termios.tcgetattr(0)
with start_blocking_portal() as portal:
    forever = portal.start_task_soon(sleep_forever)
    while True:
        if "--wait" in sys.argv:
            print("type ahead", flush=True)
            signal.sigwait({signal.SIGUSR1})
        try:
            read = editor.ask if "--ask" in sys.argv else editor.read
            print("got", ascii(read(os.environ.get("PROMPT", "> "))), flush=True)
        except KeyboardInterrupt:
            print("broken off", flush=True)
        except EOFError:
            print("left", flush=True)
            break
        finally:
            assert termios.tcgetattr(0) == before
            assert signal.getsignal(signal.SIGINT) is interrupted
    forever.cancel()
"""


class Stage:
    """A process in a pseudo-terminal, and what a person sees of it."""

    def __init__(self, side: int, process: anyio.abc.Process) -> None:
        self._side = side
        self.process = process
        self.raw = ""
        self.screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.Stream(self.screen)

    @property
    def lines(self) -> list[str]:
        """The lines of the screen down to the last that is not empty."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().split("\n")

    async def until(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """Wait until the screen is as it should be."""
        with anyio.move_on_after(8) as scope:
            while not holds(self.lines):
                await anyio.wait_readable(self._side)
                text = os.read(self._side, 65_536).decode(errors="replace")
                self.raw += text
                self._stream.feed(text)
        assert not scope.cancelled_caught, "\n".join(["the screen is:", *self.lines])
        return self.lines

    async def shows(self, *lines: str) -> None:
        """Wait until these are the last lines."""
        await self.until(lambda seen: tuple(seen[-len(lines) :]) == lines)

    def types(self, text: str) -> None:
        os.write(self._side, text.encode())

    async def ends(self) -> None:
        with anyio.fail_after(60):
            assert await self.process.wait() == 0


STATUS = "m-1 · plan · 迷宮 · context 80% · 800/1,000 tokens"


@asynccontextmanager
async def stage(folder: Path, *arguments: str, **env: str) -> AsyncIterator[Stage]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    base = {"HOME": str(folder), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    async with await anyio.open_process(
        [sys.executable, "-c", SCRIPT, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**kept, **base, **env},
        cwd=folder,
    ) as process:
        os.close(theirs)
        try:
            yield Stage(ours, process)
        finally:
            if process.returncode is None:
                process.kill()
            os.close(ours)


@pytest.mark.req("CLI-1")
async def test_a_line_is_edited_sent_and_the_terminal_left_clean(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("hallo\x1b[D\x1b[D\x1b[D\x1b[D\x7f" + "h\x1b[3~e")  # hallo: a becomes e
        await at.shows("> hello", STATUS)
        at.types(ENTER)
        await at.shows("> hello", "got 'hello'", ">", STATUS)
        at.types(CTRL_D)
        await at.until(lambda seen: seen[-1] == "left")
        await at.ends()

    assert at.lines == ["> hello", "got 'hello'", ">", "left"]
    assert not at.screen.cursor.hidden
    assert at.raw.rindex("\x1b[?2004l") > at.raw.rindex("\x1b[?2004h")
    assert "\x1b[6n" not in at.raw


async def test_commands_are_offered_while_one_types_and_completed_by_tab(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("/co")
        shown = await at.until(lambda seen: len(seen) == 4)
        assert [" ".join(line.split()) for line in shown[:3]] == [
            "> /co",
            "/compact make the view smaller",
            "/context show what fills the context window",
        ]
        assert shown[3] == STATUS
        at.types("mp")
        await at.until(lambda seen: len(seen) == 3)
        at.types(TAB)
        await at.shows("> /compact", STATUS)
        at.types(" ")
        shown = await at.until(lambda seen: len(seen) == 4)
        assert [line.strip() for line in shown[1:3]] == ["preview", "undo"]
        at.types("u" + TAB)
        await at.shows("> /compact undo", STATUS)
        at.types(ENTER)
        await at.shows("> /compact undo", "got '/compact undo'", ">", STATUS)


async def test_a_line_of_the_menu_is_chosen_with_keys_and_taken_with_enter(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("/co")
        await at.until(lambda seen: len(seen) == 4)
        at.types(DOWN + DOWN)
        await at.until(lambda seen: seen[0] == "> /context")
        at.types(ENTER)
        await at.shows("> /context", STATUS)
        at.types(ENTER)
        await at.until(lambda seen: "got '/context'" in seen)


async def test_files_are_completed_after_an_at_sign(tmp_path: Path) -> None:
    (tmp_path / "source" / "inner").mkdir(parents=True)
    (tmp_path / "source" / "inner" / "a thread.txt").touch()
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("look at @so" + TAB + "in" + TAB)
        await at.until(lambda seen: seen[0] == "> look at @source/inner/")
        at.types(TAB)
        await at.until(lambda seen: seen[0] == '> look at @"source/inner/a thread.txt"')
        at.types(ENTER)
        await at.until(lambda seen: "got 'look at @\"source/inner/a thread.txt\"'" in seen)


async def test_history_is_found_with_up_and_by_searching_in_the_next_process(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("the minotaur sleeps" + ENTER)
        await at.shows("got 'the minotaur sleeps'", ">", STATUS)
        at.types("two" + CTRL_J + "lines" + ENTER)
        await at.shows("got 'two\\nlines'", ">", STATUS)
        at.types(CTRL_D)
        await at.until(lambda seen: seen[-1] == "left")
        await at.ends()

    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types(UP)
        await at.shows("> two", "  lines", STATUS)
        at.types(CTRL_C)
        await at.until(lambda seen: "broken off" in seen and seen[-1] == STATUS)
        at.types(CTRL_R + "MINO")
        await at.until(lambda seen: seen[-2] == "search: MINO")
        assert at.lines[-3] == "> the minotaur sleeps"
        at.types(ENTER)
        await at.shows("> the minotaur sleeps", STATUS)
        at.types(ENTER)
        await at.until(lambda seen: "got 'the minotaur sleeps'" in seen)


async def test_a_paste_of_several_lines_is_one_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("\x1b[200~first\r\nsecond\n/third\x1b[201~")
        await at.shows("> first", "  second", "  /third", STATUS)
        at.types(ENTER)
        await at.until(lambda seen: "got 'first\\nsecond\\n/third'" in seen)


async def test_alt_enter_begins_another_line(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("one" + ESCAPE + ENTER + "two" + CTRL_J + "three")
        await at.shows("> one", "  two", "  three", STATUS)
        at.types(ENTER)
        await at.until(lambda seen: "got 'one\\ntwo\\nthree'" in seen)


async def test_wide_characters_take_two_columns(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("迷宮の糸")
        await at.shows("> 迷宮の糸", STATUS)
        assert at.screen.cursor.x == len("> ") + 2 * 4
        at.types("\x1b[D\x1b[D\x7f")
        await at.shows("> 迷の糸", STATUS)
        assert at.screen.cursor.x == len("> ") + 2
        at.types(ENTER)
        await at.until(lambda seen: f"got {'迷の糸'!a}" in seen)


async def test_a_long_line_is_wrapped_and_stays_whole(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("x" * 70)
        await at.shows(f"> {'x' * 58}", f"  {'x' * 12}", STATUS)


@pytest.mark.parametrize("how", ["--ask", ""])
async def test_a_prompt_too_wide_for_the_window_is_shown_above_the_line(
    tmp_path: Path, how: str
) -> None:
    words = "which of all the doors of the labyrinth shall be opened now, if any: "
    async with stage(tmp_path, how, PROMPT=words) as at:
        first, second = "which of all the doors of the labyrinth shall be opened now,", "if any:"
        await at.until(lambda seen: seen[:2] == [first, second])
        at.types("the third" + ENTER)
        await at.until(lambda seen: "got 'the third'" in seen)
        assert at.lines[2] == "the third"


@pytest.mark.req("CLI-1")
async def test_ctrl_c_and_the_signal_break_a_line_off_and_give_the_handler_back(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("half" + CTRL_C)
        await at.shows("> half", "broken off", ">", STATUS)
        at.process.send_signal(signal.SIGINT)
        await at.until(lambda seen: seen.count("broken off") == 2 and seen[-1] == STATUS)
        at.types("whole" + ENTER)
        await at.until(lambda seen: "got 'whole'" in seen)


async def test_ctrl_d_in_a_line_deletes_and_does_not_exit(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("ab\x01" + CTRL_D)
        await at.shows("> b", STATUS)


async def test_typeahead_is_not_lost(tmp_path: Path) -> None:
    async with stage(tmp_path, "--wait") as at:
        await at.until(lambda seen: "type ahead" in seen)
        at.types("early" + ENTER)
        await at.until(lambda seen: "early" in "".join(seen))
        at.process.send_signal(signal.SIGUSR1)
        await at.until(lambda seen: "got 'early'" in seen)
        assert "> early" in at.lines


async def test_lines_that_arrive_together_are_read_one_by_one(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        at.types("one" + ENTER + "two" + ENTER + "thr")
        await at.until(lambda seen: "got 'two'" in seen)
        at.types("ee" + ENTER)
        await at.until(lambda seen: "got 'three'" in seen)


async def test_typeahead_does_not_answer_a_question(tmp_path: Path) -> None:
    async with stage(tmp_path, "--wait", "--ask") as at:
        await at.until(lambda seen: "type ahead" in seen)
        at.types("yes" + ENTER)
        await at.until(lambda seen: "yes" in "".join(seen))
        at.process.send_signal(signal.SIGUSR1)
        await at.until(lambda seen: seen[-1] == ">")
        at.types("no" + ENTER)
        await at.until(lambda seen: "got 'no'" in seen)

    assert not (tmp_path / "history").exists()


async def test_no_color_is_obeyed(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        await at.shows(">", STATUS)
        row = at.screen.buffer[at.screen.cursor.y + 1]
        share = STATUS.replace("迷宮", "....").index("80%")
        assert row[share].fg == "brown"  # what pyte calls yellow

    async with stage(tmp_path, NO_COLOR="1") as at:
        await at.shows(">", STATUS)
        at.types("/co")
        await at.until(lambda seen: len(seen) == 4)
        at.types(DOWN)
        await at.until(lambda seen: seen[0] == "> /compact")
    assert COLOUR.search(at.raw) is None


@pytest.mark.parametrize(
    ("argument", "term"), [("", "dumb"), ("", "unknown"), ("--without", "xterm")]
)
async def test_where_there_is_no_editing_lines_are_read_plainly(
    tmp_path: Path, argument: str, term: str
) -> None:
    async with stage(tmp_path, argument, TERM=term) as at:
        await at.until(lambda seen: seen[-1].startswith(">"))
        at.types("plain" + ENTER)
        await at.until(lambda seen: "got 'plain'" in seen)

    assert STATUS not in at.lines


def test_a_pipe_is_read_line_by_line_and_nothing_is_loaded_for_it(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from clew.cli.editor import LineEditor
editor = LineEditor(Path("history"), complete=lambda line: [], status=lambda: None)
print(editor.read(""), editor.ask(""))
try:
    editor.read("")
except EOFError:
    print("prompt_toolkit" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input="one\ntwo\n",
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )

    assert done.stdout == "one two\nFalse\n"


def test_the_history_is_private_and_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "history"
    key = "sk-ant-api03-" + "Ab3dEf6hIj" * 9

    PromptHistory(path).add(f"use {key}\nand the second line")

    assert PromptHistory(path).entries() == ["use [redacted:anthropic-key]\nand the second line"]
    assert key not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_history_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'"old"\nnot json\n\xff\n"half')
    path.chmod(0o644)

    PromptHistory(path).add("new")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PromptHistory(path).entries() == ["old", "new"]


def test_a_history_that_cannot_be_kept_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    history = PromptHistory(tmp_path / "file" / "history")

    history.add("lost")
    PromptHistory(tmp_path).add("a folder")

    assert history.entries() == []


def test_a_long_history_loses_its_older_half_and_huge_entries(tmp_path: Path) -> None:
    path = tmp_path / "history"
    line = msgspec.json.encode("x" * 99) + b"\n"
    path.write_bytes(line * 20_000)

    history = PromptHistory(path)
    history.add("y" * 20_001)
    history.add("the newest")

    assert 900_000 < path.stat().st_size < 1_100_000
    entries = history.entries()
    assert set(entries[:-1]) == {"x" * 99}
    assert entries[-1] == "the newest"


OFFERS = (
    CommandItem(
        "compact",
        "smaller",
        (CommandItem("preview"), CommandItem("undo", "back", (CommandItem("all"),))),
    ),
    CommandItem("context"),
)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/", ["/compact", "/context"]),
        ("/CO", ["/compact", "/context"]),
        ("/com", ["/compact"]),
        ("/x", []),
        ("/compact ", ["preview", "undo"]),
        ("/compact  u", ["undo"]),
        ("/Compact undo ", ["all"]),
        ("/context ", []),
        ("/nothing ", []),
    ],
)
def test_commands_and_subcommands_are_completed(line: str, found: list[str]) -> None:
    assert [one.text for one in complete_command(line, OFFERS)] == found


def test_a_completion_has_a_description() -> None:
    assert complete_command("/com", OFFERS) == [Completion("/compact", meta="smaller")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@", "@"),
        ("see @src/ma", "@src/ma"),
        ("line\n@x", "@x"),
        ('see @"a b', '@"a b'),
        ("mail me@home", ""),
        ("@done ", ""),
        ('@"closed"', ""),
        ("no", ""),
    ],
)
def test_a_mention_is_the_last_word_with_an_at_sign(text: str, found: str) -> None:
    assert find_mention(text) == found


def test_names_that_a_terminal_would_obey_or_that_are_hidden_are_not_offered(
    tmp_path: Path,
) -> None:
    for name in ("Plain", "with space", ".hidden", "bad\x1b[2J", "bad\nname", 'quo"te'):
        (tmp_path / name).touch()
    (tmp_path / "a folder").mkdir()

    assert complete_mention("@", tmp_path) == [
        ('@"a folder/', "a folder/"),
        ("@Plain", "Plain"),
        ('@"with space"', "with space"),
    ]
    assert complete_mention("@.", tmp_path) == [("@.hidden", ".hidden")]
    assert complete_mention("@pl", tmp_path) == [("@Plain", "Plain")]
    assert complete_mention("@nothing/", tmp_path) == []
    assert complete_mention("@~nobody-at-all/", tmp_path) == []
    assert complete_mention(f"@{tmp_path}/Pl", Path("/")) == [(f"@{tmp_path}/Plain", "Plain")]


def test_nothing_is_opened_before_a_line_is_read(tmp_path: Path) -> None:
    LineEditor(
        tmp_path / "history",
        complete=lambda line: [],
        status=lambda: SessionStatus(model="m", mode="default"),
    )

    assert list(tmp_path.iterdir()) == []
