"""The application: any order of keys and events leaves exactly the transcript on the screen."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.core.errors import ClewError
from clew.core.events import (
    Event,
    PermissionRequest,
    PermissionResolved,
    ReasoningDelta,
    RunCompleted,
    RunFailed,
    TextDelta,
    Thinking,
    ToolEnded,
    ToolStarted,
    UserMessage,
    Warned,
)
from clew.core.ids import CallId, EntryId, RunId
from clew.core.permissions import Approval, Risk
from clew.core.results import ExecutionResult
from clew.core.task_events import BackgroundTaskEvent, TaskStage
from clew.core.tasks import TaskKind, TaskState, TaskStatus
from clew.core.todos import TodoItem
from clew.tui.blocks import Block
from clew.tui.options import TerminalOptions
from clew.tui.rendering import render_block
from clew.tui.theme import make_theme
from clew.tui.transcript import Transcript
from tests.tui.window import SNAPSHOT, STATE, Stage, draw, join_events, stage

pytestmark = pytest.mark.anyio

UP, ENTER, ESC, CTRL_C = "\x1b[A", "\r", "\x1b", "\x03"
SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?$]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
ALLOWED = re.compile(
    r"\x1b(?:\[[0-9;]*m|\[\d*[ABCDK]|\[J|\[\?(?:1|7|25|2004|2026)[hl]|\[\?2026\$p"
    r"|\](?:2|9|8|52);[^\x07\x1b]*\x1b\\)"
)


def request(number: int) -> PermissionRequest:
    return PermissionRequest(
        request_id=f"q{number}",
        tool_name="Bash",
        target=f"touch {number}",
        risk=Risk.EXECUTE,
        reason="default mode asks before calls that run commands",
    )


def tool(number: int) -> tuple[Event, Event]:
    call = CallId(f"c{number}")
    return (
        ToolStarted(call_id=call, name="Read", arguments='{"file_path": "a.py"}'),
        ToolEnded(call_id=call, name="Read", failed=False, display=f"{number}: lines"),
    )


def completed(run: str) -> Event:
    return RunCompleted(
        ExecutionResult(response="", run_id=RunId(run), context_state=STATE, stop_reason="done")
    )


def resolved(number: int) -> Event:
    return PermissionResolved(request_id=f"q{number}", approved=True)


TEXTS = st.text(alphabet="ab 漢🙂\n*`#-|", max_size=30)
EVENTS = st.one_of(
    st.builds(TextDelta, TEXTS),
    st.builds(ReasoningDelta, TEXTS),
    st.builds(Warned, st.text(alphabet="wx y", min_size=1, max_size=80)),
    st.sampled_from([*tool(1), *tool(2)]),
    st.builds(UserMessage, text=TEXTS.map(lambda text: f"p{text}")),
    st.just(completed("run1")),
    st.builds(RunFailed, message=st.just("it failed"), run_id=st.just(RunId("run1"))),
    st.integers(1, 3).map(request),
    st.integers(1, 3).map(resolved),
)
KEYS = st.sampled_from(
    [
        *(*"abynst ", "\x7f", UP, "\x1b[B", "\x1b[D", "\x1b[C", ENTER, ESC, CTRL_C, "\x01"),
        *("\x0b", "\x1b[200~two\nlines\x1b[201~", "\x1b\r", "\x0c", "\x1b[Z"),
    ]
)
REPLY: list[Event | str | None] = [request(1), None, "t"]
"""A question, seen, and the key after which the user writes to the model."""
STEPS = st.lists(
    st.one_of(st.one_of(EVENTS, KEYS, st.none()).map(lambda step: [step]), st.just(REPLY)),
    max_size=25,
).map(lambda groups: [step for group in groups for step in group])


@pytest.mark.slow("plays long random sessions")
@pytest.mark.req("TUI-1", "TUI-2")
@settings(max_examples=40, deadline=None)
@given(STEPS, st.integers(20, 70))
def test_the_scrollback_is_the_transcript_whatever_is_typed(
    steps: list[Event | str | None], columns: int
) -> None:
    async def play() -> Stage:
        with TemporaryDirectory() as folder:
            async with stage(Path(folder), columns=columns) as seen:
                for step in steps:
                    if isinstance(step, str):
                        await seen.press(step)
                    elif step is None:
                        seen.arm()
                    else:
                        await seen.receive(step)
                for block in seen.app.parts.transcript.close(0.0):
                    seen.app.parts.printer.add(block)
            return seen

    seen = anyio.run(play)

    transcript, last, text = Transcript(), None, ""
    events = [step for step in steps if step is not None and not isinstance(step, str)]
    made: list[Block] = [
        block for envelope in join_events(events) for block in transcript.apply(envelope)
    ]
    for block in (*made, *transcript.close(0.0)):
        text += render_block(block, width=columns, theme=make_theme(), after=last)
        last = block
    assert seen.window.lines_so_far == draw(text, columns=columns)
    assert {one for one in SEQUENCE.findall(seen.raw) if not ALLOWED.fullmatch(one)} == set()


@pytest.mark.slow("plays long random sessions")
@pytest.mark.req("TUI-2")
@pytest.mark.parametrize("reflows", [False, True])
@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.tuples(st.integers(24, 90), st.integers(4, 30)), max_size=25))
def test_a_storm_of_new_sizes_neither_loses_nor_repeats_a_line(
    sizes: list[tuple[int, int]],
    reflows: bool,  # noqa: FBT001
) -> None:
    async def play() -> list[str]:
        with TemporaryDirectory() as folder:
            async with stage(Path(folder), reflows=reflows) as seen:
                await seen.receive(UserMessage(text="go"), Thinking(active=True))
                await seen.press("a line that is being typed while the window changes its size")
                for number, (columns, rows) in enumerate(sizes):
                    await seen.receive(Warned(f"n{number:03}"), TextDelta("tail "))
                    await seen.resize(columns, rows)
            return seen.window.lines_so_far

    lines = anyio.run(play)

    found = [match[0] for line in lines for match in re.finditer(r"n\d{3}", line)]
    assert found == [f"n{number:03}" for number in range(len(sizes))]


@pytest.mark.req("TUI-1")
async def test_several_questions_are_a_list_and_typed_text_is_no_answer(tmp_path: Path) -> None:
    async with stage(tmp_path, columns=70) as seen:
        await seen.press("y")
        await seen.receive(UserMessage(text="go"), request(1), request(2))
        await seen.press("es")
        assert seen.session.answers == []
        assert any("pause typing" in line for line in seen.window.lines_so_far)
        seen.arm()
        await seen.press("\x1b[C")
        shown = seen.window.lines_so_far
        assert any("touch 2 (2 questions)" in line for line in shown)
        assert any("also waiting: Bash wants to run: touch 1" in line for line in shown)
        await seen.press("tuse the other file\r")
        assert seen.session.answers == [("q2", Approval.NO, "use the other file")]
        seen.arm()
        await seen.press("x")
        await seen.press("y")
        assert seen.session.answers[1:] == [("q1", Approval.ONCE, "")]
        assert seen.app.parts.input.buffer.text == "yes"


@pytest.mark.req("TUI-1", "CLI-1")
async def test_a_terminal_without_unicode_gets_questions_in_ascii(tmp_path: Path) -> None:
    async with stage(tmp_path, encoding="latin-1") as seen:
        await seen.receive(UserMessage(text="go"), request(1), request(2))
        seen.arm()
        await seen.settle()
        shown = "\n".join(seen.window.lines_so_far)
        assert "> y  yes, once" in shown
        assert "press a key, or ^ v and Enter, <- -> other question" in shown
        shown.encode("latin-1")


@pytest.mark.req("TUI-1")
async def test_a_resumed_session_shows_its_todo_list_in_the_next_run(tmp_path: Path) -> None:
    async with stage(tmp_path) as play:
        play.app.start(replace(SNAPSHOT, todos=(TodoItem(content="follow the thread"),)))
        await play.receive(UserMessage(text="go on"))

        shown = "\n".join(play.window.lines_so_far)
        assert shown.index("❯ go on") < shown.rindex("follow the thread")


@pytest.mark.req("TUI-1")
async def test_prompts_wait_for_the_run_and_stay_after_a_failure(tmp_path: Path) -> None:
    async with stage(tmp_path) as seen:
        await seen.press("one\r")
        await seen.receive(UserMessage(text="one", run_id=RunId("run1")), Thinking(active=True))
        await seen.press("two\r")
        await seen.press("three\r")
        assert seen.session.lines == ["one"]
        await seen.press(UP)
        assert seen.app.parts.input.buffer.text == "two\nthree"
        await seen.press(f"{ENTER}/context{ENTER}")
        assert seen.session.lines == ["one", "/context"]
        failed = RunFailed(message="no", run_id=RunId("run1"))
        await seen.receive(failed, Thinking(active=False))
        assert "queued: two three  (Enter sends, ↑ edits)" in seen.window.lines_so_far
        await seen.press(ENTER)
        assert seen.session.lines == ["one", "/context", "two\nthree"]


@pytest.mark.req("TUI-1")
async def test_keys_of_the_settings_and_vi_are_used(tmp_path: Path) -> None:
    chosen = {"cycle-mode": "c-t", "expand": "no-key", "fly": "c-f"}
    async with stage(tmp_path, options=TerminalOptions(vi=True, keys=chosen)) as seen:
        text = " ".join(seen.window.lines_so_far)
        assert "terminal.keyBindings: there is no action fly" in text
        assert "terminal.keyBindings: expand: there is no key no-key" in text
        await seen.press("\x14")
        assert [str(mode) for mode in seen.session.modes] == ["acceptEdits"]
        await seen.press("one two")
        await seen.press(ESC)
        seen.flush_escape()
        await seen.press("0dw")
        assert seen.app.parts.input.buffer.text == "two"


@pytest.mark.req("TUI-3")
async def test_without_a_program_for_images_the_clipboard_key_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with stage(tmp_path) as seen:
        await seen.press("look at \x16")
        text = " ".join(seen.window.lines_so_far)
        assert "install" in text
        assert seen.app.parts.input.buffer.text == "look at "


def pasted(text: str) -> str:
    """Return what a terminal sends for a paste."""
    return f"\x1b[200~{text}\x1b[201~"


@pytest.mark.req("TUI-1")
async def test_a_paste_of_5000_lines_is_a_placeholder_and_sent_in_full(tmp_path: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(5_000))
    async with stage(tmp_path) as seen:
        await seen.press(f"see {pasted(text)} and {pasted('x' * 3_000)} and {pasted('a')}")
        shown = "see [pasted text #1, 5,000 lines] and [pasted text #2, 3,000 characters] and a"
        with anyio.fail_after(60):
            while seen.app.parts.input.buffer.text != shown:
                await seen.settle()
        assert len(seen.window.lines_so_far) <= 20
        await seen.press(ENTER)
        whole = f"see {text} and {'x' * 3_000} and a"
        assert seen.session.lines == [whole]
        assert seen.app.parts.input.buffer.history.get_strings()[-1] == whole


@pytest.mark.req("TUI-1")
async def test_a_placeholder_is_deleted_at_once_and_means_nothing_when_it_is_typed(
    tmp_path: Path,
) -> None:
    text = "\n".join(str(number) for number in range(11))
    async with stage(tmp_path) as seen:
        await seen.press(f"one {pasted(text)}\x7f")
        assert seen.app.parts.input.buffer.text == "one "
        await seen.press(f"[pasted text #7, 5 lines]{ENTER}")
        assert seen.session.lines == ["one [pasted text #7, 5 lines]"]


@pytest.mark.req("TUI-1")
async def test_only_two_presses_of_escape_in_a_row_edit_the_previous_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path) as seen:
        seen.app.parts.conversation.previous = ("one", EntryId(2))
        for key in (ESC, "a", "\x7f", ESC):
            await seen.press(key)
            seen.flush_escape()
        assert seen.app.parts.input.buffer.text == ""
        await seen.press(ESC)
        seen.flush_escape()
        assert seen.app.parts.input.buffer.text == "one"
        await seen.press(f" more{ENTER}")
        assert seen.session.lines == ["/rewind conversation #2", "one more"]


@pytest.mark.req("TUI-1")
async def test_escape_pressed_twice_quickly_edits_the_previous_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path) as seen:
        seen.app.parts.conversation.previous = ("one", EntryId(2))
        await seen.press(f"{ESC}{ESC}")
        seen.flush_escape()
        assert seen.app.parts.input.buffer.text == "one"


@pytest.mark.req("TUI-1")
async def test_escape_pressed_twice_quickly_interrupts_and_edits_the_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path) as seen:
        seen.app.parts.conversation.previous = ("one", EntryId(2))
        await seen.receive(Thinking(active=True))
        await seen.press(f"{ESC}{ESC}")
        seen.flush_escape()
        assert seen.session.aborts
        await seen.receive(Thinking(active=False), completed("run1"))
        assert seen.app.parts.input.buffer.text == "one"


@pytest.mark.req("TUI-1", "PRM-3")
@pytest.mark.parametrize("key", [ENTER, "\n", "Y", "s"])
async def test_alt_and_a_key_never_approves_a_call(tmp_path: Path, key: str) -> None:
    async with stage(tmp_path) as seen:
        await seen.receive(UserMessage(text="go"), request(1))
        seen.arm()
        await seen.press("tno")
        await seen.press(f"{ESC}{key}")
        assert seen.session.answers == []
        if key in (ENTER, "\n"):
            await seen.press("\nuse b")
            assert seen.app.parts.input.reply.text == "no\n\nuse b"
            await seen.press(ENTER)
            assert seen.session.answers == [("q1", Approval.NO, "no\n\nuse b")]
        else:
            seen.arm()
            await seen.press(f"{ESC}{key}")
            assert (seen.session.aborts, seen.session.answers) == (1, [])


@pytest.mark.req("TUI-1")
async def test_the_keys_of_the_input_leave_a_reply_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("VISUAL", "")
    monkeypatch.setenv("EDITOR", "")
    async with stage(tmp_path) as seen:
        await seen.receive(UserMessage(text="go"), request(1))
        seen.arm()
        await seen.press("tno\x07\x16")
        assert seen.app.parts.hint == ""
        assert seen.app.parts.input.reply.text == "no"


@pytest.mark.req("TUI-1")
async def test_keys_of_the_settings_work_while_a_question_is_open(tmp_path: Path) -> None:
    chosen = {"cycle-mode": "c-t", "interrupt": "c-x c-k", "redraw": "no-key"}
    async with stage(tmp_path, options=TerminalOptions(keys=chosen)) as seen:
        await seen.receive(UserMessage(text="go"), request(1))
        seen.arm()
        await seen.press("\x14")
        assert [str(mode) for mode in seen.session.modes] == ["acceptEdits"]
        await seen.press("\x18\x0b")
        assert seen.session.aborts == 1
        await seen.press("\x18y")
        assert seen.session.answers == [("q1", Approval.ONCE, "")]


@pytest.mark.req("TUI-2")
async def test_prompts_wait_for_a_command_where_they_can_be_edited(tmp_path: Path) -> None:
    async with stage(tmp_path) as seen:
        seen.session.slow.add("/compact")
        await seen.press(f"/compact{ENTER}")
        await seen.press(f"go on{ENTER}")
        assert seen.session.lines == ["/compact"]
        assert "queued: go on  (↑ edits)" in seen.window.lines_so_far
        await seen.press(UP)
        assert seen.app.parts.input.buffer.text == "go on"
        await seen.press(ENTER)
        await seen.press(ESC)
        seen.flush_escape()
        assert (seen.session.aborts, seen.session.lines) == (1, ["/compact"])
        await seen.release()
        assert seen.session.lines == ["/compact", "go on"]


@pytest.mark.req("TUI-2")
@pytest.mark.parametrize("slow", [(), ("two",)])
async def test_a_prompt_that_was_cancelled_before_it_ran_is_back_in_the_input(
    tmp_path: Path, slow: tuple[str, ...]
) -> None:
    cancelled = RunFailed(
        message="the prompt was cancelled", error_type="PromptCancelled", run_id=RunId("run1")
    )
    async with stage(tmp_path) as seen:
        seen.session.slow.update(slow)
        await seen.press(f"two{ENTER}")
        await seen.receive(cancelled)
        await seen.release()
        assert seen.app.parts.input.buffer.text == "two"
        assert not seen.app.parts.conversation.is_active


@pytest.mark.req("TUI-1")
async def test_two_presses_of_escape_edit_the_interrupted_prompt_before_the_queue_goes_on(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as seen:
        await seen.press(f"one{ENTER}")
        await seen.receive(UserMessage(text="one", run_id=RunId("run1")), Thinking(active=True))
        seen.app.parts.conversation.previous = ("one", EntryId(2))
        await seen.press(f"two{ENTER}")
        for _ in range(2):
            await seen.press(ESC)
            seen.flush_escape()
        await seen.receive(Thinking(active=False), completed("run1"))
        assert seen.app.parts.input.buffer.text == "one"
        assert "queued: two  (Enter sends, ↑ edits)" in seen.window.lines_so_far
        await seen.press(f" more{ENTER}")
        assert seen.session.lines == ["one", "/rewind conversation #2", "one more"]
        await seen.receive(completed("run3"))
        assert seen.session.lines[3:] == ["two"]


@pytest.mark.req("TUI-1")
async def test_a_prompt_that_cannot_replace_the_previous_one_is_given_back_once(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as seen:
        seen.app.parts.conversation.previous = ("one", EntryId(2))
        seen.session.errors["/rewind conversation #2"] = ClewError("no such entry")
        for _ in range(2):
            await seen.press(ESC)
            seen.flush_escape()
        await seen.press(f" more{ENTER}")
        assert seen.app.parts.input.buffer.text == "one more"


@pytest.mark.req("TUI-1")
async def test_editing_the_queue_never_joins_a_prompt_to_a_shell_command(tmp_path: Path) -> None:
    async with stage(tmp_path) as seen:
        await seen.receive(UserMessage(text="go"), Thinking(active=True))
        for line in ("zero", "!ls", "fix it", "then test"):
            await seen.press(f"{line}{ENTER}")
        taken = []
        while seen.app.parts.list_queue():
            await seen.press(UP)
            taken.append(seen.app.parts.input.buffer.text)
            seen.app.parts.input.buffer.reset()
        assert taken == ["fix it\nthen test", "!ls", "zero"]


@pytest.mark.req("TUI-1")
async def test_a_skill_that_is_sent_before_the_commands_are_known_is_printed_once(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as seen:
        seen.app.parts.conversation.builtins = frozenset()
        seen.session.skills.add("/review main")
        await seen.press(f"/review main{ENTER}")
        await seen.receive(UserMessage(text="/review main", run_id=RunId("run1")))
        assert [one for one in seen.window.lines_so_far if "/review" in one] == ["❯ /review main"]


def a_task(stage: TaskStage, *, text: str = "", **facts: Any) -> BackgroundTaskEvent:
    state = TaskState(task_id="task-1", kind=TaskKind.PROCESS, label="make test", **facts)
    return BackgroundTaskEvent(task_id="task-1", agent="", stage=stage, text=text, state=state)


@pytest.mark.req("TUI-1", "BGT-2")
async def test_an_idle_session_shows_its_background_tasks_and_their_ends_at_once(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, columns=70) as seen:
        await seen.press("half a line")
        await seen.receive(a_task(TaskStage.CREATED), a_task(TaskStage.STARTED))
        await seen.receive(a_task(TaskStage.UPDATED, preview="3 passed"))
        running = seen.window.lines_so_far
        asked = a_task(TaskStage.WAITING, text="Bash rm", status=TaskStatus.WAITING_PERMISSION)
        await seen.receive(asked)
        asking = seen.window.lines_so_far
        await seen.receive(a_task(TaskStage.COMPLETED, text="4 passed"))
        ended = seen.window.lines_so_far

    assert any("make test · " in line and line.endswith("→ 3 passed") for line in running)
    assert running[-1].endswith(" · 1 task")
    assert "? make test · waits for your answer" in asking
    assert asking[-1].endswith(" · 1 task, 1 asking")
    assert any("make test (task-1) is done" in line for line in ended)
    assert "  4 passed  /background read task-1" in ended
    assert "half a line" in ended[-2]
    assert "task" not in ended[-1]
