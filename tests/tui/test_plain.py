"""The plain prompt in a real pseudo-terminal that can only append lines."""

import os
import sys
from pathlib import Path

import anyio
import pytest

from clew.testing.fake_openai import ScriptedResponse, Stall, delta, fake_openai, text_response
from tests.cli.terminal import CTRL_C, CTRL_D, clew

pytestmark = pytest.mark.anyio


@pytest.mark.req("CLI-1", "CMP-10")
async def test_prompts_commands_and_exit(tmp_path: Path) -> None:
    async with (
        fake_openai(text_response("Hello", " friend")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, process),
    ):
        await terminal.shows("> ")
        terminal.types("hi there\n")
        await terminal.shows("Hello friend")
        await terminal.shows(" context ")
        terminal.types("/help\n")
        await terminal.shows("/compact")
        terminal.types("!echo from the shell\n")
        await terminal.shows("from the shell")
        terminal.types("/recall shell\n")
        await terminal.shows("from the shell")
        terminal.types("/context\n")
        await terminal.shows("tools ")
        terminal.types("/nonsense\n")
        await terminal.shows("there is no command /nonsense")
        terminal.types("/clear\n")
        await terminal.shows("is cleared")
        terminal.types("/undo\n")
        await terminal.shows("the clear")
        terminal.types("/pin #2\n")
        await terminal.shows("pinned #2")
        terminal.types("/unpin #2\n")
        await terminal.shows("unpinned #2")
        terminal.types("/pin two\n")
        await terminal.shows("give the number of an entry")
        terminal.types("/compact\n")
        await terminal.shows("clew: nothing can be compacted")
        await terminal.shows("> ")
        terminal.types(CTRL_D)
        await terminal.shows("clew --resume")
        with anyio.fail_after(60):
            assert await process.wait() == 0


@pytest.mark.req("PRV-1", "PRV-7", "RSN-5")
async def test_the_model_is_switched_in_the_middle_of_a_session(tmp_path: Path) -> None:
    async with (
        fake_openai(text_response("from the first"), text_response("from the second")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, process),
    ):
        await terminal.shows("> ")
        terminal.types("remember the marigold\n")
        await terminal.shows("from the first")
        terminal.types("/model\n")
        await terminal.shows("gpt-4o: 128,000 tokens of context")
        terminal.types("/model openai_chat/gpt-4.1\n")
        await terminal.shows("switched to gpt-4.1")
        terminal.types("and now?\n")
        await terminal.shows("from the second")
        terminal.types("/cost\n")
        await terminal.shows("calls     2")
        await terminal.shows("> ")
        terminal.types(CTRL_D)
        with anyio.fail_after(60):
            assert await process.wait() == 0

    said = [message["content"] for message in server.requests[1]["messages"][1:]]
    assert said == ["remember the marigold", "from the first", "and now?"]
    assert server.requests[1]["model"] == "gpt-4.1"


@pytest.mark.req("PRV-3", "CLI-1")
async def test_ctrl_c_aborts_the_run_and_exits_when_pressed_twice(tmp_path: Path) -> None:
    stall = Stall()
    half = ScriptedResponse(steps=[delta(content="Half an answer"), stall])
    async with (
        fake_openai(half, text_response("whole")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, process),
    ):
        await terminal.shows("> ")
        terminal.types("go\n")
        await stall.reached.wait()
        terminal.types(CTRL_C)
        await terminal.shows("Half an answer")
        await terminal.shows("interrupted; what has arrived is kept")
        terminal.types("go on\n")
        await terminal.shows("whole")
        await terminal.shows("> ")
        assert "Half an answer" in str(server.requests[1]["messages"])
        await terminal.interrupts(process)
        await terminal.shows("again to exit")
        await terminal.shows("> ")
        await terminal.interrupts(process)
        with anyio.fail_after(60):
            assert await process.wait() == 0


async def test_malformed_command_arguments_are_errors(tmp_path: Path) -> None:
    async with (
        fake_openai(text_response("Hello")) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, process),
    ):
        await terminal.shows("> ")
        for typed, shown in (
            ("/recall #²", "Nothing in this session matches"),
            ("/pin ²", "give the number of an entry"),
            ("/recall", "write text to search for"),
            ("/history many", "give the number of entries"),
            ("/HELP", "list the commands"),
        ):
            terminal.types(f"{typed}\n")
            await terminal.shows(shown)
            await terminal.shows("> ")
        terminal.types("/Quit now\n")
        with anyio.fail_after(60):
            assert await process.wait() == 0
    assert "Traceback" not in terminal.screen
    assert "unexpected" not in terminal.screen


async def test_a_very_long_number_is_an_error(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    typed = f"/recall #{'9' * 5_000}\n/pin {'9' * 5_000}\n/history {'9' * 5_000}\n"
    command = [sys.executable, "-m", "clew.cli", "--base-url", "http://x/v1", "--model", "gpt-4o"]
    with anyio.fail_after(60):
        done = await anyio.run_process(command, input=typed.encode(), env=env, cwd=tmp_path)

    text = done.stdout.decode()
    assert text.count("clew: give the number of an entry") == 2
    assert text.count("clew: give the number of entries") == 1
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("reason", "note"), [("length", "output limit"), ("content_filter", "refused to answer")]
)
async def test_an_answer_that_did_not_end_by_itself_says_so(
    tmp_path: Path, reason: str, note: str
) -> None:
    cut = ScriptedResponse(
        steps=[delta(content="Half"), delta(reason), *text_response().steps[-2:]]
    )
    async with (
        fake_openai(cut) as server,
        clew("--base-url", server.url, "--model", "gpt-4o", cwd=tmp_path) as (terminal, _),
    ):
        await terminal.shows("> ")
        terminal.types("hi\n")
        await terminal.shows("Half")
        await terminal.shows(note)


@pytest.mark.req("STO-3", "PRM-5")
async def test_a_resumed_session_shows_its_last_turn(tmp_path: Path) -> None:
    async with fake_openai(text_response("The thread leads out.")) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        bypass = ("--permission-mode", "bypassPermissions")
        async with clew(*flags, *bypass, cwd=tmp_path) as (terminal, process):
            await terminal.shows("permission mode: bypassPermissions")
            await terminal.shows("> ")
            terminal.types("Where does it lead?\n")
            await terminal.shows(" context ")
            await terminal.shows("> ")
            terminal.types(CTRL_D)
            with anyio.fail_after(60):
                await process.wait()
        async with clew(*flags, "--continue", cwd=tmp_path) as (terminal, _):
            await terminal.shows("permission mode: default")
            await terminal.shows(": 4 entries")
            await terminal.shows("> Where does it lead?")
            await terminal.shows("The thread leads out.")
            await terminal.shows("> ")
