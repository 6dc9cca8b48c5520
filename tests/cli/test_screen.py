"""Events on a real terminal."""

import os
import pty
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout

import pytest

from clew.cli.paint import make_painter
from clew.cli.screen import Screen
from clew.core.context_state import Basis, Breakdown, ContextState, LossReport, Status
from clew.core.events import (
    BackgroundSummary,
    CompactionFailed,
    CompactionProgress,
    Envelope,
    Event,
    SummaryStage,
    TextDelta,
    ToolEnded,
    ToolResultsCleared,
)
from clew.core.ids import CallId, EntryId, SessionId


@pytest.fixture(autouse=True)
def terminal_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def sent(event: Event) -> Envelope:
    return Envelope(seq=1, session_id=SessionId("s"), at=0.0, event=event)


def on_terminal(show: Callable[[Screen], None]) -> str:
    """Return all that a terminal is sent while `show` uses a screen on it."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal, redirect_stdout(terminal):
        show(Screen(lambda text, _style: text))
        terminal.write("\0")
        terminal.flush()
        shown = b""
        while not shown.endswith(b"\0"):
            shown += os.read(ours, 65_536)
    os.close(ours)
    return shown.decode().removesuffix("\0")


def test_the_progress_of_a_compaction_is_one_line_that_changes() -> None:
    def show(screen: Screen) -> None:
        screen(sent(CompactionProgress(stage="reading", done=1, total=3)))
        screen(sent(CompactionProgress(stage="writing", done=1_200, total=0)))
        screen(sent(CompactionFailed(why="the model\x1b[2J left")))

    assert on_terminal(show) == (
        "reading 1 of 3\r\x1b[Kwriting 1,200 characters\r\x1b[K"
        "the compaction failed; the view is unchanged: the model␛[2J left\r\n"
    )


def test_a_summary_in_the_background_is_announced_and_its_progress_is_not() -> None:
    def show(screen: Screen) -> None:
        screen(sent(BackgroundSummary(stage=SummaryStage.PREPARING, messages=12)))
        screen(sent(CompactionProgress(stage="writing", done=400, total=0, background=True)))
        screen(sent(BackgroundSummary(stage=SummaryStage.PREPARED, messages=12)))
        why = "the model changed"
        screen(sent(BackgroundSummary(stage=SummaryStage.DISCARDED, messages=1, why=why, cost=0.5)))
        screen(sent(BackgroundSummary(stage=SummaryStage.FAILED, messages=1, why="a warning")))

    assert on_terminal(show).splitlines() == [
        "note: preparing a summary of 12 messages in the background",
        "note: the summary of 12 messages is prepared; the next compaction uses it",
        "note: the summary of 1 message is discarded: the model changed ($0.5000)",
    ]


@pytest.mark.req("CMP-14")
@pytest.mark.parametrize(
    ("ids", "trigger", "line"),
    [
        (
            range(1, 29),
            "economy",
            "28 tool results removed from context, 88,761 → 38,004 tokens · /undo to restore",
        ),
        (
            [4],
            "limit",
            "1 tool result shortened in context, 88,761 → 38,004 tokens · /undo to restore",
        ),
    ],
)
def test_cleared_results_are_announced_in_one_line(
    ids: Sequence[int], trigger: str, line: str
) -> None:
    report = LossReport(
        kept=(),
        summarised=(),
        cleared=tuple(map(EntryId, ids)),
        archived=(),
        tokens_before=88_761,
        tokens_after=38_004,
        author="rules",
        why="",
    )
    state = ContextState(
        max_tokens=200_000,
        used_tokens=38_004,
        status=Status.OK,
        basis=Basis.EXACT,
        breakdown=Breakdown(),
    )
    event = ToolResultsCleared(trigger=trigger, before=state, after=state, report=report)

    shown = on_terminal(lambda screen: screen(sent(event)))

    assert line in shown


def test_where_lines_cannot_be_erased_nothing_is_shown_that_would_have_to_be() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as pipe, redirect_stdout(pipe):
        screen = Screen(make_painter())
        screen.hint()
        screen(sent(CompactionProgress(stage="reading", done=1, total=3)))
        screen(sent(TextDelta("Hello")))
        screen.end_line()

    assert os.read(reader, 100) == b"Hello\n"
    os.close(reader)


def test_no_event_appears_between_a_question_and_its_answer() -> None:
    ended = ToolEnded(call_id=CallId("c"), name="Bash", failed=False, display="one\ntwo\nthree")

    def show(screen: Screen) -> None:
        with screen.hold():
            screen.line("allow?")
            screen(sent(ended))
            screen.line("yes")

    assert on_terminal(show) == "allow?\r\nyes\r\n✓ Bash: one (+2 lines)\r\n…"
