"""What a terminal can do beyond text: synchronized updates, titles, notifications, editors."""

import io
import os
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Size

from clew.sdk.status_command import run_status_command
from clew.testing.fake_openai import fake_openai, text_response
from clew.tui.custom_status import CustomStatus, describe_status
from clew.tui.external_editor import edit_text, find_editor
from clew.tui.notifications import Notifier
from clew.tui.options import Notify, TerminalOptions, load_options
from clew.tui.status import SessionStatus
from clew.tui.terminal import FrameOutput, ReplyFilter, can_query, does_reflow
from tests.tui.emulated import Place, clew_for
from tests.tui.window import stage

pytestmark = pytest.mark.anyio


class Screen(io.StringIO):
    encoding = "utf-8"


def make_output(screen: Screen) -> FrameOutput:
    return FrameOutput(screen, lambda: Size(rows=20, columns=60), term="xterm", enable_cpr=False)


def test_updates_are_synchronized_only_after_the_terminal_confirmed_it() -> None:
    screen = Screen()
    output = make_output(screen)

    with output.frame():
        output.write_raw("one ")
        output.flush()
        output.write_raw("frame is written at once")
    output.synchronized = True
    with output.frame():
        output.write_raw("and another one")

    assert screen.getvalue() == (
        "one frame is written at once\x1b[?2026hand another one\x1b[?2026l"
    )


@given(
    before=st.text(alphabet="ab\r\x1b[A", max_size=6),
    after=st.text(alphabet="ab\r", max_size=6),
    code=st.sampled_from("01234"),
    cut=st.integers(3, 11),
)
def test_the_reply_of_the_terminal_is_no_key(before: str, after: str, code: str, cut: int) -> None:
    reply = f"\x1b[?2026;{code}$y"
    replies = ReplyFilter()

    keys = replies.feed(before + reply[:cut]) + replies.feed(reply[cut:] + after)

    assert keys + replies.release() == before + after
    assert replies.synchronized is (code in "12")


def test_keys_that_look_like_the_start_of_a_reply_are_not_lost() -> None:
    replies = ReplyFilter()

    assert replies.feed("a\x1b[?") == "a"
    assert replies.release() == "\x1b[?"


def test_only_terminals_that_ignore_unknown_queries_are_asked() -> None:
    assert [can_query(term) for term in ("xterm-256color", "tmux-256color", "linux", "dumb")] == [
        *(True, True, False, False)
    ]
    assert does_reflow({"TMUX": "/tmp/x"})
    assert does_reflow({"TERM_PROGRAM": "iTerm.app"})
    assert not does_reflow({"TERM": "xterm"})


@pytest.mark.req("TUI-1")
@pytest.mark.parametrize(
    ("how", "term", "shown"),
    [
        ("both", "xterm", "\x1b]9;done\x1b\\\x07"),
        ("bell", "xterm", "\x07"),
        ("osc9", "xterm", "\x1b]9;done\x1b\\"),
        ("off", "xterm", ""),
        ("both", "linux", "\x07"),
    ],
)
def test_the_user_is_told_after_some_time_without_a_key(how: Notify, term: str, shown: str) -> None:
    screen, now = Screen(), [0.0]
    options = TerminalOptions(notify=how, title=False)
    notifier = Notifier(make_output(screen), options, term=term, clock=lambda: now[0])

    notifier.notify("too early")
    now[0] = 11.0
    notifier.notify("done")
    notifier.note_key()
    notifier.notify("too early again")

    assert screen.getvalue() == shown


def test_titles_and_copies_hold_no_control_sequence_of_others() -> None:
    screen = Screen()
    output = make_output(screen)
    notifier = Notifier(output, TerminalOptions(), term="xterm")

    notifier.set_title("clew \x1b]0;owned\x07")
    notifier.copy("\x1b[2J")
    notifier.clear_title()

    assert screen.getvalue() == (
        "\x1b]2;clew ␛]0;owned␇\x1b\\\x1b]52;c;G1sySg==\x1b\\\x1b]2;\x1b\\"
    )


@pytest.mark.parametrize(
    ("term", "text", "told"),
    [
        ("xterm", "short", "copied to the clipboard"),
        ("xterm", "x" * 80_000, "only 74,994 of 80,000 bytes were copied"),
        ("linux", "short", "not copied"),
    ],
)
def test_a_copy_says_whether_it_is_on_the_clipboard(term: str, text: str, told: str) -> None:
    screen = Screen()

    notice = Notifier(make_output(screen), TerminalOptions(), term=term).copy(text)

    assert notice.text.startswith(told)
    assert bool(screen.getvalue()) is (term == "xterm")


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
async def test_a_status_command_reads_facts_and_has_little_time(tmp_path: Path) -> None:
    facts = describe_status(SessionStatus(model="m1", mode="plan", cost_usd=0.5), cwd="/x")
    read = (
        f"{sys.executable} -c \"import json,sys; f=json.load(sys.stdin); print(f['model']['id'])\""
    )

    assert await run_status_command(read, facts, cwd=tmp_path) == "m1"
    assert await run_status_command("echo one; echo two", facts, cwd=tmp_path) == "one"
    assert await run_status_command("exit 3", facts, cwd=tmp_path) == ""
    with anyio.fail_after(60):
        assert await run_status_command("sleep 600", facts, cwd=tmp_path) == ""


def test_the_editor_of_the_user_gets_the_input(tmp_path: Path) -> None:
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys; p = sys.argv[-1]; t = open(p).read(); open(p, 'w').write(t + ' more\\n')"
    )

    assert find_editor({"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert find_editor({"VISUAL": "'", "EDITOR": "vi"}) == ["vi"]
    assert find_editor({}) == []
    assert edit_text("text", [sys.executable, str(script)]) == "text more"
    assert edit_text("text", [sys.executable, "-c", "raise SystemExit(1)"]) is None
    assert edit_text("text", [str(tmp_path / "nothing")]) is None


@pytest.mark.req("CFG-1")
def test_the_settings_of_the_terminal_come_from_the_user_until_a_folder_is_trusted(
    tmp_path: Path,
) -> None:
    place = Place.below(tmp_path)
    environ = {"CLEW_HOME": str(place.home / "clew")}
    place.write(".clew/settings.json", '{"statusLine": {"command": "touch bad"}}')
    (place.home / "clew").mkdir()
    (place.home / "clew" / "settings.json").write_text(
        '{"terminal": {"viMode": true, "theme": "light", "notify": "off"}}'
    )

    options = load_options(place.project, environ)

    assert (options.vi, options.theme, options.notify) == (True, "light", "off")
    assert options.status_command == ""


@pytest.mark.req("TUI-1")
@pytest.mark.parametrize("term", ["tmux-256color", "linux"])
async def test_other_terminals_work_and_get_only_what_they_know(tmp_path: Path, term: str) -> None:
    place = Place.below(tmp_path)
    async with (
        fake_openai(text_response("Hello")) as server,
        clew_for(place, "--base-url", server.url, "--model", "gpt-4o", TERM=term) as person,
    ):
        await person.until(lambda: person.line == ">" and "context" in person.status)
        person.enters("hi")
        await person.sees("❯ hi", "Hello")

    assert ("\x1b]" in person.raw, "\x1b[?2026$p" in person.raw) == (term != "linux",) * 2


async def test_a_window_of_a_few_rows_shows_the_input(tmp_path: Path) -> None:
    for rows in (1, 2, 3, 5):
        async with stage(tmp_path, columns=12, rows=rows) as seen:
            await seen.press("abc")
            assert any("abc" in line for line in seen.window.lines_so_far), rows


@pytest.mark.req("TUI-3")
def test_the_status_command_also_sees_a_change_that_follows_soon(tmp_path: Path) -> None:
    class Caller:
        def __init__(self) -> None:
            self.calls: list[Callable[[Future[str]], None]] = []
            self.timers: list[Callable[[], None]] = []

        def call(
            self, work: Callable[[], Awaitable[str]], done: Callable[[Future[str]], None]
        ) -> None:
            self.calls.append(done)

        def later(self, seconds: float, work: Callable[[], None]) -> None:
            self.timers.append(work)

    caller, ended, times = Caller(), Future[str](), [0.0]
    ended.set_result("a line")
    status = CustomStatus("show", padding=0, cwd=tmp_path, clock=lambda: times[-1])
    status.update(SessionStatus(model="m", mode="default"), caller)
    caller.calls[0](ended)
    times.append(0.1)
    status.update(SessionStatus(model="m", mode="plan"), caller)
    status.update(SessionStatus(model="m", mode="plan", name="x"), caller)
    assert (len(caller.calls), len(caller.timers)) == (1, 1)
    times.append(0.3)
    caller.timers[0]()
    assert len(caller.calls) == 2
