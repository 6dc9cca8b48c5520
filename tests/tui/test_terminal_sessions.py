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
from tests.tui.emulated import CTRL_C, DOWN, ENTER, ESC, TAB, UP, Place, clew_for

pytestmark = pytest.mark.anyio

EMPTY_LINE, BACKSPACE = "\x15", "\x7f"
"""Ctrl-U."""
SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?$]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
ALLOWED = re.compile(
    r"\x1b(?:\[[0-9;]*m|\[\d*[ABCDK]|\[J|\[\?(?:1|7|25|2004|2026)[hl]|\[\?2026\$p"
    r"|\](?:2|9|8);[^\x07\x1b]*\x1b\\)"
)


def assert_clean(raw: str) -> None:
    """No control sequence moves to a place on the screen, or erases what was printed."""
    assert {one for one in SEQUENCE.findall(raw) if not ALLOWED.fullmatch(one)} == set()


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


@pytest.mark.req("CLI-1", "TUI-1", "TUI-2")
async def test_the_input_stays_active_while_an_answer_arrives(place: Place) -> None:
    rest = Stall()
    steps = [delta(content=text) for text in ("# The lab", "yrinth\n\nIt is **ve", "ry** old.")]
    end = [delta(content="\n\n- a `thread`\n- a door\n"), delta("stop"), usage(900, 9), DONE]
    async with (
        fake_openai(
            ScriptedResponse(steps=[*steps, rest, *end]), text_response("second"), fills(9, "third")
        ) as server,
        clew_for(place, *at(server, "--sandbox", "off")) as person,
    ):
        assert await person.prompted() == [
            f"gpt-4o: the server at {server.url}",
            "permission mode: default",
            "Commands run without a sandbox: it is switched off.",
            "/help lists the commands, !ls runs a shell command, Ctrl-D exits",
        ]
        assert person.colour("context 2%") == "green"
        assert person.screen.title == "clew · project"
        person.enters("tell me")
        await person.sees("The labyrinth", "It is very old.")
        assert person.screen.title == "clew · project · works"
        await person.until(lambda: person.status.endswith("Esc interrupts"))
        person.types("and then")
        await person.until(lambda: person.line == "> and then")
        person.types(f"{ENTER}also this{ENTER}")
        await person.sees("queued: and then", "queued: also this  (↑ edits)")
        await person.until(lambda: "2 queued" in person.status)
        person.types(UP)
        await person.until(lambda: "queued" not in "\n".join(person.lines))
        await person.until(lambda: person.lines[-3:-1] == ["> and then", "  also this"])
        person.types(f"{EMPTY_LINE}{BACKSPACE}{EMPTY_LINE}half a line")
        await person.until(lambda: person.line == "> half a line")
        person.types(f"{EMPTY_LINE}and then{ENTER}")
        await person.sees("queued: and then")
        rest.release()
        await person.sees("second")
        shown = await person.prompted()
        assert [line for line in shown if line] == [
            *("❯ tell me", "The labyrinth", "It is very old.", "• a thread", "• a door"),
            *("❯ and then", "second"),
        ]
        assert (person.is_bold("very"), person.is_bold("old.")) == (True, False)
        assert await person.says("next") == ["third"]
        assert (await person.leaves())[-1].startswith("resume with: clew --resume ")

    assert [sent(server, number) for number in range(3)] == ["tell me", "and then", "next"]
    assert_clean(person.raw)


@pytest.mark.req("CLI-1", "TUI-1")
async def test_a_line_is_completed_pasted_and_found_again(place: Place) -> None:
    place.write("notes.txt", "one\n")
    place.write("src/app.py", "two\n")
    async with fake_openai(text_response("ok")) as server, clew_for(place, *at(server)) as person:
        await person.prompted()
        person.types("/con")
        menu = await person.sees("show what fills the context window")
        assert " /context  show what fills the context window" in menu
        person.types(TAB)
        await person.until(lambda: person.line == "> /context")
        person.types(f"{EMPTY_LINE}/comp{TAB} ")
        menu = await person.sees("revert the latest compaction")
        assert " undo     revert the latest compaction" in menu
        person.types(f"u{TAB}")
        await person.until(lambda: person.line == "> /compact undo")
        person.types(f"{EMPTY_LINE}read @no{TAB}and @sr{TAB}ap{TAB}")
        await person.until(lambda: person.line == "> read @notes.txt and @src/app.py")
        shown = await person.sends()
        assert shown[0].startswith("✓ Read notes.txt")
        assert shown[-1] == "ok"

        person.pastes("first line\nsecond line")
        await person.until(lambda: person.line == "  second line")
        assert await person.sends() == ["ok"]
        assert sent(server) == "first line\nsecond line"

        person.types(UP)
        await person.until(lambda: person.line == "  second line")
        person.types(UP * 2)
        await person.until(lambda: person.line == "> read @notes.txt and @src/app.py")
        await person.sends(" again")
        person.types(f"\x12first{ENTER}")
        await person.until(lambda: person.lines[-3] == "> first line")
        person.types(CTRL_C)
        title, output = await person.says("!echo from the shell")
        assert title.startswith("❯ !echo from the shell  #")
        assert output == "  from the shell"
        assert sum(line.startswith("❯ !echo") for line in person.lines) == 1
        person.types("\x0f")
        await person.until(lambda: person.lines.count(title) == 2)


@pytest.mark.req("CLI-1", "TUI-1", "PRM-3", "INT-3")
async def test_questions_take_one_key_and_never_a_line_that_is_typed(place: Place) -> None:
    notes = place.write("notes.txt", "one\ntwo\nthree\n")
    asked = Stall()
    edit = call("Edit", "c2", file_path="notes.txt", old_string="two", new_string="TWO")
    async with (
        fake_openai(
            call("Read", file_path="notes.txt"),
            ScriptedResponse(steps=[asked, *edit.steps]),
            call("Bash", "c3", command="touch once.txt"),
            call("Bash", "c4", command="mkdir -p inner"),
            call("Bash", "c5", command="mkdir -p inner"),
            call("Bash", "c6", command="touch never.txt"),
            call("Bash", "c7", command="touch other.txt"),
            text_response("done"),
            text_response("again"),
        ) as server,
        clew_for(place, *at(server)) as person,
    ):
        await person.prompted()
        person.enters("work")
        await person.sees("Read notes.txt")
        person.types("yes, this is a prompt")
        await person.until(lambda: person.line == "> yes, this is a prompt")
        asked.release()
        shown = await person.asked("Edit wants to change: notes.txt")
        await person.until(lambda: person.line == "> yes, this is a prompt")
        assert "(default mode asks before calls that change files)" in shown
        assert "  s  yes, for this session: Edit in this folder" in shown
        assert [line[:14] for line in shown if "two" in line.lower()] == [
            *("  │ 2 - two", "  │ 2 + TWO"),
        ]
        await person.answers("y")
        await person.asked("touch once.txt")
        await person.answers(ENTER)
        await person.asked("mkdir -p inner")
        await person.answers("s")
        await person.asked("touch never.txt")
        person.types(UP)
        await person.sees("❯ t  no, and tell the model what to do instead")
        person.types(ENTER)
        await person.sees("Enter sends, Esc goes back")
        await person.answers(f"not in this folder{ENTER}")
        await person.asked("touch other.txt")
        await person.answers("n")
        await person.sees("done")
        await person.until(lambda: person.line == "> yes, this is a prompt")
        person.types(ENTER)
        await person.sees("❯ yes, this is a prompt", "again")
        shown = await person.prompted()
        calls = [line for line in shown if line.startswith(("✓", "✗"))]
        assert [line.split(" · ")[0].split("  #")[0] for line in calls] == [
            *("✓ Read notes.txt", "✓ Edit notes.txt", "✓ Bash touch once.txt"),
            *("✓ Bash mkdir -p inner", "✓ Bash mkdir -p inner"),
            *("✗ Bash touch never.txt", "✗ Bash touch other.txt"),
        ]

    assert notes.read_text() == "one\nTWO\nthree\n"
    assert "not in this folder" in str(server.requests[6]["messages"][-1])
    made = {path.name for path in place.project.iterdir()} - {".clew"}
    assert made == {"notes.txt", "once.txt", "inner"}
    assert_clean(person.raw)


@pytest.mark.req("TUI-1", "PRM-3")
async def test_questions_are_whole_in_a_narrow_window(place: Place) -> None:
    async with (
        fake_openai(
            call("Bash", command="./check.sh all"),
            call("Write", "c2", file_path="deep/new.txt", content="one\n"),
            text_response("done"),
        ) as server,
        clew_for(place, *at(server), columns=20) as person,
    ):
        await person.until(lambda: person.is_idle)
        person.enters("go")
        await person.until(lambda: "❯ y  yes, once" in "\n".join(person.lines))
        shown = "".join(person.lines).replace("  │ ", "")
        assert "Bash wants to run:" in shown
        assert "./check.sh all" in shown
        person.types("y")
        await person.until(lambda: "Write wants to" in "\n".join(person.lines))
        await person.until(lambda: "❯ y  yes, once" in "\n".join(person.lines))
        person.types("y")
        await person.until(lambda: "done" in person.lines)
        assert all(len(line) <= 20 for line in person.lines)

    assert (place.project / "deep" / "new.txt").exists()


@pytest.mark.req("PRM-3", "CFG-1")
async def test_a_call_that_is_allowed_for_the_project_is_not_asked_again(place: Place) -> None:
    place.write("check.sh", "echo checked $1\n").chmod(0o755)
    async with fake_openai(
        call("Bash", command="./a.sh > b.txt"),
        call("Bash", "c1", command="./check.sh all"),
        text_response("good"),
        call("Bash", "c2", command="./check.sh all twice"),
        text_response("good again"),
    ) as server:
        async with clew_for(place, *at(server)) as person:
            await person.prompted()
            person.enters("check")
            shown = await person.asked("./a.sh > b.txt")
            assert not any(line.startswith("  p  ") for line in shown)
            person.types("p")
            await person.answers("n")
            await person.asked("./check.sh all")
            await person.answers("p")
            shown = await person.prompted()
            assert any("allowed in this folder" in line for line in shown)
            assert shown[-1] == "good"
            await person.leaves()
        async with clew_for(place, *at(server)) as person:
            shown = await person.says("check")
            assert shown[0].startswith("✓ Bash ./check.sh all twice")
            assert shown[-1] == "good again"

    written = msgspec.json.decode((place.project / ".clew/settings.local.json").read_bytes())
    assert written == {"permissions": {"allow": ["Bash(./check.sh all:*)"]}}


@pytest.mark.req("CLI-1", "PRV-3", "PRM-3", "TUI-2")
async def test_a_run_is_interrupted_at_any_moment_and_the_queue_stays(place: Place) -> None:
    half = ScriptedResponse(steps=[delta(content="Half an answer"), Stall()])
    async with (
        fake_openai(
            half,
            text_response("the queued answer"),
            call("Bash", command="touch a.txt"),
            ScriptedResponse(steps=[Stall()]),
            text_response("whole"),
        ) as server,
        clew_for(place, *at(server)) as person,
    ):
        await person.prompted()
        person.enters("go")
        await person.sees("Half an answer")
        person.types(f"queued words{ENTER}")
        await person.sees("queued: queued words")
        person.types(ESC)
        shown = await person.sees("the queued answer")
        assert "interrupted; what has arrived is kept" in shown
        await person.prompted()
        person.enters("run it")
        await person.asked("touch a.txt")
        person.types(ESC)
        await person.sees("interrupted; what has arrived is kept")
        await person.prompted()
        person.enters("wait for it")
        await person.sees("❯ wait for it")
        person.types("half a line")
        await person.until(lambda: person.line == "> half a line")
        person.types(CTRL_C)
        await person.until(lambda: person.line == ">")
        person.types(CTRL_C)
        await person.sees("interrupted; what has arrived is kept")
        await person.until(lambda: person.is_idle)
        person.types(ESC)
        await person.sees("press Esc again to edit the previous prompt")
        person.types(ESC)
        await person.until(lambda: person.line == "> wait for it")
        person.types(f" no longer{ENTER}")
        await person.sees("❯ wait for it no longer", "whole")
        await person.until(lambda: person.is_idle)
        person.types(CTRL_C)
        await person.sees("press Ctrl-C again to exit")
        person.types(CTRL_C)
        assert (await person.is_left())[-1].startswith("resume with: clew --resume ")

    assert "Half an answer" in str(server.requests[1]["messages"])
    asked = [one["content"] for one in server.requests[-1]["messages"] if one["role"] == "user"]
    assert "wait for it" not in asked
    assert asked[-1] == "wait for it no longer"
    assert not (place.project / "a.txt").exists()


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
        await person.until(lambda: "context 10% · 1,001/10,000 tokens · $" in person.status)
        assert person.colour("context 10%") == "green"
        assert await person.says("/mode plan") == [
            "permission mode: plan (reads only; changes and commands are denied)"
        ]
        assert await person.says("/rename the labyrinth") == [
            "the session is now called the labyrinth"
        ]
        await person.says("two")
        await person.until(lambda: person.status.startswith("gpt-4o · plan · the labyrinth · "))
        await person.until(lambda: "context 75%" in person.status)
        person.types("\x1b[Z")
        await person.until(lambda: person.status.startswith("gpt-4o · default · the labyrinth"))
        assert person.colour("context 75%") == "brown"
        await person.says("three")
        await person.until(lambda: "context 84%" in person.status)
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
        assert len(summary) <= 20
        assert len(server.requests) == 8

        report = "\n".join(await person.says("/compact what colour it is"))
        assert f"summarised  {gone} (summary written by the model)" in report
        assert "attempt     gpt-4o: used (51 tokens, $0.0001)" in report
        assert "/undo restores the view" in report
        await person.until(lambda: "context 2" in person.status)
        assert "what colour it is" in str(server.requests[8]["messages"])
        assert await person.says("/compact undo") == ["reverted the compaction #20"]
        assert "context 33%" in before
        await person.until(lambda: "context 33%" in person.status)


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
        assert " /greet  what greet does" in menu
        person.types(f"{TAB} Ada")
        await person.until(lambda: person.line == "> /greet Ada")
        assert await person.sends() == ["Hello Ada"]
        assert sent(server).startswith("Greet Ada warmly.")
        shown = "\n".join(await person.says("/survey the folder"))
        assert "Explore" in shown
        assert "There is one file." in shown
        await person.until(lambda: person.is_bold("one file."))
        shown = "\n".join(await person.says("use an agent"))
        assert "✓ Agent count the files" in shown
        assert "The agent says: one." in shown


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
            person.enters("/reset")
            await person.sees("starting a new session; /resume returns to this one")
            await person.until(lambda: person.is_idle and "maze" not in person.status)
            assert await person.says("begin the garden") == ["second"]
            person.enters("/resume")
            shown = await person.sees("Which session?", "a new session")
            assert re.search(r"❯ 1  maze  \(2 messages, just now\)", "\n".join(shown))
            person.types(f"{DOWN}{UP}{ENTER}")
            await person.sees("session maze: 3 entries", "❯ begin the maze", "first")
            await person.until(lambda: person.status.startswith("gpt-4o · default · maze · "))
            await person.says("where are we?")
            await person.leaves()
        said = [message["content"] for message in server.requests[-1]["messages"][1:]]
        assert said == ["begin the maze", "first", "where are we?"]
        async with clew_for(place, *at(server, "--continue")) as person:
            shown = await person.prompted()
            assert "session maze: 5 entries" in shown
        async with clew_for(place, *at(server, "--resume")) as person:
            await person.sees("Which session do you want to resume?", "maze  (")
            person.types("1")
            await person.sees("session maze: 5 entries", "❯ where are we?", "third")
            await person.leaves()


@pytest.mark.req("PRM-6")
async def test_the_greeting_says_once_what_commands_can_do(place: Place) -> None:
    off = "Commands run without a sandbox: it is switched off."
    async with fake_openai(text_response("one")) as server:
        async with clew_for(place, *at(server, "--sandbox", "off")) as person:
            first = await person.prompted()
            person.enters("/reset")
            again = await person.sees("starting a new session")
            await person.leaves()
        async with clew_for(place, *at(server, "--sandbox", "off")) as person:
            second = await person.prompted()
            await person.leaves()
        async with clew_for(place, *at(server, "--sandbox", "auto")) as person:
            changed = await person.prompted()
            await person.leaves()

    assert first.count(off) == 1
    assert off not in again
    assert not [line for line in second if "sandbox" in line]
    assert [line for line in changed if "sandbox" in line]


@pytest.mark.req("PRV-1", "CMP-13", "CMD-2", "PCX-1")
async def test_the_model_and_the_language_are_changed_at_the_prompt(place: Place) -> None:
    async with (
        fake_openai(text_response("from the first"), text_response("vom zweiten")) as server,
        clew_for(place, *at(server)) as person,
    ):
        await person.says("hello")
        assert (await person.says("/model openai_chat/gpt-4.1"))[0].startswith(
            "switched to gpt-4.1"
        )
        await person.until(lambda: person.status.startswith("gpt-4.1 · default · "))
        assert await person.says("/language de") == ["answers will be in Deutsch"]
        assert await person.says("and now?") == ["vom zweiten"]

    assert server.requests[1]["model"] == "gpt-4.1"
    assert "de" in server.requests[1]["messages"][0]["content"]


async def test_long_lines_are_broken_between_words_below_their_column(place: Place) -> None:
    async with fake_openai() as server, clew_for(place, *at(server), columns=60) as person:
        shown = await person.says("/agent")
        assert shown[0].startswith("  general-purpose    Does a task")
        assert re.match(r" {21}\S", shown[1])
        assert all(len(line) <= 60 for line in shown)
