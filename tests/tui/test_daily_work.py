"""A day's work at the terminal: plans, questions in small windows, diffs, failures of a server."""

import re
from base64 import b64decode
from pathlib import Path

import pytest

from clew.testing.fake_openai import (
    DONE,
    Disconnect,
    ScriptedResponse,
    delta,
    error_response,
    fake_openai,
    text_response,
    usage,
)
from tests.tui.emulated import ENTER, ESC, Place, clew_for
from tests.tui.test_terminal_sessions import BACKSPACE, at, call

pytestmark = pytest.mark.anyio

_PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
_DOOR = "def main(key):\n    if key:\n        return None\n    return 1\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.below(tmp_path)


@pytest.mark.req("TUI-3", "PRM-3")
async def test_a_plan_is_edited_and_carried_out(place: Place) -> None:
    async with (
        fake_openai(
            call("ExitPlanMode", plan="## Doors\n\n1. Open the door."),
            text_response("I open it."),
        ) as server,
        clew_for(place, *at(server), "--permission-mode", "plan") as person,
    ):
        await person.prompted()
        person.enters("plan it")
        asked = "\n".join(await person.asked("Carry out this plan?"))
        assert "1. Open the door." in asked
        assert "ExitPlanMode" not in asked
        assert "presents" not in asked
        person.types("e")
        await person.sees("edit the plan; Enter carries it out")
        person.types(f" Slowly.{ENTER}")
        shown = await person.prompted()
        assert "1. Open the door. Slowly." in shown
        assert any(line.startswith("✓ Plan · approved; the mode is default now") for line in shown)
        assert shown[-1] == "I open it."
        assert b"Open the door. Slowly." in server.bodies[-1]


@pytest.mark.req("PRM-3", "TUI-1")
async def test_whoever_says_no_is_not_told_how_to_say_yes(place: Place) -> None:
    place.write("door.py", _DOOR)
    write = {"file_path": "new.txt", "content": "one\n"}
    async with (
        fake_openai(
            call("Write", **write),
            text_response("I leave it."),
            call("Write", "c2", **write),
            text_response("Too bad."),
        ) as server,
        clew_for(place, *at(server)) as person,
    ):
        await person.prompted()
        person.enters("write")
        await person.asked("Write wants to change")
        person.types("t")
        await person.sees("write to the model")
        person.types(f"use old.txt{ENTER}")
        shown = "\n".join(await person.prompted())
        assert "the user said no: use old.txt" in shown
        assert "would allow it" not in shown

        await person.says("/mode plan")
        assert "  /mode acceptEdits would allow it" in await person.says("write again")


@pytest.mark.req("TUI-1", "PRM-3")
async def test_every_word_of_an_answer_is_readable_in_a_narrow_window(place: Place) -> None:
    place.write("door.py", _DOOR)
    edit = {"file_path": "door.py", "old_string": "None", "new_string": "open_door(key)"}
    async with (
        fake_openai(
            call("Read", file_path="door.py"), call("Edit", "c2", **edit), text_response("done")
        ) as server,
        clew_for(place, *at(server), columns=40, rows=30) as person,
    ):
        await person.prompted()
        person.enters("edit")
        words = " ".join(" ".join(await person.asked("Edit wants to change")).split())
        for text in (
            "(default mode asks before calls that change files)",
            "s yes, for this session: Edit in this folder",
            "p yes, always in this project: Edit(./*)",
            "t no, and tell the model what to do instead",
            "press a key, or ↑ ↓ and Enter, Esc interrupts",
        ):
            assert text in words
        await person.answers("n")
        await person.prompted()


@pytest.mark.req("TUI-1")
async def test_the_help_lists_commands_and_keys(place: Place) -> None:
    keys = '{"terminal": {"keyBindings": {"expand": "c-e"}}}'
    place.write("../home/clew/settings.json", keys)
    async with (
        fake_openai(text_response("ok")) as server,
        clew_for(place, *at(server), rows=60) as person,
    ):
        shown = await person.says("/help")
        assert "  /context        show what fills the context window" in shown
        assert "  Esc             interrupt the run; twice: edit the previous prompt" in shown
        assert not any("folded block" in line for line in shown)  # another key does it


@pytest.mark.req("TUI-1")
async def test_the_changes_of_a_session_are_shown_in_colours(place: Place) -> None:
    place.write("door.py", _DOOR)
    edit = {"file_path": "door.py", "old_string": "None", "new_string": "open_door(key)"}
    async with (
        fake_openai(
            call("Read", file_path="door.py"), call("Edit", "c2", **edit), text_response("done")
        ) as server,
        clew_for(place, *at(server), "--permission-mode", "acceptEdits") as person,
    ):
        await person.says("edit")
        shown = await person.says("/diff")
        assert "+        return open_door(key)" in shown
        assert person.colour("+        return open_door(key)") == "green"
        assert person.colour("-        return None") == "red"
        assert person.is_bold("+++ b/door.py")


@pytest.mark.req("TUI-1", "PRV-4")
async def test_a_busy_server_a_failing_one_and_a_cut_answer_are_one_line_each(
    place: Place,
) -> None:
    cut = ScriptedResponse(steps=[delta(content="This answer will be "), Disconnect()])
    whole = [delta(content="There."), delta("stop"), usage(10, 1), DONE]
    async with (
        fake_openai(
            error_response(429, {"error": {"message": "slow down"}}, retry_after="1"),
            ScriptedResponse(steps=whole),
            cut,
            ScriptedResponse(steps=whole),
        ) as server,
        clew_for(place, *at(server)) as person,
    ):
        await person.prompted()
        person.enters("one")
        await person.sees("rate limited, retrying")
        assert (await person.prompted())[-1] == "There."
        assert "rate limited" not in "\n".join(person.lines)
        shown = await person.says("two")
        assert shown[0] == "This answer will be"
        assert "Lost the connection" in shown[2]
        assert (await person.says("three"))[-1] == "There."


@pytest.mark.req("TUI-1")
async def test_an_interrupted_command_leaves_its_output_and_nothing_else(place: Place) -> None:
    place.write("steps.sh", "echo one; echo two; exec sleep 60\n")
    async with (
        fake_openai(call("Bash", command="sh steps.sh"), text_response("done")) as server,
        clew_for(place, *at(server), "--allowed-tools", "Bash(sh steps.sh)") as person,
    ):
        await person.prompted()
        person.enters("go")
        await person.sees("  two")
        person.types(ESC)
        shown = await person.prompted()
        title = next(place for place, line in enumerate(shown) if line.startswith("✗ Bash"))
        assert " · interrupted" in shown[title]
        assert shown[title + 1 :] == ["  one", "  two", "", "interrupted; what has arrived is kept"]


@pytest.mark.req("TUI-1")
async def test_an_overflow_is_compacted_reported_and_undone(place: Place) -> None:
    too_long = {
        "error": {
            "message": "This model's maximum context length is 16000 tokens.",
            "code": "context_length_exceeded",
        }
    }
    long = " ".join(f"word{number}" for number in range(900))
    async with (
        fake_openai(
            *(text_response(f"{long} {number}") for number in range(4)),
            error_response(400, too_long),
            text_response("Goal: find the door. It is green."),
            text_response("It is green."),
        ) as server,
        clew_for(place, *at(server), rows=60) as person,
    ):
        for number in range(4):
            await person.says(f"read part {number}")
        shown = await person.says("Which colour?")
        assert "compacted (overflow)" in "\n".join(shown)
        assert any(line.startswith("  summarised ") for line in shown)
        assert any(line.startswith("  lost        nothing") for line in shown)
        assert shown[-1] == "It is green."
        assert (await person.says("/undo"))[0].startswith("reverted the compaction #")


@pytest.mark.req("CMP-14", "TUI-1")
async def test_cleared_results_are_announced_and_brought_back(place: Place) -> None:
    place.write(".clew/settings.local.json", '{"context": {"compressToolResults": 200}}')
    place.write("long.txt", "a word\n" * 200)
    async with (
        fake_openai(
            call("Read", file_path="long.txt"),
            text_response("It is long."),
            text_response("Yes."),
        ) as server,
        clew_for(place, *at(server), rows=60) as person,
    ):
        await person.says("read it")
        shown = await person.says("Is it long?")
        (line,) = [one for one in shown if "removed from context" in one]
        assert re.fullmatch(
            r"1 tool result removed from context, [\d,]+ → [\d,]+ tokens · /undo to restore", line
        )
        assert shown[-1] == "Yes."
        assert b"a word" not in server.bodies[-1]
        assert (await person.says("/undo"))[0].startswith("reverted")


@pytest.mark.req("TUI-1", "CLI-1")
async def test_a_session_is_chosen_from_a_list(place: Place) -> None:
    async with fake_openai(text_response("The first answer."), text_response("ok")) as server:
        for prompt in ("open the door", "paint the wall"):
            async with clew_for(place, *at(server), prompt) as person:
                await person.prompted()
                await person.leaves()
        async with clew_for(place, "--resume") as person:
            await person.sees("Which session do you want to resume?")
            shown = await person.sees("paint the wall", "open the door")
            assert any(line.startswith("❯ 1  paint the wall") for line in shown)
            person.types("2")
            await person.prompted()
            assert "The first answer." in person.lines
            assert person.status.startswith("gpt-4o")


@pytest.mark.req("TUI-1", "CLI-1")
async def test_a_long_list_of_sessions_is_searched(place: Place) -> None:
    async with fake_openai(text_response("ok")) as server:
        flags = at(server)
        for number in range(13):
            await place.runs("-p", f"paint wall {number}" if number else "open the door", *flags)
        async with clew_for(place, "--resume") as person:
            await person.sees("/ searches all 13; Esc for none")
            person.types("/door")
            shown = await person.sees("search: door  (1 of 13; Esc ends it)")
            assert any(line.startswith("❯    open the door") for line in shown)
            person.types(f"xx{BACKSPACE}{BACKSPACE}{ENTER}")
            await person.prompted()
            assert "❯ open the door" in person.lines


@pytest.mark.req("TUI-3")
async def test_an_image_and_a_file_are_attached_by_name(place: Place) -> None:
    place.write("door.py", _DOOR)
    (place.project / "red.png").write_bytes(_PNG)
    async with (
        fake_openai(text_response("A red dot.")) as server,
        clew_for(place, *at(server)) as person,
    ):
        shown = await person.says("compare @door.py and @red.png")
        # The image may be read first.
        image, code = sorted(shown[:2], reverse=True)
        assert image.startswith("✓ Read red.png · image/png, 1×1 pixels")
        assert code.startswith("✓ Read door.py · 4 lines")
        assert shown[-1] == "A red dot."
        assert b"image_url" in server.bodies[-1]
