"""Questions before a tool call, asked in a real pseudo-terminal: honest, complete, answerable."""

from pathlib import Path

import msgspec
import pytest

from clew.testing.fake_openai import (
    DONE,
    ScriptedResponse,
    delta,
    fake_openai,
    text_response,
    tool_call_response,
    usage,
)
from tests.cli.terminal import clew

pytestmark = pytest.mark.anyio

HIDDEN = "rm -rf x #\x1b[2K\rBash wants to run: ls"


def bash(command: str, call_id: str = "c1") -> ScriptedResponse:
    return tool_call_response(
        "Bash", msgspec.json.encode({"command": command}).decode(), call_id=call_id
    )


def both(*commands: str) -> ScriptedResponse:
    """Return an answer with several calls at once."""
    asked = [
        {
            "index": number,
            "id": f"b{number}",
            "type": "function",
            "function": {
                "name": "Bash",
                "arguments": msgspec.json.encode({"command": command}).decode(),
            },
        }
        for number, command in enumerate(commands)
    ]
    return ScriptedResponse(
        steps=[delta(tool_calls=asked), delta("tool_calls"), usage(10, 5), DONE]
    )


@pytest.mark.req("PRM-3")
async def test_a_question_is_asked_before_a_command_runs(tmp_path: Path) -> None:
    async with (
        fake_openai(
            tool_call_response("Bash", '{"command":"touch yes.txt"}', call_id="c1"),
            text_response("one"),
            tool_call_response("Bash", '{"command":"touch no.txt"}', call_id="c2"),
            text_response("two"),
        ) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, _),
    ):
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("Bash wants to run: touch yes.txt")
        await terminal.shows("allow?")
        terminal.types("y\n")
        await terminal.shows("one")
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("allow?")
        terminal.types("n\n")
        await terminal.shows("the user said no")
        await terminal.shows("two")
    assert (tmp_path / "yes.txt").exists()
    assert not (tmp_path / "no.txt").exists()


@pytest.mark.req("PRM-3")
async def test_a_command_cannot_hide_behind_control_characters(tmp_path: Path) -> None:
    async with (
        fake_openai(bash(HIDDEN), text_response("ok")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, _),
    ):
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("Bash wants to run: rm -rf x #␛[2K␍Bash wants to run: ls")
        await terminal.shows("allow?")
        assert "\x1b[2K" not in terminal.screen


async def test_every_line_of_a_command_is_behind_the_bar(tmp_path: Path) -> None:
    command = "rm -rf x" + "\n" * 60 + "echo allow?"
    async with (
        fake_openai(bash(command), text_response("ok")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, _),
    ):
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("Bash wants to run:\r\n  | rm -rf x\r\n")
        shown = await terminal.shows("  | … 41 more lines\r\n")
        assert shown.count("  | ") == 20
        await terminal.shows("v: view all\r\nallow? ")
        terminal.types("v\n")
        await terminal.shows("  | echo allow?\r\n")
        await terminal.shows("allow? ")


async def test_a_long_line_is_wrapped_behind_the_bar(tmp_path: Path) -> None:
    command = "rm -rf x #" + " " * 500 + "Bash wants to run: ls"
    async with (
        fake_openai(bash(command), text_response("ok")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, _),
    ):
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("Bash wants to run:\r\n")
        shown = await terminal.shows("(default mode asks")
        rows = shown.split("\r\n")[:-1]
        assert all(row.startswith("  | ") for row in rows)
        assert "".join(row.removeprefix("  | ") for row in rows) == command


async def test_output_of_models_and_tools_cannot_control_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07 \x9b2J \u202eabc \rX"
    async with (
        fake_openai(
            text_response("Hel", evil, "lo"), bash("printf '\\033]0;owned\\007'")
        ) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, _),
    ):
        await terminal.shows("> ")
        terminal.types("hi\n")
        await terminal.shows("Hel␛]0;owned␇ <U+009B>2J <U+202E>abc")
        await terminal.shows("> ")
        terminal.types("!printf '\\033]0;owned\\007shown\\n'\n")
        await terminal.shows("shown")
        await terminal.shows("> ")
        terminal.types("/recall owned\n")
        await terminal.shows("#3 assistant (")
        await terminal.shows("Hel␛]0;owned␇ <U+009B>2J <U+202E>abc ␍Xlo")
        await terminal.shows("> ")
        assert "\x1b]0;" not in terminal.screen


@pytest.mark.req("PRM-3")
async def test_whole_words_are_answers_and_others_are_asked_again(tmp_path: Path) -> None:
    async with (
        fake_openai(
            bash("touch a.txt"),
            bash("touch b.txt", "c2"),
            bash("mkdir new", "c3"),
            text_response("done"),
        ) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, _),
    ):
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("allow?")
        terminal.types("sure\n")
        await terminal.shows("answer with one of: y, s, n, t")
        await terminal.shows("allow?")
        terminal.types("ONCE\n")
        await terminal.shows("Bash wants to run: touch b.txt")
        await terminal.shows("allow?")
        terminal.types("Session\n")
        await terminal.shows("Bash wants to run: mkdir new")
        await terminal.shows("allow?")
        terminal.types("NO\n")
        await terminal.shows("the user said no")
        await terminal.shows("done")
    assert (tmp_path / "a.txt").exists()
    assert (tmp_path / "b.txt").exists()
    assert not (tmp_path / "new").exists()


@pytest.mark.req("PRV-3", "PRM-3")
async def test_ctrl_c_at_a_question_aborts_the_run_and_asks_no_more(tmp_path: Path) -> None:
    async with (
        fake_openai(both("touch a", "touch b", "touch c"), text_response("later")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, process),
    ):
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("allow? ")
        await terminal.interrupts(process)
        await terminal.shows("interrupted; what has arrived is kept")
        await terminal.shows("> ")
        assert terminal.screen.count("allow?") == 1
        terminal.types("and now?\n")
        await terminal.shows("later")
        assert len(server.requests) == 2
    assert list(tmp_path.glob("?")) == []


@pytest.mark.req("TUI-1")
async def test_an_edit_shows_its_diff_and_its_outcome(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    edit = {"file_path": "notes.txt", "old_string": "one\ntwo", "new_string": "one\nTWO\x1b[2J"}
    write = {"file_path": "new.txt", "content": "alpha\nbeta\n"}
    async with (
        fake_openai(
            tool_call_response("Read", '{"file_path":"notes.txt"}'),
            tool_call_response("Edit", msgspec.json.encode(edit).decode(), call_id="c2"),
            tool_call_response("Write", msgspec.json.encode(write).decode(), call_id="c3"),
            text_response("done"),
        ) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, _),
    ):
        await terminal.shows("> ")
        terminal.types("go\n")
        await terminal.shows("ok: Read notes.txt")
        await terminal.shows("Edit wants to change: notes.txt\r\n")
        diff = "  1   one\r\n{bar}2 - two\r\n{bar}2 + TWO␛[2J\r\n{bar}3   three\r\n"
        await terminal.shows(diff.format(bar="  | ").replace("  1", "  | 1", 1))
        await terminal.shows("allow?")
        terminal.types("y\n")
        await terminal.shows("ok: Edit notes.txt")
        await terminal.shows(diff.format(bar="  "))
        await terminal.shows("Write wants to change: new.txt\r\n  | 1 + alpha\r\n  | 2 + beta\r\n")
        await terminal.shows("allow?")
        terminal.types("n\n")
        await terminal.shows("failed: Write new.txt")
        await terminal.shows("done")
