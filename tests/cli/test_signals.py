"""Signals that ask Clew to end: nothing that had arrived is lost, and nothing is left running."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from clew.testing.fake_openai import (
    ScriptedResponse,
    Stall,
    delta,
    fake_openai,
    text_response,
    tool_call_response,
)
from tests.tui.emulated import Person, Place, clew_for

pytestmark = pytest.mark.anyio

UNDER_ANY_PARENT = (
    "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL);"
    "from clew.cli.main import main; sys.exit(main())"
)
"""Whoever runs the tests may have switched the signal off, and Clew respects that."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.below(tmp_path)


async def kept(place: Place) -> str:
    """Return what the newest session holds."""
    done = await place.runs("sessions", "show", (await _newest(place)))
    return done.stdout


async def _newest(place: Place) -> str:
    return (await place.runs("sessions")).stdout.split()[0]


@pytest.mark.req("CLI-1", "PRV-3")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_print_mode_saves_the_partial_answer(place: Place, number: signal.Signals) -> None:
    stall = Stall()
    half = ScriptedResponse(steps=[delta(content="Half an answer"), stall])
    async with fake_openai(half) as server:
        flags = ("--base-url", server.url, "--model", "gpt-4o")
        async with await anyio.open_process(
            [sys.executable, "-c", UNDER_ANY_PARENT, "-p", "go", *flags],
            env=place.env,
            cwd=place.project,
            stdin=subprocess.DEVNULL,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            with anyio.fail_after(60):
                await stall.reached.wait()
                seen = b""
                while b"Half" not in seen:
                    seen += await process.stdout.receive()
                process.send_signal(number)
                told = b"".join([data async for data in process.stderr])
                assert await process.wait() == 128 + number

    assert b"the partial answer is saved (clew --resume" in told
    assert "Half an answer" in await kept(place)


@pytest.mark.req("CLI-1")
async def test_the_prompt_leaves_the_terminal_as_it_was(place: Place) -> None:
    async with (
        fake_openai(text_response("Hello")) as server,
        clew_for(place, "--base-url", server.url, "--model", "gpt-4o") as person,
    ):
        await person.prompted()
        await person.says("hi")
        person.types("half a line")
        await person.sees("half a line")
        person.process.send_signal(signal.SIGTERM)
        await _ended(person, 128 + signal.SIGTERM)

    assert "resume with: clew --resume" in "\n".join(person.lines)
    assert 2004 << 5 not in person.screen.mode  # pasting is no longer marked


@pytest.mark.req("CLI-1", "TOL-5")
async def test_a_run_at_the_prompt_is_aborted_with_all_it_started(place: Place) -> None:
    marker = place.project / "pid"
    command = '{"command":"echo $$ > pid; exec sleep 777"}'
    async with (
        fake_openai(tool_call_response("Bash", command), text_response("never")) as server,
        clew_for(
            place,
            *("--base-url", server.url, "--model", "gpt-4o", "--sandbox", "off"),
            *("--permission-mode", "bypassPermissions"),
        ) as person,
    ):
        await person.prompted()
        person.enters("run it")
        with anyio.fail_after(60):
            while not (marker.exists() and marker.read_text().strip()):
                await anyio.lowlevel.checkpoint()
        person.process.send_signal(signal.SIGTERM)
        await _ended(person, 128 + signal.SIGTERM)

    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)


async def _ended(person: Person, code: int) -> None:
    with anyio.fail_after(60):
        while await person._read_on():
            pass
        assert await person.process.wait() == code
