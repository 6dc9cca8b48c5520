"""The plain prompt without a process: lines from a text, blocks to standard output."""

import io
import signal
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from clew.cli.main import main
from clew.core.events import Envelope, Event, ToolEnded, ToolStarted, Warned
from clew.core.ids import CallId, SessionId
from clew.core.task_events import BackgroundTaskEvent, TaskStage
from clew.core.tasks import TaskKind, TaskState
from clew.core.todos import TodoItem
from clew.sdk.client import CommandOutcome, CopyText, PickSession, SessionClient
from clew.tui.leave import Pick, Quit
from clew.tui.picker import Row, pick
from clew.tui.plain import PlainApp
from clew.tui.theme import make_theme
from tests.tui.window import SNAPSHOT, FakeSession, run_now

THEME = make_theme(plain=True)
LONG = "\n".join(f"row {number}" for number in range(40))
CALL = (
    ToolStarted(call_id=CallId("1"), name="Bash", arguments='{"command": "ls"}'),
    ToolEnded(call_id=CallId("1"), name="Bash", failed=False, display=LONG),
)


class Session(FakeSession):
    """Carries out /copy and /resume as a session does."""

    async def execute(self, line: str) -> CommandOutcome:
        outcome = await super().execute(line)
        if line == "/copy":
            return CommandOutcome(
                kind="command", name="copy", message="#2", effect=CopyText("the answer")
            )
        if line == "/resume":
            return CommandOutcome(kind="command", name="resume", effect=PickSession(()))
        return outcome


class Keyboard(io.StringIO):
    """Standard input where a signal arrives while a line is read."""

    def __init__(self, arrive: Callable[[], None]) -> None:
        super().__init__()
        self._arrive = arrive

    def readline(self, _size: int | None = -1, /) -> str:  # type: ignore[override]
        self._arrive()
        return ""


def make_app(session: FakeSession, *events: Event) -> PlainApp:
    app = PlainApp(cast("SessionClient", session), run_now, theme=THEME, width=lambda: 80)
    app.start(SNAPSHOT)
    for number, event in enumerate(events, 1):
        app.receive(Envelope(seq=number, session_id=SessionId("s1"), at=float(number), event=event))
    return app


def types(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_what_happened_before_the_first_line_is_shown_before_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    types(monkeypatch, "")

    assert make_app(Session(), Warned("no such plugin")).run() == Quit()

    shown = capsys.readouterr().out
    assert "no such plugin" in shown.partition("> ")[0]


def test_what_happened_at_the_last_prompt_is_shown_before_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = make_app(Session())
    late = Envelope(seq=1, session_id=SessionId("s1"), at=1.0, event=Warned("the task failed"))
    monkeypatch.setattr("sys.stdin", Keyboard(lambda: app.receive(late)))

    assert app.run() == Quit()

    assert "the task failed" in capsys.readouterr().out


def test_show_prints_a_block_in_full_and_never_an_entry_instead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session()
    types(monkeypatch, "/show #1\n/show 7\n/show entry 7\n")

    make_app(session, *CALL).run()

    before, _, after = capsys.readouterr().out.partition("> ")
    assert "row 20" not in before
    assert "row 20" in after
    assert "there is no folded block #7; /show entry 7 shows the journal entry" in after
    assert session.lines == ["/show entry 7"]


def test_a_resumed_session_shows_its_open_todo_list(capsys: pytest.CaptureFixture[str]) -> None:
    app = PlainApp(cast("SessionClient", Session()), run_now, theme=THEME, width=lambda: 80)

    app.start(replace(SNAPSHOT, todos=(TodoItem(content="follow the thread"),)))

    assert "todo list: 0 of 1 done" in capsys.readouterr().out


def test_a_signal_before_a_session_is_open_is_an_orderly_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    flags = ["--plain", "--base-url", "http://localhost:1/v1", "--model", "gpt-4o"]
    types(monkeypatch, "!echo hello\n")
    assert main(flags) == 0
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("sys.stdin", Keyboard(lambda: signal.raise_signal(signal.SIGTERM)))

    with pytest.raises(SystemExit) as left:
        main([*flags, "--resume"])

    assert left.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    assert "Which session do you want to resume?" in capfd.readouterr().out


def test_copy_prints_the_text_where_there_is_no_clipboard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    types(monkeypatch, "/copy\n")

    make_app(Session()).run()

    assert "the answer" in capsys.readouterr().out


def test_the_list_of_sessions_is_left_with_ctrl_c_and_the_next_line_is_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Session()
    app = make_app(session)
    types(monkeypatch, "/resume\n")
    assert app.run() == Pick(())

    monkeypatch.setattr("sys.stdin", Keyboard(lambda: app.interrupt(signal.SIGINT, None)))
    chosen = pick("Which?", [Row("one")], theme=THEME, live=False, read=app.read_line)
    types(monkeypatch, "/context\n")

    assert chosen is None
    assert app.run() == Quit()
    assert session.lines == ["/resume", "/context"]
    assert session.aborts == 0


def test_a_signal_in_the_list_of_sessions_ends_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = Session()
    app = make_app(session)
    monkeypatch.setattr("sys.stdin", Keyboard(app.hang_up))

    chosen = pick("Which?", [Row("one")], theme=THEME, live=False, read=app.read_line)
    types(monkeypatch, "/context\n")

    assert chosen is None
    assert app.run() == Quit()
    assert session.lines == []


def test_ctrl_c_is_handled_as_before_after_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    types(monkeypatch, "/help\n")
    before = signal.getsignal(signal.SIGINT)

    assert main(["--plain", "--base-url", "http://localhost:1/v1", "--model", "gpt-4o"]) == 0

    assert "/compact" in capfd.readouterr().out
    assert signal.getsignal(signal.SIGINT) == before


def a_task(stage: TaskStage, *, text: str = "") -> BackgroundTaskEvent:
    state = TaskState(task_id="task-1", kind=TaskKind.PROCESS, label="make test")
    return BackgroundTaskEvent(task_id="task-1", agent="", stage=stage, text=text, state=state)


@pytest.mark.req("BGT-2")
def test_a_task_that_ends_while_a_line_is_read_is_hinted_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = make_app(FakeSession(), a_task(TaskStage.STARTED))
    ends = [a_task(TaskStage.UPDATED), a_task(TaskStage.COMPLETED, text="4 passed")]
    seen: list[str] = []

    def arrive() -> None:
        for event in ends:
            app.receive(Envelope(seq=9, session_id=SessionId("s1"), at=9.0, event=event))
        seen.append(capsys.readouterr().out)

    monkeypatch.setattr("sys.stdin", Keyboard(arrive))
    app.run()

    shown = capsys.readouterr().out
    assert seen[0].count("press Enter to see it") == 1
    assert "a background task has ended; press Enter to see it" in seen[0]
    assert "make test (task-1) is done" in shown
    assert "4 passed" in shown
