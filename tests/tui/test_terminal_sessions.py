"""Whole sessions at a real terminal: what a person types, and what the screen then looks like."""

import re
from io import StringIO
from pathlib import Path

import msgspec
import pytest

from clew.cli.paint import make_painter
from clew.testing.fake_openai import (
    DONE,
    FakeOpenAI,
    ScriptedResponse,
    Stall,
    delta,
    fake_openai,
    text_response,
    tool_call_response,
    usage,
)
from tests.tui.emulated import CTRL_C, TAB, UP, Person, Place, clew_for

pytestmark = pytest.mark.anyio

EMPTY_LINE = "\x15"
"""Ctrl-U."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.below(tmp_path)


def call(name: str, call_id: str = "c1", **arguments: object) -> ScriptedResponse:
    return tool_call_response(name, msgspec.json.encode(arguments).decode(), call_id=call_id)


def fills(tokens: int, text: str = "ok") -> ScriptedResponse:
    """Return an answer to a request that took so many tokens."""
    return ScriptedResponse(steps=[delta(content=text), delta("stop"), usage(tokens, 1), DONE])


def at(server: FakeOpenAI, *more: str) -> tuple[str, ...]:
    return ("--base-url", server.url, "--model", "gpt-4o", *more)


def sent(server: FakeOpenAI, request: int = -1) -> str:
    """Return the last message of a request."""
    text: str = server.requests[request]["messages"][-1]["content"]
    return text


@pytest.mark.req("CLI-1", "TUI-1")
async def test_an_answer_is_painted_while_it_arrives(place: Place) -> None:
    rest = Stall()
    steps = [delta(content=text) for text in ("# The lab", "yrinth\n\nIt is **ve", "ry** old.")]
    end = [delta(content="\n\n- a `thread`\n- a door\n"), delta("stop"), usage(900, 9), DONE]
    async with (
        fake_openai(ScriptedResponse(steps=[*steps, rest, *end])) as server,
        clew_for(place, *at(server, "--sandbox", "off")) as person,
    ):
        assert await person.prompted() == [
            f"gpt-4o: the server at {server.url}",
            "permission mode: default",
            "Commands run without a sandbox: it is switched off.",
            "/help lists the commands, !ls runs a shell command, Ctrl-D exits",
        ]
        assert re.fullmatch(r"gpt-4o · default · context 1% · ~[\d,]+/128,000", _tokens(person))
        assert person.colour("context 1%") == "green"
        person.enters("tell me")
        shown = await person.sees("It is very old.")
        assert shown == ["The labyrinth", "", "It is very old."]
        assert person.is_bold("The labyrinth")
        assert person.is_bold("very")
        assert not person.is_bold("old.")
        rest.release()
        assert (await person.prompted())[3:] == [
            *("", "- a thread", "- a door"),
            "you #2, answer #3",
        ]
        assert person.status == "gpt-4o · default · context 1% · 909/128,000 tokens"
        assert await person.leaves() == [f"resume with: clew --resume {_session_id(person)}"]


def _tokens(person: Person) -> str:
    return person.status.removesuffix(" tokens")


def _session_id(person: Person) -> str:
    return person.lines[-1].rpartition(" ")[2]


@pytest.mark.req("CLI-1", "TUI-1")
async def test_a_line_is_completed_pasted_and_found_again(place: Place) -> None:
    place.write("notes.txt", "one\n")
    place.write("src/app.py", "two\n")
    async with fake_openai(text_response("ok")) as server, clew_for(place, *at(server)) as person:
        await person.prompted()
        person.types("/con")
        menu = await person.sees("show what fills the context window")
        assert menu[-3:-1] == ["> /con", " /context  show what fills the context window"]
        person.types(TAB)
        await person.until(lambda: person.line == "> /context")
        person.types(f"{EMPTY_LINE}/comp{TAB} ")
        menu = await person.sees("revert the latest compaction")
        assert menu[-4:-1] == [
            "> /compact",
            " preview  show what a compaction would keep and summarise",
            " undo     revert the latest compaction",
        ]
        person.types(f"u{TAB}")
        await person.until(lambda: person.line == "> /compact undo")
        person.types(f"{EMPTY_LINE}read @no{TAB} and @sr{TAB}ap{TAB}")
        await person.until(lambda: person.line == "> read @notes.txt and @src/app.py")
        assert await person.says("") == ["ok", "you #2, answer #3"]
        assert sent(server) == "read @notes.txt and @src/app.py"

        person.pastes("first line\nsecond line")
        await person.until(lambda: person.line == "  second line")
        assert await person.says("") == ["ok", "you #4, answer #5"]
        assert sent(server) == "first line\nsecond line"

        person.types(UP)
        await person.until(lambda: person.line == "  second line")
        person.types(UP * 2)
        await person.until(lambda: person.line == "> read @notes.txt and @src/app.py")
        await person.says(" again")
        assert sent(server) == "read @notes.txt and @src/app.py again"


@pytest.mark.req("CLI-1", "TUI-1", "PRM-3", "INT-3")
async def test_tools_edits_and_questions_on_the_screen(place: Place) -> None:
    notes = place.write("notes.txt", "one\ntwo\nthree\n")
    async with (
        fake_openai(
            call("Read", file_path="notes.txt"),
            call("Edit", "c2", file_path="notes.txt", old_string="two", new_string="TWO"),
            call("Bash", "c3", command="touch once.txt"),
            call("Bash", "c4", command="mkdir -p inner"),
            call("Bash", "c5", command="mkdir -p inner"),
            call("Bash", "c6", command="touch never.txt"),
            text_response("done"),
        ) as server,
        clew_for(place, *at(server)) as person,
    ):
        await person.prompted()
        person.enters("work")
        assert await person.asked("allow?") == [
            "→ Read notes.txt",
            "✓ Read: notes.txt: 3 lines",
            "→ Edit notes.txt",
            "",
            "Edit wants to change: notes.txt",
            "  │ -two",
            "  │ +TWO",
            "(default mode asks before calls that change files)",
            "[y]es once, [s]ession: Edit in this folder, [p]roject, [n]o",
        ]
        assert person.line == "allow?"
        for answer in ("y", "once", "s"):
            await person.answers(answer)
            await person.asked("allow?")
        await person.answers("no")
        shown = await person.prompted()
        assert shown[9:15] == [
            "allow? y",
            "✓ Edit: notes.txt +1 -1",
            "  1   one",
            "  2 - two",
            "  2 + TWO",
            "  3   three",
        ]
        assert (person.colour("2 - two"), person.colour("2 + TWO")) == ("red", "green")
        assert [line for line in shown[15:] if line.startswith(("→", "✓", "✗", "Bash"))] == [
            *("→ Bash touch once.txt", "Bash wants to run: touch once.txt", "✓ Bash: [no output]"),
            *("→ Bash mkdir -p inner", "Bash wants to run: mkdir -p inner", "✓ Bash: [no output]"),
            *("→ Bash mkdir -p inner", "✓ Bash: [no output]"),
            *("→ Bash touch never.txt", "Bash wants to run: touch never.txt"),
            "✗ Bash: Permission denied: the user said no.",
        ]
        assert shown[-2:] == ["done", "you #2, result #14, answer #15"]

    assert notes.read_text() == "one\nTWO\nthree\n"
    made = {path.name for path in place.project.iterdir()}
    assert made == {"notes.txt", "once.txt", "inner"}


@pytest.mark.req("TUI-1", "PRM-3")
@pytest.mark.parametrize("columns", [20, 45])
async def test_questions_are_whole_in_a_narrow_window(place: Place, columns: int) -> None:
    async with (
        fake_openai(
            call("Bash", command="./check.sh all"),
            call("Write", "c2", file_path="deep/new.txt", content="one\n"),
            text_response("done"),
        ) as server,
        clew_for(place, *at(server), columns=columns) as person,
    ):
        await person.until(lambda: person.line == ">" and "context" in person.status)
        person.enters("go")
        shown = " ".join(await person.asked("allow? ")).replace("  │ ", "")
        assert "Bash wants to run:" in shown
        assert "./check.sh all" in shown
        assert "[y]es once, [s]ession: Bash `./check.sh all …`, [p]roject, [n]o" in shown
        await person.answers("y")
        await person.until(lambda: "Write wants to change:" in " ".join(person.lines))
        shown = " ".join(await person.asked("allow? "))
        assert "[s]ession: Write in deep/, [p]roject, [n]o" in shown
        await person.answers("y")
        await person.sees("done")

    assert (place.project / "deep" / "new.txt").exists()


@pytest.mark.req("PRM-3", "CFG-1")
async def test_a_call_that_is_allowed_for_the_project_is_not_asked_again(place: Place) -> None:
    place.write("check.sh", "echo checked $1\n").chmod(0o755)
    async with fake_openai(
        call("Bash", command="./check.sh all"),
        text_response("good"),
        call("Bash", "c2", command="./check.sh all twice"),
        text_response("good again"),
    ) as server:
        async with clew_for(place, *at(server)) as person:
            await person.prompted()
            person.enters("check")
            shown = await person.asked("allow? ")
            offered = "[y]es once, [s]ession: Bash `./check.sh all …`, [p]roject, [n]o"
            assert shown[-1] == offered
            await person.answers("p")
            assert (await person.prompted())[-4:] == [
                "allowed in this folder: Bash(./check.sh all:*)",
                "✓ Bash: checked all",
                "good",
                "you #2, result #4, answer #5",
            ]
            await person.leaves()
        async with clew_for(place, *at(server)) as person:
            assert await person.says("check") == [
                "→ Bash ./check.sh all twice",
                "✓ Bash: checked all",
                "good again",
                "you #2, result #4, answer #5",
            ]

    written = msgspec.json.decode((place.project / ".clew/settings.local.json").read_bytes())
    assert written == {"permissions": {"allow": ["Bash(./check.sh all:*)"]}}


@pytest.mark.req("PRM-3")
async def test_a_call_that_no_rule_can_match_is_not_offered_for_the_project(place: Place) -> None:
    async with (
        fake_openai(call("Bash", command="./a.sh > b.txt"), text_response("ok")) as server,
        clew_for(place, *at(server)) as person,
    ):
        await person.prompted()
        person.enters("go")
        shown = await person.asked("allow? ")
        assert shown[-1] == "[y]es once, [s]ession: just this call, [n]o"
        await person.answers("p")
        await person.asked("allow? ")
        await person.answers("n")
        await person.prompted()

    assert list(place.project.iterdir()) == []


@pytest.mark.req("CLI-1", "PRV-3", "PRM-3")
async def test_ctrl_c_aborts_a_run_and_a_question_and_exits_when_pressed_twice(
    place: Place,
) -> None:
    half = ScriptedResponse(steps=[delta(content="Half an answer"), Stall()])
    async with (
        fake_openai(half, call("Bash", command="touch a.txt"), text_response("whole")) as server,
        clew_for(place, *at(server)) as person,
    ):
        await person.prompted()
        person.enters("go")
        await person.sees("Half an answer")
        person.types(CTRL_C)
        shown = await person.prompted()
        assert shown[-2:] == ["aborted; the partial answer is saved", "you #2, answer #3"]
        person.enters("run it")
        await person.asked("allow?")
        person.types(CTRL_C)
        shown = await person.prompted()
        assert shown[-2:] == ["aborted; the partial answer is saved", "you #4, result #6"]
        assert await person.says("and now?") == ["whole", "you #7, answer #8"]
        person.types(CTRL_C)
        await person.sees("press Ctrl-C again to exit")
        await person.prompted()
        person.types("half a line")
        await person.sees("> half a line")
        person.types(CTRL_C)
        await person.until(lambda: person.line == ">")
        person.types(f"x{EMPTY_LINE}{CTRL_C}")
        await person.until(lambda: person.lines[-4:-2] == ["> half a line", ">"])
        await person.prompted()
        person.types(CTRL_C)
        await person.until(lambda: person.lines.count("press Ctrl-C again to exit") == 2)
        await person.says("")
        person.types(CTRL_C)
        await person.until(lambda: person.lines[-3] == "press Ctrl-C again to exit")
        await person.prompted()
        person.types(CTRL_C)
        assert (await person.is_left())[-1].startswith("resume with: clew --resume ")

    assert "Half an answer" in str(server.requests[1]["messages"])
    assert not (place.project / "a.txt").exists()


@pytest.mark.req("CLI-1", "TUI-1")
async def test_a_long_wait_shows_its_seconds_and_an_empty_answer_is_reported(place: Place) -> None:
    rest = Stall()
    empty = ScriptedResponse(steps=[rest, delta("stop"), usage(9, 1), DONE])
    async with fake_openai(empty) as server, clew_for(place, *at(server)) as person:
        await person.prompted()
        person.enters("go")
        await person.sees("… 2 s, Ctrl-C aborts")
        await person.sees("… 3 s, Ctrl-C aborts")
        rest.release()
        assert (await person.prompted())[0] == "the answer is empty"
        assert "  /quit, /exit    exit; you can resume later" in await person.says("/help")


@pytest.mark.req("CLI-1")
@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_nothing_is_coloured_where_nothing_is_known_of_the_terminal(
    term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shown(StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", term)
    assert make_painter(Shown())("words", "red") == "words"
    monkeypatch.setenv("TERM", "xterm")
    assert make_painter(Shown())("words", "red") != "words"


@pytest.mark.req("CLI-1", "TUI-1", "CTX-6", "PRM-5")
async def test_the_status_line_tells_model_mode_name_and_how_full_the_window_is(
    place: Place,
) -> None:
    async with (
        fake_openai(fills(1_000), fills(7_500), fills(8_400)) as server,
        clew_for(place, *at(server, "--window", "10000")) as person,
    ):
        await person.says("one")
        assert person.status == "gpt-4o · default · context 10% · 1,001/10,000 tokens"
        assert person.colour("context 10%") == "green"
        assert await person.says("/mode plan") == [
            "permission mode: plan (reads only; changes and commands are denied)"
        ]
        assert await person.says("/rename the labyrinth") == [
            "the session is now called the labyrinth"
        ]
        await person.says("two")
        status = "gpt-4o · plan · the labyrinth · context 75% · 7,501/10,000 tokens"
        assert person.status == status
        assert person.colour("context 75%") == "brown"
        await person.says("three")
        assert "context 84%" in person.status
        assert person.colour("context 84%") == "red"
        title, empty, *picture = await person.says("/context")
        assert title == "gpt-4o: 8,401 of 10,000 tokens (84.0%), critical"
        assert empty == ""
        cells = "".join(row[:19] for row in picture).replace(" ", "")
        assert re.fullmatch(r"S+T+u*a*·+x····", cells)
        assert (len(cells), cells.index("·")) == (100, 84)
        legend = [row[19:].split()[:2] for row in picture if row[19:]]
        assert legend == [
            *(["S", "system"], ["T", "tools"], ["u", "user"], ["a", "assistant"], ["·", "free"]),
            *(["!", "warns"], ["c", "compacts"], ["x", "sends"]),
        ]


@pytest.mark.req("CMP-10", "CMP-11", "CMD-2")
async def test_a_compaction_is_previewed_made_and_taken_back(place: Place) -> None:
    place.write("notes.txt", "one\n")
    long = "The thread is red. " * 100
    async with (
        fake_openai(
            fills(2_500, long),
            call("Read", file_path="notes.txt"),
            fills(3_000, long),
            *(fills(3_500 + 100 * number, "fine") for number in range(5)),
            fills(50, "The thread is red; notes.txt holds one line."),
        ) as server,
        clew_for(place, *at(server, "--window", "12000")) as person,
    ):
        for line in ("what colour?", "read it", *("and now?" for _ in range(5))):
            await person.says(line)
        before, gone = person.status, "9 (#3-#11)"
        assert await person.says("/pin #2") == [
            "pinned #2: every compaction keeps it word for word"
        ]
        assert await person.says("/pin") == ["pinned: #2"]
        head, tokens, kept, summarised, _, *summary = await person.says("/compact preview")
        assert head == "a compaction would do this; nothing has changed:"
        assert re.fullmatch(r"tokens      3,901 → [\d,]{5}", tokens)
        assert kept == "kept        7 (#2, #12-#17) word for word"
        assert summarised == f"summarised  {gone} (summary written by rules, without a model)"
        assert "notes.txt" in "\n".join(summary)
        assert len(server.requests) == 8

        begun, _, *report, gauge = await person.says("/compact what colour it is")
        assert begun == "compacting (manual) …"
        assert report == [
            f"  {kept}",
            f"  summarised  {gone} (summary written by the model)",
            "  attempt     gpt-4o: used (51 tokens, $0.0001)",
            "  lost        nothing: all entries stay in the journal, and /undo restores the view",
        ]
        assert re.fullmatch(r"context \[█+░+\] 2\d%  ~[\d,]{5}/12,000 tokens  ok", gauge)
        assert "context 2" in person.status
        assert "what colour it is" in str(server.requests[8]["messages"])
        assert await person.says("/compact undo") == ["reverted the compaction #20"]
        assert "context 33%" in before
        assert "context 33%" in person.status


@pytest.mark.req("CKP-1", "MEM-1", "CMD-2")
async def test_files_go_back_and_facts_are_remembered(place: Place) -> None:
    notes = place.write("notes.txt", "one\n")
    edit = call("Edit", "c2", file_path="notes.txt", old_string="one", new_string="1")
    async with fake_openai(
        call("Read", file_path="notes.txt"), edit, text_response("done"), text_response("ok")
    ) as server:
        async with clew_for(place, *at(server, "--permission-mode", "acceptEdits")) as person:
            await person.says("edit it")
            assert notes.read_text() == "1\n"
            assert await person.says("/rewind") == ["    1  #3  edit it  (1 file)"]
            assert (await person.says("/rewind code 1"))[0] == (
                "1 file restored; the conversation is unchanged. /undo reverts this"
            )
            assert notes.read_text() == "one\n"
            assert await person.says("/undo") == ["reverted the rewind #9"]
            assert notes.read_text() == "1\n"
            assert await person.says("/memory add build run make, never ninja") == [
                "saved under build: run make, never ninja"
            ]
            title, empty, fact = await person.says("/memory show build")
            assert (title, empty) == ("# build", "")
            assert fact.endswith("(project/build) run make, never ninja")
            await person.leaves()
        async with clew_for(place, *at(server)) as person:
            await person.says("how do I build?")
    assert "run make, never ninja" in server.requests[-1]["messages"][0]["content"]


@pytest.mark.req("SKL-1", "AGT-1", "CLI-1")
async def test_skills_and_agents_work_at_the_prompt(place: Place) -> None:
    place.write("notes.txt", "one\n")
    _skill(place, "greet", "argument-hint: NAME", "Greet $ARGUMENTS warmly.")
    _skill(place, "survey", "context: fork\nagent: Explore", "Survey $ARGUMENTS.")
    async with (
        fake_openai(
            text_response("Hello Ada"),
            call("Glob", pattern="*.txt"),
            text_response("There is **one** file."),
            call("Agent", "c2", prompt="count the files", subagent_type="Explore"),
            call("Glob", "c3", pattern="*"),
            text_response("one file"),
            text_response("The agent says: one."),
        ) as server,
        clew_for(place, *at(server)) as person,
    ):
        await person.prompted()
        person.types("/gr")
        menu = await person.sees("what greet does")
        assert menu[-2] == " /greet  what greet does"
        person.types(f"{TAB} Ada")
        await person.until(lambda: person.line == "> /greet Ada")
        assert await person.says("") == ["Hello Ada", "you #3, answer #4"]
        assert sent(server).startswith("Greet Ada warmly.")
        shown = await person.says("/survey the folder")
        assert shown[0].startswith("  Explore starts: ")
        assert shown[1:] == [
            "  Explore → Glob *.txt",
            "  Explore is done",
            "There is one file.",
            "you #6, answer #8",
        ]
        assert person.is_bold("one file.")
        assert await person.says("use an agent") == [
            "→ Agent count the files",
            "  Explore starts: count the files",
            "  Explore → Glob *",
            "  Explore is done",
            "✓ Agent: one file",
            "The agent says: one.",
            "you #9, result #12, answer #13",
        ]


def _skill(place: Place, name: str, fields: str, body: str) -> None:
    head = f"---\nname: {name}\ndescription: what {name} does\n{fields}\n---\n"
    place.write(f".claude/skills/{name}/SKILL.md", f"{head}{body}\n")


@pytest.mark.req("CLI-1", "TUI-1", "STO-3", "CMD-2")
async def test_sessions_are_reset_picked_and_resumed(place: Place) -> None:
    async with fake_openai(
        text_response("first"), text_response("second"), text_response("third")
    ) as server:
        async with clew_for(place, *at(server)) as person:
            await person.says("begin the maze")
            await person.says("/rename maze")
            assert await person.says("/reset") == [
                "starting a new session; /resume returns to this one"
            ]
            assert "maze" not in person.status
            assert await person.says("begin the garden") == ["second", "you #2, answer #3"]
            person.enters("/resume")
            choice, answers = await person.asked("session?")
            assert re.fullmatch(r"   1  maze  \(2 messages, \d{4}-\d\d-\d\d \d\d:\d\d\)", choice)
            assert answers == "type a number, n for a new session, or Enter to stay"
            await person.answers("7")
            await person.asked("session?")
            await person.answers("1")
            assert (await person.prompted())[-3:] == [
                "session maze: 3 entries",
                "  you: begin the maze",
                "  answer: first",
            ]
            assert person.status.startswith("gpt-4o · default · maze · context ")
            await person.says("where are we?")
            await person.leaves()
        said = [message["content"] for message in server.requests[-1]["messages"][1:]]
        assert said == ["begin the maze", "first", "where are we?"]
        async with clew_for(place, *at(server, "--continue")) as person:
            shown = await person.prompted()
            assert shown[-4:-1] == [
                "session maze: 5 entries",
                "  you: where are we?",
                "  answer: third",
            ]


@pytest.mark.req("PRV-1", "CMP-13", "CMD-2", "PCX-1")
async def test_the_model_and_the_language_are_changed_at_the_prompt(place: Place) -> None:
    async with (
        fake_openai(text_response("from the first")) as first,
        fake_openai(text_response("vom zweiten")) as second,
        clew_for(
            place, *at(first), OPENAI_BASE_URL=second.url, OPENAI_API_KEY="secret-key"
        ) as person,
    ):
        await person.says("hello")
        assert await person.says("/model openai_chat/gpt-4.1") == [
            "switched to gpt-4.1: openai_chat, as OPENAI_API_KEY is set",
        ]
        assert person.status.startswith("gpt-4.1 · default · context ")
        assert await person.says("/language de") == ["answers will be in Deutsch"]
        assert await person.says("and now?") == ["vom zweiten", "you #6, answer #7"]

    assert second.requests[0]["model"] == "gpt-4.1"
    assert "de" in second.requests[0]["messages"][0]["content"]
    assert len(first.requests) == 1


async def test_long_lines_are_broken_between_words_below_their_column(place: Place) -> None:
    async with fake_openai() as server, clew_for(place, *at(server)) as person:
        shown = await person.says("/agent")
        assert shown[0].startswith("  general-purpose    Does a task")
        assert re.match(r" {21}\S", shown[1])
        assert all(len(line) <= 100 for line in shown)
