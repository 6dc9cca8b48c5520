"""Blocks as text: nothing wider than the terminal, nothing lost, no sequence but colours."""

import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wcwidth import wcwidth

from clew.core.context_state import Basis, Breakdown, ContextState, LossReport, Status
from clew.core.ids import EntryId
from clew.core.todos import TodoItem, TodoStatus
from clew.core.tool_states import ToolOutcome
from clew.tools.builtin.diff import compare
from clew.tui.blocks import (
    Answer,
    Block,
    ClearedBlock,
    CommandReply,
    Compaction,
    LiveBlock,
    Notice,
    Plan,
    RetryWait,
    RunningTaskBlock,
    RunningTool,
    ServerToolBlock,
    ShellOutput,
    TaskNote,
    ThinkingBlock,
    Todos,
    ToolCallBlock,
    UserPrompt,
)
from clew.tui.markdown_blocks import MarkdownSplitter, is_blank
from clew.tui.rendering import render_block, render_live
from clew.tui.theme import Theme, make_theme
from tests.tui.answers import ANSWER, answers

pytestmark = pytest.mark.req("TUI-1", "TUI-2")

DARK = make_theme()
MONOCHROME = make_theme(colours=False)
PLAIN = make_theme(plain=True)
LATIN = make_theme(encoding="latin-1")
THEMES = st.sampled_from(
    [DARK, MONOCHROME, PLAIN, LATIN, make_theme("light"), make_theme("colour-blind")]
)
SGR = re.compile(r"\x1b\[[0-9;]*m")
ALLOWED = re.compile(r"(?:\x1b\[[0-9;]*m|[^\x00-\x09\x0b-\x1f\x7f-\x9f])*")
STATE = ContextState(
    max_tokens=1_000, used_tokens=400, status=Status.OK, basis=Basis.EXACT, breakdown=Breakdown()
)
REPORT = LossReport(
    kept=(EntryId(9), EntryId(10)),
    summarised=(EntryId(1), EntryId(2), EntryId(3)),
    cleared=(),
    archived=(EntryId(4),),
    tokens_before=900,
    tokens_after=400,
    author="model",
    why="The view was 90% full.",
)
OLD = "import os\n\ndef main():\n    value = compute(1, 2)\n    print(value)\n"
NEW = OLD.replace("1, 2", "1, 3").replace("import os\n", "")


def strip(text: str) -> str:
    return SGR.sub("", text)


def columns(line: str) -> int:
    """Count the columns as an emulated terminal does, character by character."""
    return sum(max(0, wcwidth(character)) for character in line)


def show(block: Block, width: int = 60, theme: Theme = PLAIN, *, expanded: bool = False) -> str:
    return render_block(block, width=width, theme=theme, expanded=expanded)


def call(name: str = "Read", argument: str = "src/x.py", **facts: object) -> ToolCallBlock:
    fields: dict[str, object] = {"outcome": "success", "number": 4, **facts}
    return ToolCallBlock(name=name, arguments=f'{{"path": "{argument}"}}', **fields)  # type: ignore[arg-type]


def blocks(text: str) -> list[Block]:
    """Return a block of each kind with this text in every place."""
    outcomes: tuple[ToolOutcome, ...] = ("success", "error", "denied")
    return [
        UserPrompt(text),
        Answer(text=text),
        ThinkingBlock(text=text, seconds=1.0, number=1),
        *(
            ToolCallBlock(
                number=2, name=text, arguments=text, outcome=outcome, display=text, remedy=text
            )
            for outcome in outcomes
        ),
        call("Edit", data=compare(OLD + text, text + NEW, text).data()),
        ServerToolBlock(number=3, name=text, arguments=text, text=text),
        TaskNote(name=text, stage="started", text=text),
        TaskNote(name=text, stage="completed", text=text, number=12),
        TaskNote(name=text, stage="failed", text=text),
        TaskNote(name=text, stage="started", text=text, task_id="task-1a2b3c4d", is_agent=False),
        TaskNote(name=text, stage="asks", text=text, task_id="task-1a2b3c4d"),
        TaskNote(name=text, stage="completed", text=text, task_id="task-1a2b3c4d", number=3),
        TaskNote(name=text, stage="failed", text=text, task_id="task-1a2b3c4d"),
        TaskNote(name=text, stage="cancelled", text=text, task_id="task-1a2b3c4d"),
        Notice(text, "warning"),
        Compaction(trigger="auto", before=STATE, after=STATE, report=REPORT, summary=text),
        ClearedBlock(trigger="economy", report=REPORT),
        CommandReply(text=text),
        CommandReply(text=text, style="markdown"),
        CommandReply(text=text, style="diff"),
        ShellOutput(command=text, text=text, number=5),
        Plan(text=text),
        Todos((TodoItem(content=text, status=TodoStatus.IN_PROGRESS), TodoItem(content=text))),
    ]


@settings(max_examples=30)
@given(answers() | st.just(ANSWER), st.integers(8, 120), THEMES, st.data())
def test_no_line_is_wider_than_the_terminal_and_no_sequence_but_colours_is_written(
    text: str, width: int, theme: Theme, data: st.DataObject
) -> None:
    for block in blocks(text):
        expanded = data.draw(st.booleans())
        written = render_block(block, width=width, theme=theme, expanded=expanded)

        assert ALLOWED.fullmatch(written), written
        assert not written or written.endswith("\n")
        for line in strip(written).split("\n"):
            assert columns(line) <= width, (block, line)
        if not theme.has_colours:
            assert "\x1b" not in written
        written.encode(theme.encoding)


@example(ANSWER, 8, DARK)
@example(ANSWER, 40, PLAIN)
@example(ANSWER, 80, LATIN)
@given(answers(), st.integers(8, 100), THEMES)
def test_the_parts_of_an_answer_printed_one_by_one_are_the_whole_answer(
    text: str, width: int, theme: Theme
) -> None:
    splitter = MarkdownSplitter()
    pieces = [*splitter.feed(text), splitter.close()]

    written = ""
    before: Block | None = None
    for part, piece in enumerate(piece for piece in pieces if not is_blank(piece)):
        block = Answer(text=piece, part=part)
        written += render_block(block, width=width, theme=theme, after=before)
        before = block

    assert written == render_block(Answer(text=text), width=width, theme=theme)


@given(st.lists(st.sampled_from(["word", "漢字", "é", "[b]", "👍🏽", "x" * 30]), max_size=30))
def test_wrapping_keeps_every_word(words: list[str]) -> None:
    for width in (8, 13, 40):
        for block in (
            UserPrompt(" ".join(words)),
            Answer(text=" ".join(words)),
            Notice(" ".join(words)),
        ):
            shown = "".join(strip(show(block, width, DARK)).split())

            assert "".join(words) in shown.removeprefix("❯")


@pytest.mark.parametrize("width", [8, 20, 44, 100])
@pytest.mark.parametrize("theme", [DARK, PLAIN], ids=["dark", "plain"])
def test_no_word_of_an_answer_is_lost(width: int, theme: Theme) -> None:
    shown = re.sub(r"[\s│|]", "", strip(show(Answer(text=ANSWER), width, theme)))

    for word in re.findall(r"\w+", ANSWER.replace("```python", "")):
        assert word in shown or width < 100  # The columns of a table stand side by side.
        assert all(letter in shown for letter in word)


def test_markup_and_html_are_text() -> None:
    text = "[bold]x[/bold] :smile: <script>y</script>\n\n<!-- z -->\n\n[a]: http://b\n"

    shown = show(Answer(text=text), 60, MONOCHROME)

    assert shown == ("[bold]x[/bold] :smile: <script>y</script>\n\n<!-- z -->\n\n[a]: http://b\n")


@settings(max_examples=30)
@given(answers() | st.just(ANSWER), st.integers(8, 100), st.integers(0, 12), THEMES)
def test_the_live_area_has_at_most_so_many_rows_and_columns(
    text: str, width: int, rows: int, theme: Theme
) -> None:
    live = LiveBlock(
        since=1.0,
        answer=text,
        thinking=text,
        tools=(RunningTool(call_id="1", name=text, arguments=text, since=2.0, line=text),),
        tasks=(
            RunningTaskBlock(task_id="t", name=text, since=1.0, line=text),
            RunningTaskBlock(task_id="u", name=text, since=1.0, is_asking=True, percentage=4.0),
            *(
                RunningTaskBlock(task_id=f"{n}", name=text, since=1.0, is_queued=True)
                for n in range(4)
            ),
        ),
        retry=RetryWait(reason=text, until=9.0, attempt=2, attempts=3),
        todos=(TodoItem(content=text),),
    )

    lines = render_live(live, width=width, rows=rows, theme=theme, now=5.0)

    assert len(lines) <= rows
    for line in lines:
        assert ALLOWED.fullmatch(line)
        assert "\n" not in line
        assert columns(strip(line)) <= width


def test_thinking_is_folded_to_a_line_with_its_seconds() -> None:
    block = ThinkingBlock(text="First this.\nThen that.", seconds=12.4, number=3)

    assert show(block, theme=MONOCHROME) == "✻ thought for 12 s  #3\n"
    assert show(block, theme=MONOCHROME, expanded=True) == (
        "✻ thought for 12 s  #3\n  First this.\n  Then that.\n"
    )


def test_a_result_is_folded_to_its_size_and_expanded_to_all_of_it() -> None:
    block = call(display="\n".join(map(str, range(213))), seconds=3.2)

    assert show(block, theme=MONOCHROME) == "✓ Read src/x.py · 213 lines · 3.2 s  #4\n"
    assert show(block, theme=MONOCHROME, expanded=True).count("\n") == 214


def test_a_short_result_is_in_the_line_and_one_line_is_not_many() -> None:
    assert show(call(display="ok\n"), theme=MONOCHROME) == "✓ Read src/x.py · ok  #4\n"
    assert "80 characters" in show(call(display="x" * 80), theme=MONOCHROME)


def test_a_tool_that_says_what_it_read_is_expanded_to_what_it_read() -> None:
    block = call(display="src/x.py: 213 lines", text="     1\tone")

    assert show(block, theme=MONOCHROME) == "✓ Read src/x.py · 213 lines  #4\n"
    assert show(block, theme=MONOCHROME, expanded=True).split("\n")[1] == "       1  one"


def test_a_failure_shows_the_end_of_its_output() -> None:
    output = "\n".join(f"line {number}" for number in range(20)) + "\n[exit code 2]"
    block = call("Bash", "make", outcome="error", display=output, data={"exit_code": 2})

    shown = show(block, theme=MONOCHROME).split("\n")

    assert shown[0] == "✗ Bash make · exit code 2  #4"
    assert shown[1] == "  … 15 more lines"
    assert shown[-2] == "  [exit code 2]"


def test_a_sentence_about_a_failure_is_wrapped_between_words() -> None:
    block = call(outcome="error", display="Invalid arguments: it is not known", error_code="bad")

    assert show(block, width=24, theme=MONOCHROME).split("\n")[2:4] == [
        "  Invalid arguments: it",
        "  is not known",
    ]


def test_a_result_repeats_nothing_that_its_line_has_said() -> None:
    image = call(argument="a.png", display="[a.png: image/png, 64×64 pixels]")
    pattern = call("Grep", "def ", display="def : 1 file")

    assert show(image, theme=MONOCHROME) == "✓ Read a.png · image/png, 64×64 pixels  #4\n"
    assert show(pattern, theme=MONOCHROME) == "✓ Grep def · 1 file  #4\n"
    assert "· no output" in show(call("Bash", "true", display="[no output]"), theme=MONOCHROME)
    assert "· [1, 2]" in show(call("Bash", "x", display="[1, 2]"), theme=MONOCHROME)


def test_an_edit_stands_apart_and_calls_of_one_line_together() -> None:
    edit = call("Edit", data=compare(OLD, NEW, "src/x.py").data())

    def gap(block: Block, after: Block) -> bool:
        return render_block(block, width=60, theme=PLAIN, after=after).startswith("\n")

    assert gap(edit, edit)
    assert gap(Notice("interrupted"), call("Bash", "x", outcome="error", display="a\nb"))
    assert not gap(call(), call())


def test_a_denied_call_says_why_and_what_would_allow_it() -> None:
    block = call(
        "Bash", "rm x", outcome="denied", display="Permission denied: rule.", remedy="Use /mode."
    )

    assert show(block, theme=MONOCHROME) == (
        "✗ Bash rm x · denied  #4\n  Permission denied: rule.\n  Use /mode.\n"
    )


def test_a_truncated_result_says_what_was_cut() -> None:
    note = "long output: the model reads 10 of 20 characters; /recall #7 has all of it"

    assert note in " ".join(show(call(display="a\nb", truncated=note)).split())


def test_an_edit_shows_a_diff_with_numbers_context_and_changed_words() -> None:
    block = call("Edit", data=compare(OLD, NEW, "src/x.py").data())

    assert show(block, theme=MONOCHROME) == (
        "✓ Edit src/x.py · +1 -2  #4\n"
        "  1 - import os\n"
        "  1\n"
        "  2   def main():\n"
        "  4 -     value = compute(1, 2)\n"
        "  3 +     value = compute(1, 3)\n"
        "  4       print(value)\n"
    )
    assert "\x1b[7;31m2\x1b[0m" in show(block, theme=DARK)
    assert "\x1b[7;32m3\x1b[0m" in show(block, theme=DARK)


def test_a_long_diff_is_folded_and_says_how_much_is_left_out() -> None:
    new = "".join(f"line {number}\n" for number in range(100))
    block = call("Write", data=compare("", new, "a.txt", created=True).data())

    folded = show(block, theme=MONOCHROME).split("\n")

    assert folded[0] == "✓ Write src/x.py · new, +100 -0  #4"
    assert folded[40].strip() == "… 61 more lines"
    assert len(folded) == 42
    assert "line 99" in show(block, theme=MONOCHROME, expanded=True)


def test_a_compaction_shows_its_loss_report_and_expanded_its_summary() -> None:
    block = Compaction(
        trigger="auto", before=STATE, after=STATE, report=REPORT, summary="What happened.", number=6
    )

    assert "compacted (auto)  #6" in show(block)
    assert "lost" in show(block)
    assert "What happened." not in show(block)
    assert "What happened." in show(block, expanded=True)


def test_a_retry_counts_down() -> None:
    live = LiveBlock(
        since=0.0, retry=RetryWait(reason="rate limited", until=20.0, attempt=2, attempts=5)
    )

    (line,) = render_live(live, width=60, rows=5, theme=MONOCHROME, now=8.0)

    assert line.endswith("rate limited, retrying in 12 s (2 of 5)")


def test_a_running_tool_shows_its_time_and_its_newest_line() -> None:
    tool = RunningTool(
        call_id="1", name="Bash", arguments='{"command": "make"}', since=1.0, line="[3/9] CC x.o"
    )

    lines = render_live(
        LiveBlock(since=0.0, tools=(tool,)), width=60, rows=5, theme=MONOCHROME, now=13.0
    )

    assert [line[2:] for line in lines] == ["Bash make · 12 s", "[3/9] CC x.o"]


def test_a_todo_list_is_a_line_and_in_the_live_area_a_list() -> None:
    items = (
        TodoItem(content="Read", status=TodoStatus.COMPLETED),
        TodoItem(content="Fix", status=TodoStatus.IN_PROGRESS, active_form="Fixing"),
        TodoItem(content="Test it\nwell"),
    )

    assert show(Todos(items)) == "* todo list: 1 of 3 done · now: Fixing\n"
    assert show(Todos(())) == "* todo list: empty\n"
    assert render_live(
        LiveBlock(since=1.0, answer="x", todos=items), width=20, rows=9, theme=PLAIN, now=2.0
    ) == ["", "x", "  [x] Read", "  [>] Fixing", "  [ ] Test it well"]


def test_plain_text_has_no_signs_and_no_boxes() -> None:
    shown = show(Answer(text=ANSWER)) + "".join(
        show(block) for block in (call(display="x\ny"), call(outcome="error"), UserPrompt("hi"))
    )

    assert set(shown) & set("╭│─•✓✗❯\x1b") == set()
    assert "ok: Read src/x.py" in shown
    assert "failed: Read src/x.py" in shown


def test_a_terminal_without_unicode_gets_ascii_signs() -> None:
    ascii_only = make_theme(encoding="ascii")

    assert show(call(display="x\ny"), theme=LATIN).startswith("\x1b[32mv")
    assert strip(show(UserPrompt("“naïve” … 漢"), theme=ascii_only)) == '> "na?ve" ... ?\n'
    assert strip(show(UserPrompt("“naïve” … 漢"), theme=LATIN)) == '> "naïve" ... ?\n'


def test_blocks_of_one_line_stand_together_and_others_apart() -> None:
    one, answer = call(display="x"), Answer(text="Hello.")

    assert not render_block(one, width=40, theme=PLAIN, after=one).startswith("\n")
    assert render_block(one, width=40, theme=PLAIN, after=answer).startswith("\n")
    assert render_block(answer, width=40, theme=PLAIN, after=one).startswith("\n")
    assert render_block(Answer(text=" \n"), width=40, theme=PLAIN, after=one) == ""


@pytest.mark.slow("starts a process")
def test_rich_is_imported_by_the_first_answer_and_not_before() -> None:
    program = """
import sys
from clew.tui.blocks import Answer, Notice
from clew.tui.rendering import render_block, render_live
from clew.tui.theme import make_theme
from clew.tui.transcript import Transcript
Transcript()
render_block(Notice("x"), width=40, theme=make_theme())
print({"rich", "pygments", "markdown_it"} & set(sys.modules))
render_block(Answer(text="x"), width=40, theme=make_theme())
print("rich" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.split() == ["set()", "True"]


def _task(number: int, **facts: Any) -> RunningTaskBlock:
    made = {"task_id": f"task-{number}", "name": f"job {number}", "since": 0.0, **facts}
    return RunningTaskBlock(is_background=True, **made)


@pytest.mark.req("BGT-2", "CTX-9")
def test_many_background_tasks_take_few_lines_and_those_that_ask_come_first() -> None:
    tasks = (
        *(_task(n, is_agent=False, line=f"line {n}") for n in range(5)),
        _task(5, is_asking=True),
        _task(6, calls=2, percentage=31.0, line="Bash make"),
    )
    live = LiveBlock(since=0.0, is_running=False, tasks=tasks)

    lines = render_live(live, width=80, rows=20, theme=MONOCHROME, now=12.0)

    shown = [SGR.sub("", line) for line in lines]
    assert shown[0] == "? job 5 · waits for your answer"
    assert shown[1].endswith(" job 0 · 12 s → line 0")
    assert len(shown) == 5
    assert shown[-1] == "  +3 more · /background lists them"


def test_an_agent_shows_its_calls_and_its_context() -> None:
    task = _task(6, calls=2, percentage=31.0, line="Bash make")
    live = LiveBlock(since=0.0, is_running=False, tasks=(task,))

    (line,) = render_live(live, width=80, rows=20, theme=MONOCHROME, now=12.0)

    assert SGR.sub("", line)[2:] == "job 6 · 2 tool calls, 12 s, context 31% → Bash make"


def test_a_call_that_starts_several_agents_names_their_tasks() -> None:
    jobs = '{"background": true, "jobs": [{"prompt": "look"}, {"prompt": "x", "description": "y"}]}'
    shown = {
        jobs: "✓ Agent 2 tasks: look, y",
        '{"background": true, "prompt": "look"}': "✓ Agent look",
        '{"jobs": 3}': "✓ Agent 3",
        "{": "✓ Agent {",
    }

    for arguments, line in shown.items():
        call = ToolCallBlock(name="Agent", arguments=arguments, outcome="success")
        text = SGR.sub("", render_block(call, width=80, theme=MONOCHROME, after=None))
        assert text.strip().startswith(line)


def test_a_task_in_the_background_says_how_to_read_its_result() -> None:
    note = TaskNote(
        name="explorer",
        stage="completed",
        text="\nThe leak is in feed.py.\nMore.",
        task_id="agent-1",
        calls=3,
        seconds=12.0,
        number=4,
    )

    text = render_block(note, width=80, theme=MONOCHROME, after=None)

    shown = [line.rstrip() for line in SGR.sub("", text).strip("\n").split("\n")]
    assert shown == [
        "✓ explorer (agent-1) is done · 3 tool calls, 12 s  #4",
        "  The leak is in feed.py.  /background read agent-1",
    ]
